//! The store in SQL: reads, leases and the trait. The three large transactions have files of their own.

use std::collections::HashMap;

use async_trait::async_trait;
use entity::order::OrderStatus;
use entity::sale::SaleStage;
use entity::{giveback, order, order_reject, payment, payment_intent, refund, sale};
use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{
    ColumnTrait, Condition, DbErr, EntityTrait, QueryFilter, QueryOrder, QuerySelect, Select,
    UpdateMany,
};

use super::{Barred, Found, Incoming, IntentBy, OrderStore, Recorded, Snapshot};
use crate::infra::clock::Clock;
use crate::infra::db::Db;
use crate::orders::apply::Outcome;
use crate::orders::claim::{Claim, Claimed};
use crate::orders::queued::QueuedOrderV1;
use crate::orders::{CloseReason, OrderId, OrderKey, OrderRow, Status};
use crate::settings::SaleSettings;
use crate::shops::ShopId;
use crate::users::UserId;
use crate::vouchers::{Money, Sale, VoucherId};

/// Ids in one IN list: far below every database's bind limit.
pub(super) const CHUNK: usize = 500;

/// The store in SQLite, MariaDB, MySQL or PostgreSQL. Cheap to clone.
#[derive(Clone, Debug)]
pub struct SqlStore {
    pub(super) db: Db,
    pub(super) clock: Clock,
    pub(super) settings: SaleSettings,
}

impl SqlStore {
    /// A store on this database.
    pub fn new(db: Db, clock: Clock, settings: SaleSettings) -> Self {
        Self {
            db,
            clock,
            settings,
        }
    }

    async fn find_in(&self, ids: &[i64]) -> Result<HashMap<OrderId, Found>, DbErr> {
        let mut found = HashMap::new();
        for chunk in ids.chunks(CHUNK) {
            let ids = chunk.iter().copied();
            for row in order_reject::Entity::find()
                .filter(order_reject::Column::OrderId.is_in(ids.clone()))
                .all(self.db.conn())
                .await?
            {
                found.insert(OrderId(row.order_id), Found::Reject(row));
            }
            for row in order::Entity::find()
                .filter(order::Column::Id.is_in(ids))
                .all(self.db.conn())
                .await?
            {
                found.insert(OrderId(row.id), Found::Row(row));
            }
        }
        Ok(found)
    }

    /// Reads rows in a task of its own, within the limit of one.
    pub(super) async fn all<E>(&self, query: Select<E>) -> Result<Vec<E::Model>, DbErr>
    where
        E: EntityTrait,
        E::Model: Send + Sync + 'static,
    {
        let db = self.db.clone();
        self.db.run(async move { query.all(db.conn()).await }).await
    }

    /// Changes rows by one statement, likewise; how many.
    pub(super) async fn change<E: EntityTrait>(&self, query: UpdateMany<E>) -> Result<u64, DbErr> {
        let db = self.db.clone();
        let change = async move { Ok(query.exec(db.conn()).await?.rows_affected) };
        self.db.run(change).await
    }

    async fn rows_of_user(
        &self,
        user: UserId,
        status: Option<OrderStatus>,
        before: i64,
        most: u64,
    ) -> Result<Vec<OrderRow>, DbErr> {
        let mut rows = order::Entity::find()
            .filter(order::Column::UserId.eq(user.0))
            .filter(order::Column::Id.lt(before));
        if let Some(status) = status {
            rows = rows.filter(order::Column::Status.eq(status));
        }
        rows.order_by_desc(order::Column::Id)
            .limit(most)
            .all(self.db.conn())
            .await
    }
}

#[async_trait]
impl OrderStore for SqlStore {
    async fn apply(&self, batch: &[QueuedOrderV1]) -> Result<Vec<Outcome>, DbErr> {
        self.apply_batch(batch).await
    }

    async fn claim(&self, claim: &Claim, new: OrderId) -> Result<Claimed, DbErr> {
        self.claim_units(claim, new).await
    }

    async fn find(&self, orders: &[OrderId]) -> Result<HashMap<OrderId, Found>, DbErr> {
        let ids: Vec<i64> = orders.iter().map(|o| o.0).collect();
        let store = self.clone();
        self.db.run(async move { store.find_in(&ids).await }).await
    }

    async fn of_user(
        &self,
        user: UserId,
        status: Option<Status>,
        before: Option<OrderId>,
        most: u64,
    ) -> Result<Vec<Found>, DbErr> {
        let before = before.map_or(i64::MAX, |o| o.0);
        let row_status = status.and_then(row_status);
        let mut found = Vec::new();
        if status.is_none() || row_status.is_some() {
            found.extend(
                self.rows_of_user(user, row_status, before, most)
                    .await?
                    .into_iter()
                    .map(Found::Row),
            );
        }
        if status.is_none() || status == Some(Status::Rejected) {
            let rejects = order_reject::Entity::find()
                .filter(order_reject::Column::UserId.eq(user.0))
                .filter(order_reject::Column::OrderId.lt(before))
                .order_by_desc(order_reject::Column::OrderId)
                .limit(most);
            found.extend(
                rejects
                    .all(self.db.conn())
                    .await?
                    .into_iter()
                    .map(Found::Reject),
            );
        }
        found.sort_by_key(|f| std::cmp::Reverse(f.order()));
        found.truncate(usize::try_from(most).unwrap_or(usize::MAX));
        Ok(found)
    }

    async fn latest_of(&self, user: UserId, voucher: VoucherId) -> Result<Option<OrderRow>, DbErr> {
        let rows = order::Entity::find()
            .filter(order::Column::UserId.eq(user.0))
            .filter(order::Column::VoucherId.eq(voucher.0))
            .order_by_desc(order::Column::Id)
            .limit(CHUNK as u64)
            .all(self.db.conn())
            .await?;
        let live = rows.iter().find(|r| r.active.is_some()).cloned();
        Ok(live.or_else(|| rows.into_iter().next()))
    }

    async fn bar(&self, key: OrderKey, price: &Money, epoch: i64) -> Result<Barred, DbErr> {
        self.bar_order(key, *price, epoch).await
    }

    async fn due(&self, now_ms: i64, most: u64) -> Result<Vec<(OrderId, VoucherId)>, DbErr> {
        let due = order::Entity::find_unpaid_due(now_ms)
            .select_only()
            .columns([order::Column::Id, order::Column::VoucherId])
            .limit(most)
            .into_tuple::<(i64, i64)>();
        let db = self.db.clone();
        let due = self.db.run(async move { due.all(db.conn()).await });
        Ok(due
            .await?
            .into_iter()
            .map(|(order, voucher)| (OrderId(order), VoucherId(voucher)))
            .collect())
    }

    async fn close(
        &self,
        orders: &[(OrderId, VoucherId)],
        reason: CloseReason,
    ) -> Result<Vec<OrderRow>, DbErr> {
        self.close_orders(orders, reason).await
    }

    async fn due_givebacks(&self, now_ms: i64, most: u64) -> Result<Vec<giveback::Model>, DbErr> {
        self.all(giveback::Entity::find_pending_due(now_ms).limit(most))
            .await
    }

    async fn givebacks_done(
        &self,
        voucher: VoucherId,
        rounds: &[(OrderId, i32)],
        epoch: Option<i64>,
    ) -> Result<u64, DbErr> {
        self.mark_givebacks_done(voucher, rounds, epoch).await
    }

    async fn givebacks_later(&self, orders: &[OrderId], next_at_ms: i64) -> Result<(), DbErr> {
        let change = giveback::Entity::update_many()
            .col_expr(
                giveback::Column::Attempts,
                Expr::col(giveback::Column::Attempts).add(1),
            )
            .col_expr(giveback::Column::NextAt, Expr::value(next_at_ms))
            .filter(giveback::Column::OrderId.is_in(orders.iter().map(|o| o.0)))
            .filter(giveback::Column::Status.eq(giveback::GivebackStatus::Pending));
        self.change(change).await.map(|_| ())
    }

    async fn set_target(&self, voucher: VoucherId, total: i64) -> Result<bool, DbErr> {
        self.keep_target(voucher, total).await
    }

    async fn write_total(
        &self,
        voucher: VoucherId,
        version: i64,
        epoch: Option<i64>,
    ) -> Result<bool, DbErr> {
        self.write_total_of(voucher, version, epoch).await
    }

    async fn end_target(
        &self,
        voucher: VoucherId,
        version: i64,
        epoch: i64,
    ) -> Result<bool, DbErr> {
        self.end_target_of(voucher, version, epoch).await
    }

    async fn refuse_target(&self, voucher: VoucherId, version: i64) -> Result<bool, DbErr> {
        self.refuse_target_of(voucher, version).await
    }

    async fn is_quiet(&self, voucher: VoucherId) -> Result<bool, DbErr> {
        let store = self.clone();
        self.db
            .run(async move { store.books_are_quiet(voucher).await })
            .await
    }

    async fn settle_sale(&self, voucher: VoucherId, token: &str) -> Result<bool, DbErr> {
        self.settle_books(voucher, token.to_owned()).await
    }

    async fn settled_since(&self, since_ms: i64) -> Result<Vec<Sale>, DbErr> {
        self.all(
            sale::Entity::find()
                .filter(sale::Column::Stage.eq(SaleStage::Settled))
                .filter(sale::Column::SettledAt.gte(since_ms)),
        )
        .await
    }

    async fn sale(&self, voucher: VoucherId) -> Result<Option<Sale>, DbErr> {
        let store = self.clone();
        self.db
            .run(async move {
                sale::Entity::find_by_id(voucher.0)
                    .one(store.db.conn())
                    .await
            })
            .await
    }

    async fn open_sales(&self) -> Result<Vec<Sale>, DbErr> {
        self.all(sale::Entity::find_open()).await
    }

    async fn hold_sale(&self, voucher: VoucherId, token: &str, ttl_ms: i64) -> Result<bool, DbErr> {
        let now = self.clock.now_ms();
        let free = Condition::any()
            .add(sale::Column::LeaseToken.is_null())
            .add(sale::Column::LeaseToken.eq(token))
            .add(sale::Column::LeaseUntil.lte(now));
        let held = sale::Entity::update_many()
            .col_expr(sale::Column::LeaseToken, Expr::value(token))
            .col_expr(sale::Column::LeaseUntil, Expr::value(now + ttl_ms))
            .filter(sale::Column::VoucherId.eq(voucher.0))
            .filter(sale::Column::Stage.ne(SaleStage::Settled))
            .filter(free);
        Ok(self.change(held).await? == 1)
    }

    async fn renew_sale(
        &self,
        voucher: VoucherId,
        token: &str,
        ttl_ms: i64,
    ) -> Result<bool, DbErr> {
        let now = self.clock.now_ms();
        let renewed = sale::Entity::update_many()
            .col_expr(sale::Column::LeaseUntil, Expr::value(now + ttl_ms))
            .filter(sale::Column::VoucherId.eq(voucher.0))
            .filter(sale::Column::LeaseToken.eq(token))
            .filter(sale::Column::LeaseUntil.gt(now));
        Ok(self.change(renewed).await? == 1)
    }

    async fn leave_sale(&self, voucher: VoucherId, token: &str) -> Result<(), DbErr> {
        let change = sale::Entity::update_many()
            .col_expr(sale::Column::LeaseToken, Expr::value(None::<String>))
            .col_expr(sale::Column::LeaseUntil, Expr::value(0_i64))
            .filter(sale::Column::VoucherId.eq(voucher.0))
            .filter(sale::Column::LeaseToken.eq(token));
        self.change(change).await.map(|_| ())
    }

    async fn announce(&self, voucher: VoucherId, token: &str) -> Result<bool, DbErr> {
        let announced = sale::Entity::update_many()
            .col_expr(
                sale::Column::Announced,
                Expr::col(sale::Column::Epoch).add(1),
            )
            .filter(sale::Column::VoucherId.eq(voucher.0))
            .filter(sale::Column::LeaseToken.eq(token))
            .filter(sale::Column::LeaseUntil.gt(self.clock.now_ms()));
        Ok(self.change(announced).await? == 1)
    }

    async fn advance(&self, voucher: VoucherId, token: &str) -> Result<Option<Snapshot>, DbErr> {
        self.start_epoch(voucher, token.to_owned()).await
    }

    async fn record_payment(&self, money: &Incoming) -> Result<Recorded, DbErr> {
        self.record_incoming(money.clone()).await
    }

    async fn orphans(
        &self,
        after: Option<(i64, i64)>,
        most: u64,
    ) -> Result<Vec<payment::Model>, DbErr> {
        let mut orphans = payment::Entity::find_orphans();
        if let Some((at, id)) = after {
            let same_time = payment::Column::ReceivedAt
                .eq(at)
                .and(payment::Column::Id.gt(id));
            orphans = orphans.filter(payment::Column::ReceivedAt.gt(at).or(same_time));
        }
        self.all(orphans.order_by_asc(payment::Column::Id).limit(most))
            .await
    }

    async fn judge_orphan(
        &self,
        orphan: &payment::Model,
        give_up_before_ms: i64,
    ) -> Result<Recorded, DbErr> {
        self.judge_orphan_again(orphan.clone(), give_up_before_ms)
            .await
    }

    async fn due_refunds(&self, now_ms: i64, most: u64) -> Result<Vec<refund::Model>, DbErr> {
        self.all(refund::Entity::find_pending_due(now_ms).limit(most))
            .await
    }

    async fn refund_done(&self, refund: &refund::Model) -> Result<bool, DbErr> {
        self.mark_refund_done(refund.clone()).await
    }

    async fn refund_later(&self, refund: &refund::Model, next_at_ms: i64) -> Result<(), DbErr> {
        let change = refund::Entity::update_many()
            .col_expr(
                refund::Column::Attempts,
                Expr::col(refund::Column::Attempts).add(1),
            )
            .col_expr(refund::Column::NextAt, Expr::value(next_at_ms))
            .filter(refund::Column::Id.eq(refund.id))
            .filter(refund::Column::Status.eq(refund::RefundStatus::Pending));
        self.change(change).await.map(|_| ())
    }

    async fn refunds_of(
        &self,
        orders: &[OrderId],
    ) -> Result<HashMap<OrderId, refund::Model>, DbErr> {
        let (ids, store): (Vec<i64>, _) = (orders.iter().map(|o| o.0).collect(), self.clone());
        self.db
            .run(async move { store.latest_refunds(&ids).await })
            .await
    }

    async fn tagged(&self, tag: i64) -> Result<Vec<OrderRow>, DbErr> {
        self.rows_of_tag(tag).await
    }

    async fn mark_used(&self, order: OrderId) -> Result<bool, DbErr> {
        self.use_paid(order).await
    }

    async fn refund_unused(&self, order: OrderId) -> Result<bool, DbErr> {
        self.begin_refund(order).await
    }

    async fn count_sold(&self, most: u64) -> Result<(usize, Vec<(ShopId, i64)>), DbErr> {
        self.add_up_sold(most).await
    }

    async fn keep_intent(
        &self,
        intent: payment_intent::Model,
    ) -> Result<payment_intent::Model, DbErr> {
        self.keep_first_intent(intent).await
    }

    async fn intent(&self, by: IntentBy<'_>) -> Result<Option<payment_intent::Model>, DbErr> {
        let intent = match by {
            IntentBy::Order(order) => payment_intent::Entity::find_by_id(order.0),
            IntentBy::Token(token) => {
                payment_intent::Entity::find().filter(payment_intent::Column::Token.eq(token))
            }
        };
        Ok(self.all(intent).await?.pop())
    }

    async fn open_intents(&self, voucher: VoucherId) -> Result<Vec<QueuedOrderV1>, DbErr> {
        let intents = self
            .all(
                payment_intent::Entity::find()
                    .filter(payment_intent::Column::VoucherId.eq(voucher.0))
                    .filter(payment_intent::Column::Status.eq(payment_intent::IntentStatus::Open)),
            )
            .await?;
        // An intent without a readable payload was opened for an order that had its row already.
        Ok(intents
            .iter()
            .filter_map(|i| QueuedOrderV1::parse(i.payload.as_bytes()).ok())
            .collect())
    }
}

impl Found {
    /// Which order this is.
    pub fn order(&self) -> OrderId {
        match self {
            Self::Row(row) => OrderId(row.id),
            Self::Reject(row) => OrderId(row.order_id),
        }
    }

    /// Whose it is.
    pub fn buyer(&self) -> UserId {
        match self {
            Self::Row(row) => UserId(row.user_id),
            Self::Reject(row) => UserId(row.user_id),
        }
    }
}

fn row_status(status: Status) -> Option<OrderStatus> {
    match status {
        Status::Unpaid => Some(OrderStatus::Unpaid),
        Status::Paid => Some(OrderStatus::Paid),
        Status::Used => Some(OrderStatus::Used),
        Status::Closed => Some(OrderStatus::Closed),
        Status::Refunding => Some(OrderStatus::Refunding),
        Status::Refunded => Some(OrderStatus::Refunded),
        Status::Queued | Status::Rejected => None,
    }
}
