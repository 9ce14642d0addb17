//! What happens to a paid order: it is used, or its money goes back. The order's compare and set decides which.

use entity::order::OrderStatus;
use entity::payment::PaymentOutcome;
use entity::refund::RefundReason;
use entity::{order, payment, refund};
use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{ColumnTrait, DatabaseTransaction, DbErr, EntityTrait, QueryFilter};

use super::sql::SqlStore;
use super::sql_payments::refund_of;
use super::sql_sold::note_sold;
use crate::orders::{OrderId, OrderRow};

impl SqlStore {
    pub(super) async fn rows_of_tag(&self, tag: i64) -> Result<Vec<OrderRow>, DbErr> {
        let db = self.db.clone();
        let tagged = order::Entity::find().filter(order::Column::RedeemTag.eq(tag));
        self.db
            .run(async move { tagged.all(db.conn()).await })
            .await
    }

    pub(super) async fn use_paid(&self, order: OrderId) -> Result<bool, DbErr> {
        let clock = self.clock.clone();
        self.db
            .write(move |txn| {
                let now = clock.now_ms();
                Box::pin(async move {
                    let used = moved(order.0, OrderStatus::Paid, OrderStatus::Used)
                        .col_expr(order::Column::UsedAt, Expr::value(now))
                        .exec(txn)
                        .await?;
                    Ok(used.rows_affected == 1)
                })
            })
            .await
    }

    pub(super) async fn begin_refund(&self, order: OrderId) -> Result<bool, DbErr> {
        let clock = self.clock.clone();
        self.db
            .write(move |txn| {
                let now = clock.now_ms();
                Box::pin(async move {
                    // First the order, so that its payment is there to be found when it is paid.
                    let begun = moved(order.0, OrderStatus::Paid, OrderStatus::Refunding)
                        .exec(txn)
                        .await?;
                    if begun.rows_affected == 0 {
                        return Ok(false);
                    }
                    if let Some(row) = order::Entity::find_by_id(order.0).one(txn).await? {
                        note_sold(txn, &row, -1).await?;
                    }
                    let paid = payment::Entity::find()
                        .filter(payment::Column::OrderId.eq(order.0))
                        .filter(payment::Column::Outcome.eq(PaymentOutcome::Paid))
                        .one(txn)
                        .await?;
                    match paid {
                        Some(money) => {
                            refund::Entity::insert(refund_of(&money, RefundReason::Buyer, now))
                                .exec_without_returning(txn)
                                .await?;
                        }
                        None => end_refund(txn, order.0).await?,
                    }
                    Ok(true)
                })
            })
            .await
    }
}

/// The money is back.
pub(super) async fn end_refund(txn: &DatabaseTransaction, order: i64) -> Result<(), DbErr> {
    moved(order, OrderStatus::Refunding, OrderStatus::Refunded)
        .exec(txn)
        .await
        .map(|_| ())
}

/// A step from one state to another; its row count says whether it happened.
fn moved(order: i64, from: OrderStatus, to: OrderStatus) -> sea_orm::UpdateMany<order::Entity> {
    order::Entity::update_many()
        .col_expr(order::Column::Status, Expr::value(to))
        .col_expr(
            order::Column::Version,
            Expr::col(order::Column::Version).add(1),
        )
        .filter(order::Column::Id.eq(order))
        .filter(order::Column::Status.eq(from))
}
