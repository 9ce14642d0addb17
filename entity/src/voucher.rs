//! A voucher of a shop. The table `vouchers`.

use sea_orm::entity::prelude::*;
use serde::{Deserialize, Serialize};

/// How a voucher is sold.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize,
)]
#[sea_orm(rs_type = "String", db_type = "String(StringLen::N(16))")]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum VoucherKind {
    /// At any time.
    #[sea_orm(string_value = "ORDINARY")]
    Ordinary,
    /// In a flash sale.
    #[sea_orm(string_value = "SECKILL")]
    Seckill,
}

/// Whether a voucher is offered.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize,
)]
#[sea_orm(rs_type = "String", db_type = "String(StringLen::N(16))")]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum VoucherStatus {
    /// It is.
    #[sea_orm(string_value = "ACTIVE")]
    Active,
    /// Not any more.
    #[sea_orm(string_value = "RETIRED")]
    Retired,
}

/// A voucher of a shop.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, Serialize, Deserialize)]
#[sea_orm(table_name = "vouchers")]
pub struct Model {
    /// The voucher.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: i64,
    /// Its shop.
    pub shop_id: i64,
    /// How it is sold.
    pub kind: VoucherKind,
    /// Title.
    pub title: String,
    /// Second line.
    pub sub_title: Option<String>,
    /// Terms of use.
    #[sea_orm(column_type = "Text")]
    pub rules: Option<String>,
    /// What the buyer pays, in the minor unit.
    pub price_minor: i64,
    /// What it is worth in the shop, in the minor unit.
    pub value_minor: i64,
    /// ISO 4217 code.
    pub currency: String,
    /// Whether it is offered.
    pub status: VoucherStatus,
    /// When it was written, in epoch milliseconds.
    pub created_at: i64,
    /// When it was last changed, in epoch milliseconds.
    pub updated_at: i64,
    /// Grows with each change of the row.
    pub version: i64,
}

/// It is joined by hand where needed.
#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
