//! Where orders are kept: the seam between the flow and the database. Every method is one transaction or one read;
//! what it decides is decided by the pure functions beside the flow.

mod sql;
mod sql_apply;
mod sql_claim;
mod sql_close;
mod sql_payments;
mod sql_recovery;
mod sql_redeem;
mod sql_sale;
mod sql_sold;

use std::collections::HashMap;

use async_trait::async_trait;
use entity::refund::RefundReason;
use entity::{giveback, payment, payment_intent, refund};
use sea_orm::DbErr;

pub use sql::SqlStore;

use super::apply::Outcome;
use super::claim::{Claim, Claimed};
use super::queued::QueuedOrderV1;
use super::{CloseReason, OrderId, OrderKey, OrderRow, RejectRow, Status};
use crate::shops::ShopId;
use crate::users::UserId;
use crate::vouchers::{Money, Sale, VoucherId};

/// An order as the database knows it.
#[derive(Clone, Debug)]
pub enum Found {
    /// It has a row.
    Row(OrderRow),
    /// It was rejected.
    Reject(RejectRow),
}

/// What came of the attempt to say that an order is nowhere.
#[derive(Clone, Debug)]
pub enum Barred {
    /// It was somewhere after all.
    Found(Found),
    /// Now it is rejected as not placed.
    Rejected(RejectRow),
    /// Redis answered in another epoch than the database is in: ask again.
    OtherEpoch,
}

/// One unit that an order holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldUnit {
    /// The order.
    pub order: OrderId,
    /// Its buyer.
    pub user: UserId,
    /// The how-manieth of his.
    pub slot: i32,
}

/// One attempt of a buyer, closed ones included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The unit it was about.
    pub unit: HeldUnit,
    /// When it was taken, in epoch milliseconds.
    pub reserved_at: i64,
    /// The client's id of the request.
    pub request_id: String,
}

/// A sale as it stands when its epoch has just grown.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The sale, with its new epoch.
    pub sale: Sale,
    /// Units held.
    pub held: Vec<HeldUnit>,
    /// All attempts, in the order they were made.
    pub attempts: Vec<Attempt>,
    /// How many wait for a unit.
    pub waiting: i64,
}

/// Money that a provider says has arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incoming {
    /// The id its record will have.
    pub id: i64,
    /// Which provider.
    pub provider: String,
    /// The provider's id of the transaction.
    pub transaction: String,
    /// For which order; `OrderId(0)` when the provider named none of ours.
    pub order: OrderId,
    /// How much, in the currency's minor unit.
    pub amount_minor: i64,
    /// The currency as the provider wrote it.
    pub currency: String,
}

/// What became of money that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// The order is paid by it.
    Paid,
    /// It is to be refunded.
    ToRefund(RefundReason),
    /// It fits no order yet.
    Orphan,
    /// This transaction was recorded before.
    Repeated,
}

/// How an intent to pay is looked up.
#[derive(Clone, Copy, Debug)]
pub enum IntentBy<'a> {
    /// By its order.
    Order(OrderId),
    /// By the token in its address.
    Token(&'a str),
}

/// The store of orders.
#[async_trait]
pub trait OrderStore: Send + Sync {
    /// Writes a batch of queued orders, or says why not; the same batch again changes nothing.
    async fn apply(&self, batch: &[QueuedOrderV1]) -> Result<Vec<Outcome>, DbErr>;

    /// Takes units of an ordinary voucher by an order of this id, or says why not; the same request again changes
    /// nothing.
    async fn claim(&self, claim: &Claim, new: OrderId) -> Result<Claimed, DbErr>;

    /// Looks orders up by id; those that are nowhere are missing in the answer.
    async fn find(&self, orders: &[OrderId]) -> Result<HashMap<OrderId, Found>, DbErr>;

    /// The orders of a user, newest first, before `before`; rejected ones too when `status` is `None` or says so.
    async fn of_user(
        &self,
        user: UserId,
        status: Option<Status>,
        before: Option<OrderId>,
        most: u64,
    ) -> Result<Vec<Found>, DbErr>;

    /// The newest order of a user in one sale, those that hold a unit first.
    async fn latest_of(&self, user: UserId, voucher: VoucherId) -> Result<Option<OrderRow>, DbErr>;

    /// Rejects an order that is nowhere, if the sale is still in `epoch`.
    async fn bar(&self, key: OrderKey, price: &Money, epoch: i64) -> Result<Barred, DbErr>;

    /// Unpaid orders whose deadline has passed, the longest overdue first, with their vouchers.
    async fn due(&self, now_ms: i64, most: u64) -> Result<Vec<(OrderId, VoucherId)>, DbErr>;

    /// Closes those of the orders that are unpaid, and returns them as they are now.
    async fn close(
        &self,
        orders: &[(OrderId, VoucherId)],
        reason: CloseReason,
    ) -> Result<Vec<OrderRow>, DbErr>;

    /// Givebacks to do now, the oldest first.
    async fn due_givebacks(&self, now_ms: i64, most: u64) -> Result<Vec<giveback::Model>, DbErr>;

    /// Marks givebacks of one voucher as done, each in the round that was read, if the sale is still in `epoch`
    /// (`None`: whatever the epoch, for a settled sale). Returns how many.
    async fn givebacks_done(
        &self,
        voucher: VoucherId,
        rounds: &[(OrderId, i32)],
        epoch: Option<i64>,
    ) -> Result<u64, DbErr>;

    /// Puts givebacks off.
    async fn givebacks_later(&self, orders: &[OrderId], next_at_ms: i64) -> Result<(), DbErr>;

    /// Wishes another total for an open sale; `false` while another wish is open, or when the sale is not.
    async fn set_target(&self, voucher: VoucherId, total: i64) -> Result<bool, DbErr>;

    /// Writes the wished total of this version, in `epoch` where one is given; `false` when it is not meant any more,
    /// or more units are held.
    async fn write_total(
        &self,
        voucher: VoucherId,
        version: i64,
        epoch: Option<i64>,
    ) -> Result<bool, DbErr>;

    /// Ends the wish of this version, if the sale is still in `epoch`.
    async fn end_target(&self, voucher: VoucherId, version: i64, epoch: i64)
    -> Result<bool, DbErr>;

    /// Refuses the wish of this version: a new version wishes the total as it is.
    async fn refuse_target(&self, voucher: VoucherId, version: i64) -> Result<bool, DbErr>;

    /// Whether no order of a sale waits for payment and no unit for its way back.
    async fn is_quiet(&self, voucher: VoucherId) -> Result<bool, DbErr>;

    /// Closes the books of a sale that is over and quiet; `false` when it is not, or without the lease.
    async fn settle_sale(&self, voucher: VoucherId, token: &str) -> Result<bool, DbErr>;

    /// Sales settled at or after a time in epoch milliseconds.
    async fn settled_since(&self, since_ms: i64) -> Result<Vec<Sale>, DbErr>;

    /// The sale, read plainly.
    async fn sale(&self, voucher: VoucherId) -> Result<Option<Sale>, DbErr>;

    /// Sales that were opened and are not settled.
    async fn open_sales(&self) -> Result<Vec<Sale>, DbErr>;

    /// Takes or renews a sale's recovery lease; `false` when another holds it.
    async fn hold_sale(&self, voucher: VoucherId, token: &str, ttl_ms: i64) -> Result<bool, DbErr>;

    /// Keeps a sale's recovery lease for longer; `false` when it is not ours any more, even if nobody has it.
    async fn renew_sale(&self, voucher: VoucherId, token: &str, ttl_ms: i64)
    -> Result<bool, DbErr>;

    /// Gives a sale's recovery lease back; nothing happens when it is not ours any more.
    async fn leave_sale(&self, voucher: VoucherId, token: &str) -> Result<(), DbErr>;

    /// Announces the next epoch; `false` without the lease.
    async fn announce(&self, voucher: VoucherId, token: &str) -> Result<bool, DbErr>;

    /// Starts the next epoch and reads what it starts with; opens a draft. `None` without the lease.
    async fn advance(&self, voucher: VoucherId, token: &str) -> Result<Option<Snapshot>, DbErr>;

    /// Records money that arrived and decides what becomes of it; the same transaction again changes nothing.
    async fn record_payment(&self, money: &Incoming) -> Result<Recorded, DbErr>;

    /// Payments that fitted no order when they came, the oldest first, from the one after (received at, id) on.
    async fn orphans(
        &self,
        after: Option<(i64, i64)>,
        most: u64,
    ) -> Result<Vec<payment::Model>, DbErr>;

    /// Looks again whether an orphan fits an order now; one older than `give_up_before_ms` is to be refunded.
    async fn judge_orphan(
        &self,
        orphan: &payment::Model,
        give_up_before_ms: i64,
    ) -> Result<Recorded, DbErr>;

    /// Refunds to do now, the oldest first.
    async fn due_refunds(&self, now_ms: i64, most: u64) -> Result<Vec<refund::Model>, DbErr>;

    /// Marks a refund as done; `false` when it was before.
    async fn refund_done(&self, refund: &refund::Model) -> Result<bool, DbErr>;

    /// Puts a refund off.
    async fn refund_later(&self, refund: &refund::Model, next_at_ms: i64) -> Result<(), DbErr>;

    /// The refund of each order that has one: one on its way before one that is done, and then the latest.
    async fn refunds_of(
        &self,
        orders: &[OrderId],
    ) -> Result<HashMap<OrderId, refund::Model>, DbErr>;

    /// Orders that a redeem code may mean, by its tag.
    async fn tagged(&self, tag: i64) -> Result<Vec<OrderRow>, DbErr>;

    /// Marks a paid order as used; `false` when it is not paid, or not any more.
    async fn mark_used(&self, order: OrderId) -> Result<bool, DbErr>;

    /// Begins to give the money of a paid order back, and records the refund; `false` when it is not paid, or not any
    /// more. An order that cost nothing is refunded at once.
    async fn refund_unused(&self, order: OrderId) -> Result<bool, DbErr>;

    /// Adds notes of units that were paid or given back to what their shops have sold; answers how many notes, and the
    /// shops with their new versions.
    async fn count_sold(&self, most: u64) -> Result<(usize, Vec<(ShopId, i64)>), DbErr>;

    /// Keeps the intent to pay an order; an earlier one of the same order stays and is returned, with the payload if it
    /// had none.
    async fn keep_intent(
        &self,
        intent: payment_intent::Model,
    ) -> Result<payment_intent::Model, DbErr>;

    /// The intent to pay, by its order or by the token in its address.
    async fn intent(&self, by: IntentBy<'_>) -> Result<Option<payment_intent::Model>, DbErr>;

    /// The sale's payment intents that still wait for their order, as queued orders.
    async fn open_intents(&self, voucher: VoucherId) -> Result<Vec<QueuedOrderV1>, DbErr>;
}
