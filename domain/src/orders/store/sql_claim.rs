//! Ordinary vouchers in the database: a claim is one transaction under the row of its offer, and so is what a closed
//! order leaves behind.

use std::collections::{BTreeSet, HashMap};

use entity::order::OrderStatus;
use entity::shop::ShopStatus;
use entity::stock_entry::StockReason;
use entity::voucher::VoucherStatus;
use entity::{claim, offer, order, shop, stock_entry, voucher};
use sea_orm::sea_query::Expr;
use sea_orm::{
    ActiveValue::Set, ColumnTrait, DatabaseTransaction, DbErr, EntityTrait, IntoActiveModel,
    QueryFilter, QueryOrder, QuerySelect,
};

use super::sql::SqlStore;
use super::sql_payments::redeem_tag;
use super::sql_sold::note_sold;
use crate::infra::db::is_unique_violation;
use crate::orders::claim::{Claim, ClaimRefusal, Claimed, OfferCount};
use crate::orders::{OrderId, OrderRow};
use crate::vouchers::{Voucher, offer_entry};

impl SqlStore {
    pub(super) async fn claim_units(&self, claim: &Claim, new: OrderId) -> Result<Claimed, DbErr> {
        match self.claim_once(claim, new).await {
            // The same request for another voucher at the same moment: it is written now, so it will be found.
            Err(e) if is_unique_violation(&e) => self.claim_once(claim, new).await,
            result => result,
        }
    }

    async fn claim_once(&self, claim: &Claim, new: OrderId) -> Result<Claimed, DbErr> {
        let (claim, store) = (claim.clone(), self.clone());
        self.db
            .write(move |txn| {
                let (claim, store) = (claim.clone(), store.clone());
                Box::pin(async move { store.claim_in(txn, &claim, new).await })
            })
            .await
    }

    async fn claim_in(
        &self,
        txn: &DatabaseTransaction,
        claim: &Claim,
        new: OrderId,
    ) -> Result<Claimed, DbErr> {
        let offers = lock_offers(txn, BTreeSet::from([claim.voucher.0])).await?;
        let Some(offer) = offers.get(&claim.voucher.0) else {
            return Ok(Claimed::NoOffer);
        };
        let request = (claim.buyer.0, claim.request.as_str().to_owned());
        if let Some(known) = claim::Entity::find_by_id(request).one(txn).await? {
            let same = (known.voucher_id, known.quantity) == (claim.voucher.0, claim.quantity);
            return Ok(if same {
                Claimed::Order(OrderId(known.order_id))
            } else {
                Claimed::Reused
            });
        }
        let Some(voucher) = on_sale(txn, claim).await? else {
            return Ok(Claimed::Refused(ClaimRefusal::NotOnSale));
        };
        let live = live_orders(txn, claim).await?;
        let count = OfferCount {
            total: offer.total,
            sold: offer.sold,
            limit: offer.per_user_limit,
            held: live.iter().map(|(_, quantity)| i64::from(*quantity)).sum(),
        };
        if let Err(refusal) = count.allow(claim.quantity) {
            return Ok(Claimed::Refused(refusal));
        }
        let slot = 1 + live.iter().map(|(slot, n)| slot + n - 1).max().unwrap_or(0);
        let row = self.claimed_row(claim, &voucher, (new, slot));
        write_claim(txn, offer, row).await?;
        Ok(Claimed::Order(new))
    }

    fn claimed_row(&self, claim: &Claim, voucher: &Voucher, new: (OrderId, i32)) -> OrderRow {
        let now = self.clock.now_ms();
        let pay_window_ms =
            i64::try_from(self.settings.pay_window.as_millis()).unwrap_or(i64::MAX / 4);
        let mut row = OrderRow {
            id: new.0.0,
            voucher_id: voucher.id,
            shop_id: voucher.shop_id,
            user_id: claim.buyer.0,
            slot: new.1,
            active: Some(1),
            status: OrderStatus::Unpaid,
            price_minor: voucher.price_minor * i64::from(claim.quantity),
            currency: voucher.currency.clone(),
            request_id: claim.request.as_str().to_owned(),
            reserved_at: now,
            epoch: 0,
            created_at: now,
            pay_by: now + pay_window_ms,
            paid_at: None,
            closed_at: None,
            close_reason: None,
            used_at: None,
            version: 1,
            quantity: claim.quantity,
            redeem_tag: None,
        };
        if row.price_minor == 0 {
            // There is nothing to wait for.
            row.status = OrderStatus::Paid;
            row.paid_at = Some(now);
            row.redeem_tag = Some(redeem_tag(&row, &self.settings.id_secret));
        }
        row
    }
}

/// Locks the offers among these vouchers in id order, after sales and before orders.
pub(super) async fn lock_offers(
    txn: &DatabaseTransaction,
    vouchers: BTreeSet<i64>,
) -> Result<HashMap<i64, offer::Model>, DbErr> {
    if vouchers.is_empty() {
        return Ok(HashMap::new());
    }
    let offers = offer::Entity::find()
        .filter(offer::Column::VoucherId.is_in(vouchers))
        .order_by_asc(offer::Column::VoucherId)
        .lock_exclusive()
        .all(txn)
        .await?;
    Ok(offers.into_iter().map(|o| (o.voucher_id, o)).collect())
}

/// Takes the units of closed orders out of `sold`, and writes each order into the ledger.
pub(super) async fn count_left(
    txn: &DatabaseTransaction,
    offers: &HashMap<i64, offer::Model>,
    closed: &[OrderRow],
    now: i64,
) -> Result<(), DbErr> {
    let mut offers = offers.clone();
    for row in closed {
        if let Some(offer) = offers.get_mut(&row.voucher_id) {
            let left = (row.id, -i64::from(row.quantity), StockReason::Close);
            count(txn, offer, left, now).await?;
        }
    }
    Ok(())
}

/// Changes `sold` by an order's units, in the offer's row and in the ledger.
async fn count(
    txn: &DatabaseTransaction,
    offer: &mut offer::Model,
    (order, units, reason): (i64, i64, StockReason),
    now: i64,
) -> Result<(), DbErr> {
    let before = offer.sold;
    offer.sold += units;
    offer::Entity::update_many()
        .col_expr(offer::Column::Sold, Expr::value(offer.sold))
        .filter(offer::Column::VoucherId.eq(offer.voucher_id))
        .exec(txn)
        .await?;
    let entry = stock_entry::ActiveModel {
        order_id: Set(Some(order)),
        sold_delta: Set(units),
        total_delta: Set(0),
        sold_before: Set(before),
        total_before: Set(offer.total.unwrap_or(0)),
        ..offer_entry(offer, reason, now)
    };
    stock_entry::Entity::insert(entry)
        .exec_without_returning(txn)
        .await
        .map(|_| ())
}

/// The voucher, if it is offered by a shop that is in business.
async fn on_sale(txn: &DatabaseTransaction, claim: &Claim) -> Result<Option<Voucher>, DbErr> {
    let Some(voucher) = voucher::Entity::find_by_id(claim.voucher.0)
        .one(txn)
        .await?
    else {
        return Ok(None);
    };
    let shop = shop::Entity::find_by_id(voucher.shop_id).one(txn).await?;
    let is_open = shop.is_some_and(|s| s.status == ShopStatus::Open);
    Ok(Some(voucher).filter(|v| is_open && v.status == VoucherStatus::Active))
}

/// Slot and units of each order that holds units of this buyer.
async fn live_orders(txn: &DatabaseTransaction, claim: &Claim) -> Result<Vec<(i32, i32)>, DbErr> {
    order::Entity::find_live(claim.voucher.0)
        .select_only()
        .columns([order::Column::Slot, order::Column::Quantity])
        .filter(order::Column::UserId.eq(claim.buyer.0))
        .into_tuple()
        .all(txn)
        .await
}

async fn write_claim(
    txn: &DatabaseTransaction,
    offer: &offer::Model,
    row: OrderRow,
) -> Result<(), DbErr> {
    let taken = (row.id, i64::from(row.quantity), StockReason::Order);
    count(txn, &mut offer.clone(), taken, row.created_at).await?;
    if row.status == OrderStatus::Paid {
        note_sold(txn, &row, 1).await?;
    }
    let request = claim::Model {
        user_id: row.user_id,
        request_id: row.request_id.clone(),
        voucher_id: row.voucher_id,
        quantity: row.quantity,
        order_id: row.id,
        created_at: row.created_at,
    };
    claim::Entity::insert(request.into_active_model())
        .exec_without_returning(txn)
        .await?;
    order::Entity::insert(row.into_active_model())
        .exec_without_returning(txn)
        .await
        .map(|_| ())
}
