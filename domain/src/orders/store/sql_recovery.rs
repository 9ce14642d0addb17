//! The step of recovery that only the database can do: begin an epoch and read what it begins with.

use std::collections::BTreeSet;

use entity::sale::SaleStage;
use entity::stock_entry::StockReason;
use entity::{order, sale, stock_entry};
use sea_orm::sea_query::Expr;
use sea_orm::{
    ActiveValue::Set, ColumnTrait, DatabaseTransaction, DbErr, EntityTrait, QueryFilter, QueryOrder,
};

use super::sql::SqlStore;
use super::sql_apply::lock_sales;
use super::{Attempt, HeldUnit, Snapshot};
use crate::orders::{OrderId, OrderRow, waiters};
use crate::users::UserId;
use crate::vouchers::{Sale, VoucherId};

/// Orders read at a time; a sale may have a million.
const PAGE: u64 = 10_000;

impl SqlStore {
    pub(super) async fn start_epoch(
        &self,
        voucher: VoucherId,
        token: String,
    ) -> Result<Option<Snapshot>, DbErr> {
        let clock = self.clock.clone();
        self.db
            .write(move |txn| {
                let (token, now) = (token.clone(), clock.now_ms());
                Box::pin(async move {
                    let mut sales = lock_sales(txn, BTreeSet::from([voucher.0])).await?;
                    let Some(mut sale) = sales.remove(&voucher.0) else {
                        return Ok(None);
                    };
                    let ours =
                        sale.lease_token.as_deref() == Some(&*token) && sale.lease_until > now;
                    // A recoverer that slept while another finished finds its announcement gone.
                    let announced = sale.announced == sale.epoch + 1;
                    if !ours || !announced || sale.stage == SaleStage::Settled {
                        return Ok(None);
                    }
                    if sale.stage == SaleStage::Draft {
                        stock_entry::Entity::insert(opened(&sale, now))
                            .exec_without_returning(txn)
                            .await?;
                    }
                    sale.epoch += 1;
                    sale.announced = sale.epoch;
                    sale.stage = SaleStage::Opened;
                    sale.version += 1;
                    sale::Entity::update_many()
                        .col_expr(sale::Column::Epoch, Expr::value(sale.epoch))
                        .col_expr(sale::Column::Announced, Expr::value(sale.epoch))
                        .col_expr(sale::Column::Stage, Expr::value(SaleStage::Opened))
                        .col_expr(sale::Column::Version, Expr::value(sale.version))
                        .filter(sale::Column::VoucherId.eq(voucher.0))
                        .exec(txn)
                        .await?;
                    let (held, attempts) = units_and_attempts(txn, voucher).await?;
                    Ok(Some(Snapshot {
                        sale,
                        held,
                        attempts,
                        waiting: waiters::length(voucher, txn).await?,
                    }))
                })
            })
            .await
    }
}

fn opened(sale: &Sale, now: i64) -> stock_entry::ActiveModel {
    stock_entry::ActiveModel {
        voucher_id: Set(sale.voucher_id),
        order_id: Set(None),
        reason: Set(StockReason::Open),
        sold_delta: Set(0),
        total_delta: Set(sale.total),
        sold_before: Set(0),
        sold_after: Set(0),
        total_before: Set(0),
        total_after: Set(sale.total),
        created_at: Set(now),
        ..Default::default()
    }
}

async fn units_and_attempts(
    txn: &DatabaseTransaction,
    voucher: VoucherId,
) -> Result<(Vec<HeldUnit>, Vec<Attempt>), DbErr> {
    let (mut held, mut attempts) = (Vec::new(), Vec::new());
    let mut after = 0;
    loop {
        use sea_orm::QuerySelect;
        let page: Vec<OrderRow> = order::Entity::find()
            .filter(order::Column::VoucherId.eq(voucher.0))
            .filter(order::Column::Id.gt(after))
            .order_by_asc(order::Column::Id)
            .limit(PAGE)
            .all(txn)
            .await?;
        let Some(last) = page.last() else {
            return Ok((held, attempts));
        };
        after = last.id;
        for row in page {
            let unit = HeldUnit {
                order: OrderId(row.id),
                user: UserId(row.user_id),
                slot: row.slot,
            };
            if row.active.is_some() {
                held.push(unit.clone());
            }
            attempts.push(Attempt {
                unit,
                reserved_at: row.reserved_at,
                request_id: row.request_id,
            });
        }
    }
}
