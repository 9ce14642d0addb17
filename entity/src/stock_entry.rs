//! One change of a sale's books; their sum is its state. The table `stock_ledger`.

use sea_orm::entity::prelude::*;
use serde::{Deserialize, Serialize};

/// Why a sale's books changed.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize,
)]
#[sea_orm(rs_type = "String", db_type = "String(StringLen::N(16))")]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum StockReason {
    /// It was published.
    #[sea_orm(string_value = "OPEN")]
    Open,
    /// An order took a unit.
    #[sea_orm(string_value = "ORDER")]
    Order,
    /// A closed order left one.
    #[sea_orm(string_value = "CLOSE")]
    Close,
    /// Its merchant changed the total.
    #[sea_orm(string_value = "ADJUST")]
    Adjust,
}

/// One change of a sale's books; their sum is its state.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "stock_ledger")]
pub struct Model {
    /// The entry.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The voucher.
    pub voucher_id: i64,
    /// The order, `None` for a change of the total.
    pub order_id: Option<i64>,
    /// Why.
    pub reason: StockReason,
    /// Change of `sold`.
    pub sold_delta: i64,
    /// Change of `total`.
    pub total_delta: i64,
    /// `sold` before.
    pub sold_before: i64,
    /// `sold` after.
    pub sold_after: i64,
    /// `total` before.
    pub total_before: i64,
    /// `total` after.
    pub total_after: i64,
    /// When it was written, in epoch milliseconds.
    pub created_at: i64,
}

/// It is joined by hand where needed.
#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
