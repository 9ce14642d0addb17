//! The books of a sale as its merchant changes them, and their end. Each step counts only for the version, the epoch
//! or the lease it was made for.

use std::collections::BTreeSet;

use entity::giveback::GivebackStatus;
use entity::order::OrderStatus;
use entity::sale::SaleStage;
use entity::stock_entry::StockReason;
use entity::{giveback, order, sale, stock_entry};
use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{
    ActiveValue::Set, ColumnTrait, DatabaseTransaction, DbErr, EntityTrait, PaginatorTrait,
    QueryFilter,
};

use super::sql::SqlStore;
use super::sql_apply::lock_sales;
use crate::vouchers::{Sale, VoucherId};

impl SqlStore {
    pub(super) async fn keep_target(&self, voucher: VoucherId, total: i64) -> Result<bool, DbErr> {
        let kept = sale::Entity::update_many()
            .col_expr(sale::Column::AdjustTarget, Expr::value(total))
            .col_expr(
                sale::Column::AdjustVersion,
                Expr::col(sale::Column::AdjustVersion).add(1),
            )
            .filter(sale::Column::VoucherId.eq(voucher.0))
            .filter(sale::Column::Stage.eq(SaleStage::Opened))
            .filter(sale::Column::EndMs.gt(self.clock.now_ms()))
            .filter(sale::Column::AdjustTarget.is_null());
        Ok(self.change(kept).await? == 1)
    }

    pub(super) async fn write_total_of(
        &self,
        voucher: VoucherId,
        version: i64,
        epoch: Option<i64>,
    ) -> Result<bool, DbErr> {
        let clock = self.clock.clone();
        self.db
            .write(move |txn| {
                let now = clock.now_ms();
                Box::pin(async move {
                    let Some(sale) = lock_sales(txn, BTreeSet::from([voucher.0]))
                        .await?
                        .remove(&voucher.0)
                    else {
                        return Ok(false);
                    };
                    let Some(target) = sale.adjust_target else {
                        return Ok(false);
                    };
                    let meant =
                        sale.adjust_version == version && epoch.is_none_or(|e| e == sale.epoch);
                    if !meant || target < sale.sold {
                        return Ok(false);
                    }
                    if target != sale.total {
                        stock_entry::Entity::insert(adjusted(&sale, target, now))
                            .exec_without_returning(txn)
                            .await?;
                    }
                    set_total(txn, &sale, target, now).await?;
                    Ok(true)
                })
            })
            .await
    }

    pub(super) async fn end_target_of(
        &self,
        voucher: VoucherId,
        version: i64,
        epoch: i64,
    ) -> Result<bool, DbErr> {
        let ended = sale::Entity::update_many()
            .col_expr(sale::Column::AdjustTarget, Expr::value(None::<i64>))
            .filter(sale::Column::VoucherId.eq(voucher.0))
            .filter(sale::Column::AdjustVersion.eq(version))
            .filter(sale::Column::Epoch.eq(epoch));
        Ok(self.change(ended).await? == 1)
    }

    pub(super) async fn refuse_target_of(
        &self,
        voucher: VoucherId,
        version: i64,
    ) -> Result<bool, DbErr> {
        let refused = sale::Entity::update_many()
            .col_expr(sale::Column::AdjustTarget, Expr::col(sale::Column::Total))
            .col_expr(sale::Column::AdjustVersion, Expr::value(version + 1))
            .filter(sale::Column::VoucherId.eq(voucher.0))
            .filter(sale::Column::AdjustVersion.eq(version));
        Ok(self.change(refused).await? == 1)
    }

    pub(super) async fn settle_books(
        &self,
        voucher: VoucherId,
        token: String,
    ) -> Result<bool, DbErr> {
        let clock = self.clock.clone();
        self.db
            .write(move |txn| {
                let (token, now) = (token.clone(), clock.now_ms());
                Box::pin(async move {
                    let Some(sale) = lock_sales(txn, BTreeSet::from([voucher.0]))
                        .await?
                        .remove(&voucher.0)
                    else {
                        return Ok(false);
                    };
                    let ours =
                        sale.lease_token.as_deref() == Some(&*token) && sale.lease_until > now;
                    let over = sale.stage == SaleStage::Opened
                        && sale.end_ms <= now
                        && sale.adjust_target.is_none();
                    if !ours || !over || !is_quiet(txn, voucher).await? {
                        return Ok(false);
                    }
                    sale::Entity::update_many()
                        .col_expr(sale::Column::Stage, Expr::value(SaleStage::Settled))
                        .col_expr(sale::Column::SettledAt, Expr::value(now))
                        .col_expr(sale::Column::Version, Expr::value(sale.version + 1))
                        .filter(sale::Column::VoucherId.eq(voucher.0))
                        .exec(txn)
                        .await?;
                    Ok(true)
                })
            })
            .await
    }

    pub(super) async fn books_are_quiet(&self, voucher: VoucherId) -> Result<bool, DbErr> {
        is_quiet(self.db.conn(), voucher).await
    }
}

/// Whether no order of a sale waits for payment and no unit for its way back.
async fn is_quiet<C: sea_orm::ConnectionTrait>(
    conn: &C,
    voucher: VoucherId,
) -> Result<bool, DbErr> {
    let unpaid = order::Entity::find()
        .filter(order::Column::VoucherId.eq(voucher.0))
        .filter(order::Column::Status.eq(OrderStatus::Unpaid))
        .count(conn)
        .await?;
    let pending = giveback::Entity::find()
        .filter(giveback::Column::VoucherId.eq(voucher.0))
        .filter(giveback::Column::Status.eq(GivebackStatus::Pending))
        .count(conn)
        .await?;
    Ok(unpaid == 0 && pending == 0)
}

fn adjusted(sale: &Sale, total: i64, now: i64) -> stock_entry::ActiveModel {
    stock_entry::ActiveModel {
        voucher_id: Set(sale.voucher_id),
        order_id: Set(None),
        reason: Set(StockReason::Adjust),
        sold_delta: Set(0),
        total_delta: Set(total - sale.total),
        sold_before: Set(sale.sold),
        sold_after: Set(sale.sold),
        total_before: Set(sale.total),
        total_after: Set(total),
        created_at: Set(now),
        ..Default::default()
    }
}

async fn set_total(
    txn: &DatabaseTransaction,
    sale: &Sale,
    total: i64,
    now: i64,
) -> Result<(), DbErr> {
    sale::Entity::update_many()
        .col_expr(sale::Column::Total, Expr::value(total))
        .col_expr(sale::Column::UpdatedAt, Expr::value(now))
        .col_expr(sale::Column::Version, Expr::value(sale.version + 1))
        .filter(sale::Column::VoucherId.eq(sale.voucher_id))
        .exec(txn)
        .await
        .map(|_| ())
}
