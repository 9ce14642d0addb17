//! Money in the database: what arrived, what it paid, what goes back. One transaction each; the order's compare and
//! set decides between pay and close.

use std::collections::HashMap;

use entity::order::OrderStatus;
use entity::payment::PaymentOutcome;
use entity::refund::{RefundReason, RefundStatus};
use entity::{order, order_reject, payment, payment_intent, refund};
use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{
    ActiveValue::Set, ColumnTrait, DatabaseTransaction, DbErr, EntityTrait, IntoActiveModel,
    QueryFilter, QueryOrder,
};

use super::sql::{CHUNK, SqlStore};
use super::sql_redeem::end_refund;
use super::sql_sold::note_sold;
use super::{Incoming, Recorded};
use crate::infra::db::is_unique_violation;
use crate::orders::redeem::{code_of, tag_of};
use crate::orders::{OrderId, OrderKey};
use crate::settings::Secret;
use crate::users::UserId;
use crate::vouchers::VoucherId;

impl SqlStore {
    pub(super) async fn record_incoming(&self, money: Incoming) -> Result<Recorded, DbErr> {
        let (clock, secret) = (self.clock.clone(), self.settings.id_secret.clone());
        let recorded = self
            .db
            .write(move |txn| {
                let (money, secret, now) = (money.clone(), secret.clone(), clock.now_ms());
                Box::pin(async move {
                    let known = payment::Entity::find()
                        .filter(payment::Column::Provider.eq(&money.provider))
                        .filter(payment::Column::TransactionId.eq(&money.transaction))
                        .one(txn)
                        .await?;
                    if known.is_some() {
                        return Ok(Recorded::Repeated);
                    }
                    let row = received(&money, now);
                    payment::Entity::insert(row.clone().into_active_model())
                        .exec_without_returning(txn)
                        .await?;
                    let recorded = fit(txn, &row, &secret, now).await?;
                    decide(txn, &row, recorded, now).await?;
                    Ok(recorded)
                })
            })
            .await;
        match recorded {
            // Two callbacks of one transaction at once: the other one has recorded it.
            Err(e) if is_unique_violation(&e) => Ok(Recorded::Repeated),
            result => result,
        }
    }

    pub(super) async fn judge_orphan_again(
        &self,
        orphan: payment::Model,
        give_up_before_ms: i64,
    ) -> Result<Recorded, DbErr> {
        let (clock, secret) = (self.clock.clone(), self.settings.id_secret.clone());
        self.db
            .write(move |txn| {
                let (orphan, secret, now) = (orphan.clone(), secret.clone(), clock.now_ms());
                Box::pin(async move {
                    // Another worker may judge it at the same moment: who moves it out of ORPHAN decides.
                    let claimed = payment::Entity::update_many()
                        .col_expr(payment::Column::DecidedAt, Expr::value(now))
                        .filter(payment::Column::Id.eq(orphan.id))
                        .filter(payment::Column::Outcome.eq(PaymentOutcome::Orphan))
                        .exec(txn)
                        .await?;
                    if claimed.rows_affected == 0 {
                        return Ok(Recorded::Repeated);
                    }
                    let mut recorded = fit(txn, &orphan, &secret, now).await?;
                    if recorded == Recorded::Orphan && orphan.received_at <= give_up_before_ms {
                        recorded = Recorded::ToRefund(RefundReason::Orphan);
                    }
                    decide(txn, &orphan, recorded, now).await?;
                    Ok(recorded)
                })
            })
            .await
    }

    pub(super) async fn mark_refund_done(&self, refund: refund::Model) -> Result<bool, DbErr> {
        let clock = self.clock.clone();
        self.db
            .write(move |txn| {
                let now = clock.now_ms();
                Box::pin(async move {
                    let done = refund::Entity::update_many()
                        .col_expr(refund::Column::Status, Expr::value(RefundStatus::Done))
                        .col_expr(refund::Column::DoneAt, Expr::value(now))
                        .filter(refund::Column::Id.eq(refund.id))
                        .filter(refund::Column::Status.eq(RefundStatus::Pending))
                        .exec(txn)
                        .await?;
                    if done.rows_affected == 0 {
                        return Ok(false);
                    }
                    if refund.reason == RefundReason::Buyer {
                        end_refund(txn, refund.order_id).await?;
                    } else {
                        bump(txn, refund.order_id).await?;
                    }
                    Ok(true)
                })
            })
            .await
    }

    pub(super) async fn latest_refunds(
        &self,
        ids: &[i64],
    ) -> Result<HashMap<OrderId, refund::Model>, DbErr> {
        let mut latest = HashMap::new();
        for chunk in ids.chunks(CHUNK) {
            let rows = refund::Entity::find()
                .filter(refund::Column::OrderId.is_in(chunk.iter().copied()))
                .order_by_asc(refund::Column::CreatedAt)
                .order_by_asc(refund::Column::Id)
                .all(self.db.conn())
                .await?;
            for row in rows {
                let order = OrderId(row.order_id);
                // One that is still on its way is what its buyer waits for, whatever came after it.
                let is_awaited = |known: &refund::Model| known.status == RefundStatus::Pending;
                if row.status == RefundStatus::Pending
                    || !latest.get(&order).is_some_and(is_awaited)
                {
                    latest.insert(order, row);
                }
            }
        }
        Ok(latest)
    }

    pub(super) async fn keep_first_intent(
        &self,
        intent: payment_intent::Model,
    ) -> Result<payment_intent::Model, DbErr> {
        let order = intent.order_id;
        let conn = self.db.conn();
        if let Some(earlier) = payment_intent::Entity::find_by_id(order).one(conn).await? {
            return self.complete_intent(earlier, intent.payload).await;
        }
        match payment_intent::Entity::insert(intent.clone().into_active_model())
            .exec_without_returning(conn)
            .await
        {
            Ok(_) => Ok(intent),
            Err(e) if is_unique_violation(&e) => payment_intent::Entity::find_by_id(order)
                .one(conn)
                .await?
                .ok_or(DbErr::RecordNotFound(format!("intent {order}"))),
            Err(e) => Err(e),
        }
    }

    /// An intent that was opened before anybody could read the order's payload takes it now.
    async fn complete_intent(
        &self,
        mut earlier: payment_intent::Model,
        payload: String,
    ) -> Result<payment_intent::Model, DbErr> {
        if earlier.payload.is_empty() && !payload.is_empty() {
            payment_intent::Entity::update_many()
                .col_expr(payment_intent::Column::Payload, Expr::value(&payload))
                .filter(payment_intent::Column::OrderId.eq(earlier.order_id))
                .filter(payment_intent::Column::Payload.eq(""))
                .exec(self.db.conn())
                .await?;
            earlier.payload = payload;
        }
        Ok(earlier)
    }
}

fn received(money: &Incoming, now: i64) -> payment::Model {
    payment::Model {
        id: money.id,
        provider: money.provider.clone(),
        transaction_id: money.transaction.clone(),
        order_id: money.order.0,
        amount_minor: money.amount_minor,
        currency: money.currency.clone(),
        outcome: PaymentOutcome::Orphan,
        received_at: now,
        decided_at: None,
    }
}

/// What the money is good for; pays the order if it can.
async fn fit(
    txn: &DatabaseTransaction,
    money: &payment::Model,
    secret: &Secret,
    now: i64,
) -> Result<Recorded, DbErr> {
    let Some(row) = order::Entity::find_by_id(money.order_id).one(txn).await? else {
        let rejected = order_reject::Entity::find_by_id(money.order_id)
            .one(txn)
            .await?
            .is_some();
        return Ok(if rejected {
            Recorded::ToRefund(RefundReason::Rejected)
        } else {
            Recorded::Orphan
        });
    };
    if (row.price_minor, &row.currency) != (money.amount_minor, &money.currency) {
        tracing::error!(
            order.id = row.id,
            "a payment has another amount or currency than its order; it goes back"
        );
        return Ok(Recorded::ToRefund(RefundReason::WrongAmount));
    }
    let paid = order::Entity::update_many()
        .col_expr(order::Column::Status, Expr::value(OrderStatus::Paid))
        .col_expr(order::Column::PaidAt, Expr::value(now))
        .col_expr(
            order::Column::RedeemTag,
            Expr::value(redeem_tag(&row, secret)),
        )
        .col_expr(
            order::Column::Version,
            Expr::col(order::Column::Version).add(1),
        )
        .filter(order::Column::Id.eq(row.id))
        .filter(order::Column::Status.eq(OrderStatus::Unpaid))
        .exec(txn)
        .await?;
    if paid.rows_affected == 1 {
        note_sold(txn, &row, 1).await?;
        return Ok(Recorded::Paid);
    }
    // It was read before the compare and set: what it is now decides between late and second.
    let now_closed = order::Entity::find_by_id(row.id)
        .one(txn)
        .await?
        .is_some_and(|r| r.status == OrderStatus::Closed);
    Ok(Recorded::ToRefund(if now_closed {
        RefundReason::Late
    } else {
        RefundReason::Second
    }))
}

async fn decide(
    txn: &DatabaseTransaction,
    money: &payment::Model,
    recorded: Recorded,
    now: i64,
) -> Result<(), DbErr> {
    let (outcome, decided) = match recorded {
        Recorded::Paid => (PaymentOutcome::Paid, Some(now)),
        Recorded::ToRefund(reason) => {
            refund::Entity::insert(refund_of(money, reason, now))
                .exec_without_returning(txn)
                .await?;
            bump(txn, money.order_id).await?;
            (PaymentOutcome::Refund, Some(now))
        }
        Recorded::Orphan | Recorded::Repeated => (PaymentOutcome::Orphan, None),
    };
    payment::Entity::update_many()
        .col_expr(payment::Column::Outcome, Expr::value(outcome))
        .col_expr(payment::Column::DecidedAt, Expr::value(decided))
        .filter(payment::Column::Id.eq(money.id))
        .exec(txn)
        .await?;
    payment_intent::Entity::update_many()
        .col_expr(
            payment_intent::Column::Status,
            Expr::value(payment_intent::IntentStatus::Done),
        )
        .filter(payment_intent::Column::OrderId.eq(money.order_id))
        .filter(Expr::value(outcome != PaymentOutcome::Orphan))
        .exec(txn)
        .await?;
    Ok(())
}

/// By which a paid order is found when its code is shown in the shop.
pub(super) fn redeem_tag(row: &order::Model, secret: &Secret) -> i64 {
    let key = OrderKey {
        order: OrderId(row.id),
        voucher: VoucherId(row.voucher_id),
        buyer: UserId(row.user_id),
    };
    tag_of(secret, &code_of(secret, key))
}

pub(super) fn refund_of(
    money: &payment::Model,
    reason: RefundReason,
    now: i64,
) -> refund::ActiveModel {
    refund::ActiveModel {
        // One payment has one refund at the most, so its id serves.
        id: Set(money.id),
        provider: Set(money.provider.clone()),
        transaction_id: Set(money.transaction_id.clone()),
        order_id: Set(money.order_id),
        amount_minor: Set(money.amount_minor),
        currency: Set(money.currency.clone()),
        reason: Set(reason),
        status: Set(RefundStatus::Pending),
        idempotency_key: Set(format!("refund-{}", money.id)),
        attempts: Set(0),
        next_at: Set(now),
        created_at: Set(now),
        done_at: Set(None),
    }
}

/// Lets whoever watches the order see that its refund changed.
async fn bump(txn: &DatabaseTransaction, order: i64) -> Result<(), DbErr> {
    order::Entity::update_many()
        .col_expr(
            order::Column::Version,
            Expr::col(order::Column::Version).add(1),
        )
        .filter(order::Column::Id.eq(order))
        .exec(txn)
        .await
        .map(|_| ())
}
