//! The window of a flash sale, and the lists of sales. What happens inside the window is in `orders`.

use entity::sale::{self, SaleStage};
use sea_orm::{ColumnTrait, Condition, DbErr, EntityTrait, QueryFilter, QueryOrder, QuerySelect};

use super::{Error, Sale, VoucherId, Vouchers};
use crate::shops::ShopId;

/// Where a sale stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SaleState {
    /// Not published.
    Draft,
    /// Published; its window has not opened.
    Announced,
    /// Its window is open.
    Running,
    /// Its window is open, but its merchant paused it, or a difference of the books froze it.
    Paused,
    /// Its window is over.
    Ended,
    /// Its books are closed.
    Settled,
}

/// Where a sale stands at a time in epoch milliseconds. The window is `[begin, end)`.
pub fn state(sale: &Sale, now_ms: i64) -> SaleState {
    match sale.stage {
        SaleStage::Draft => SaleState::Draft,
        SaleStage::Settled => SaleState::Settled,
        SaleStage::Opened if now_ms >= sale.end_ms => SaleState::Ended,
        SaleStage::Opened if sale.paused || sale.frozen => SaleState::Paused,
        SaleStage::Opened if now_ms < sale.begin_ms => SaleState::Announced,
        SaleStage::Opened => SaleState::Running,
    }
}

/// Which sales to list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlashSaleFilter {
    /// Only those in this state; `None`: all that are published.
    pub state: Option<SaleState>,
    /// Only those of this shop.
    pub shop_id: Option<ShopId>,
}

impl Vouchers {
    /// Sales by the opening of their window, the earliest first, after a place in that order; at most `limit`.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn flash_sales(
        &self,
        filter: FlashSaleFilter,
        after: Option<(i64, VoucherId)>,
        limit: u64,
    ) -> Result<Vec<Sale>, Error> {
        Ok(self.read_sales(filter, after, limit).await?)
    }

    pub(super) async fn read_sales(
        &self,
        filter: FlashSaleFilter,
        after: Option<(i64, VoucherId)>,
        limit: u64,
    ) -> Result<Vec<Sale>, DbErr> {
        let now = self.infra.clock.now_ms();
        let mut condition = in_state(filter.state, now);
        if let Some(shop) = filter.shop_id {
            condition = condition.add(sale::Column::ShopId.eq(shop.0));
        }
        if let Some((begin_ms, voucher)) = after {
            let same_moment = Condition::all()
                .add(sale::Column::BeginMs.eq(begin_ms))
                .add(sale::Column::VoucherId.gt(voucher.0));
            condition = condition.add(
                Condition::any()
                    .add(sale::Column::BeginMs.gt(begin_ms))
                    .add(same_moment),
            );
        }
        let sales = sale::Entity::find()
            .filter(condition)
            .order_by_asc(sale::Column::BeginMs)
            .order_by_asc(sale::Column::VoucherId)
            .limit(limit);
        sales.all(self.infra.db.conn()).await
    }
}

/// The rules of `state`, as a condition.
fn in_state(state: Option<SaleState>, now: i64) -> Condition {
    let stage = |stage: SaleStage| Condition::all().add(sale::Column::Stage.eq(stage));
    let open = || stage(SaleStage::Opened).add(sale::Column::EndMs.gt(now));
    let held_up = || {
        Condition::any()
            .add(sale::Column::Paused.eq(true))
            .add(sale::Column::Frozen.eq(true))
    };
    let free = || {
        Condition::all()
            .add(sale::Column::Paused.eq(false))
            .add(sale::Column::Frozen.eq(false))
    };
    match state {
        None => Condition::all().add(sale::Column::Stage.ne(SaleStage::Draft)),
        Some(SaleState::Draft) => stage(SaleStage::Draft),
        Some(SaleState::Settled) => stage(SaleStage::Settled),
        Some(SaleState::Ended) => stage(SaleStage::Opened).add(sale::Column::EndMs.lte(now)),
        Some(SaleState::Paused) => open().add(held_up()),
        Some(SaleState::Announced) => open().add(free()).add(sale::Column::BeginMs.gt(now)),
        Some(SaleState::Running) => open().add(free()).add(sale::Column::BeginMs.lte(now)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_holds_its_first_moment_and_not_its_last() {
        let sale = Sale {
            voucher_id: 1,
            shop_id: 1,
            begin_ms: 100,
            end_ms: 200,
            total: 1,
            sold: 0,
            per_user_limit: 1,
            max_attempts: 3,
            price_minor: 1,
            currency: "VND".to_owned(),
            stage: SaleStage::Opened,
            paused: false,
            frozen: false,
            epoch: 1,
            announced: 1,
            adjust_version: 0,
            adjust_target: None,
            lease_token: None,
            lease_until: 0,
            created_at: 0,
            updated_at: 0,
            settled_at: None,
            version: 1,
        };
        let at = |now| state(&sale, now);
        assert_eq!(
            [at(99), at(100), at(199), at(200)],
            [
                SaleState::Announced,
                SaleState::Running,
                SaleState::Running,
                SaleState::Ended
            ]
        );
        let paused = Sale {
            paused: true,
            ..sale.clone()
        };
        assert_eq!(
            [state(&paused, 99), state(&paused, 150), state(&paused, 200)],
            [SaleState::Paused, SaleState::Paused, SaleState::Ended]
        );
        assert_eq!(
            state(
                &Sale {
                    stage: SaleStage::Draft,
                    ..sale
                },
                150
            ),
            SaleState::Draft
        );
    }
}
