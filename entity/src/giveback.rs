//! A unit to give back to Redis. The table `givebacks`.

use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;
use serde::{Deserialize, Serialize};

/// Why a unit goes back.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize,
)]
#[sea_orm(rs_type = "String", db_type = "String(StringLen::N(8))")]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum GivebackKind {
    /// Its order was closed.
    #[sea_orm(string_value = "CLOSE")]
    Close,
    /// Its order could not be placed.
    #[sea_orm(string_value = "REJECT")]
    Reject,
}

/// Whether a unit went back.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize,
)]
#[sea_orm(rs_type = "String", db_type = "String(StringLen::N(8))")]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum GivebackStatus {
    /// Not yet.
    #[sea_orm(string_value = "PENDING")]
    Pending,
    /// It did.
    #[sea_orm(string_value = "DONE")]
    Done,
}

/// A unit to give back to Redis.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "givebacks")]
pub struct Model {
    /// The order.
    #[sea_orm(primary_key, auto_increment = false)]
    pub order_id: i64,
    /// The voucher.
    pub voucher_id: i64,
    /// The buyer.
    pub user_id: i64,
    /// The slot it had.
    pub slot: i32,
    /// Why.
    pub kind: GivebackKind,
    /// Whether it is done.
    pub status: GivebackStatus,
    /// Grows when it is opened again.
    pub round: i32,
    /// Refusals so far.
    pub attempts: i32,
    /// When to try next, in epoch milliseconds.
    pub next_at: i64,
    /// When it was written, in epoch milliseconds.
    pub created_at: i64,
    /// When it was done.
    pub done_at: Option<i64>,
}

/// It is joined by hand where needed.
#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl Entity {
    /// Units that have not gone back and whose next try is due, the longest due first.
    pub fn find_pending_due(now_ms: i64) -> Select<Entity> {
        Entity::find()
            .filter(Column::Status.eq(GivebackStatus::Pending))
            .filter(Column::NextAt.lte(now_ms))
            .order_by_asc(Column::NextAt)
    }
}
