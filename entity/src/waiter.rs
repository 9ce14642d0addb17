//! Somebody who waits for a unit of a sold-out sale. The table `waiters`.

use sea_orm::entity::prelude::*;
use serde::{Deserialize, Serialize};

/// How far a waiter is.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize,
)]
#[sea_orm(rs_type = "String", db_type = "String(StringLen::N(8))")]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum WaiterStatus {
    /// On the list.
    #[sea_orm(string_value = "WAITING")]
    Waiting,
    /// A unit is theirs, and its order has no row yet.
    #[sea_orm(string_value = "CALLED")]
    Called,
}

/// Somebody who waits for a unit of a sold-out sale.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "waiters")]
pub struct Model {
    /// The waiter.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: i64,
    /// The voucher, unique with `user_id` and with `place`.
    pub voucher_id: i64,
    /// Who waits.
    pub user_id: i64,
    /// The order of the list; it only grows.
    pub place: i64,
    /// How far they are.
    pub status: WaiterStatus,
    /// How often they were called in vain.
    pub round: i32,
    /// The order by which they have a unit.
    pub order_id: Option<i64>,
    /// When they joined, in epoch milliseconds.
    pub created_at: i64,
}

/// It is joined by hand where needed.
#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
