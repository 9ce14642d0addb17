//! A buyer's wish to pay an order. The table `payment_intents`.

use sea_orm::entity::prelude::*;
use serde::{Deserialize, Serialize};

/// Whether an intent was followed by money.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize,
)]
#[sea_orm(rs_type = "String", db_type = "String(StringLen::N(8))")]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum IntentStatus {
    /// Not yet.
    #[sea_orm(string_value = "OPEN")]
    Open,
    /// It was.
    #[sea_orm(string_value = "DONE")]
    Done,
}

/// A buyer's wish to pay an order.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "payment_intents")]
pub struct Model {
    /// The order.
    #[sea_orm(primary_key, auto_increment = false)]
    pub order_id: i64,
    /// Names it in the payment address, unique.
    pub token: String,
    /// Who takes the money.
    pub provider: String,
    /// The buyer.
    pub user_id: i64,
    /// The voucher.
    pub voucher_id: i64,
    /// How much, in the minor unit.
    pub amount_minor: i64,
    /// ISO 4217 code.
    pub currency: String,
    /// The queued order, as JSON, where it had no row yet; else empty.
    #[sea_orm(column_type = "Text")]
    pub payload: String,
    /// Whether money came.
    pub status: IntentStatus,
    /// When it was written, in epoch milliseconds.
    pub created_at: i64,
}

/// It is joined by hand where needed.
#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
