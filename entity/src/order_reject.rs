//! An order that could not be placed. The table `order_rejects`.

use sea_orm::entity::prelude::*;
use serde::{Deserialize, Serialize};

/// Why an order could not be placed.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize,
)]
#[sea_orm(rs_type = "String", db_type = "String(StringLen::N(16))")]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum RejectReason {
    /// It was taken before the sale was recovered, and lost with what Redis lost.
    #[sea_orm(string_value = "STALE")]
    Stale,
    /// The buyer holds this unit by another order.
    #[sea_orm(string_value = "DUPLICATE")]
    Duplicate,
    /// All units are held.
    #[sea_orm(string_value = "NO_UNIT")]
    NoUnit,
    /// It was nowhere when its buyer asked.
    #[sea_orm(string_value = "NOT_PLACED")]
    NotPlaced,
}

/// An order that could not be placed.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "order_rejects")]
pub struct Model {
    /// The order.
    #[sea_orm(primary_key, auto_increment = false)]
    pub order_id: i64,
    /// The voucher.
    pub voucher_id: i64,
    /// The buyer.
    pub user_id: i64,
    /// The slot it was to have.
    pub slot: i32,
    /// Why.
    pub reason: RejectReason,
    /// Price, in the minor unit.
    pub price_minor: i64,
    /// ISO 4217 code.
    pub currency: String,
    /// The client's id of the request; empty where it is not known.
    pub request_id: String,
    /// When the unit was taken, in epoch milliseconds.
    pub reserved_at: i64,
    /// When it was written, in epoch milliseconds.
    pub created_at: i64,
}

/// It is joined by hand where needed.
#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
