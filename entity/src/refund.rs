//! Money that goes back. The table `refunds`.

use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;
use serde::{Deserialize, Serialize};

/// Why money goes back.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize,
)]
#[sea_orm(rs_type = "String", db_type = "String(StringLen::N(16))")]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum RefundReason {
    /// The order was closed.
    #[sea_orm(string_value = "LATE")]
    Late,
    /// The order was paid already.
    #[sea_orm(string_value = "SECOND")]
    Second,
    /// Amount or currency differ from the order.
    #[sea_orm(string_value = "WRONG_AMOUNT")]
    WrongAmount,
    /// The order could not be placed.
    #[sea_orm(string_value = "REJECTED")]
    Rejected,
    /// No order was found for it.
    #[sea_orm(string_value = "ORPHAN")]
    Orphan,
    /// The buyer asked for it.
    #[sea_orm(string_value = "BUYER")]
    Buyer,
}

/// Whether money went back.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize,
)]
#[sea_orm(rs_type = "String", db_type = "String(StringLen::N(8))")]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum RefundStatus {
    /// Not yet.
    #[sea_orm(string_value = "PENDING")]
    Pending,
    /// It did.
    #[sea_orm(string_value = "DONE")]
    Done,
}

/// Money that goes back.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "refunds")]
pub struct Model {
    /// The refund; that of its payment.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: i64,
    /// Who gives it back.
    pub provider: String,
    /// The payment's transaction, unique with `provider`.
    pub transaction_id: String,
    /// The order.
    pub order_id: i64,
    /// How much, in the minor unit.
    pub amount_minor: i64,
    /// The currency as the provider wrote it.
    pub currency: String,
    /// Why.
    pub reason: RefundReason,
    /// Whether it went back.
    pub status: RefundStatus,
    /// Tells the provider that a repeat is one.
    pub idempotency_key: String,
    /// Refusals so far.
    pub attempts: i32,
    /// When to try next, in epoch milliseconds.
    pub next_at: i64,
    /// When it was written, in epoch milliseconds.
    pub created_at: i64,
    /// When it went back.
    pub done_at: Option<i64>,
}

/// It is joined by hand where needed.
#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl Entity {
    /// Money that has not gone back and whose next try is due, the longest due first.
    pub fn find_pending_due(now_ms: i64) -> Select<Entity> {
        Entity::find()
            .filter(Column::Status.eq(RefundStatus::Pending))
            .filter(Column::NextAt.lte(now_ms))
            .order_by_asc(Column::NextAt)
    }
}
