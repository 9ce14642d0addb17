//! A shop. The table `shops`.

use sea_orm::entity::prelude::*;
use serde::{Deserialize, Serialize};

/// Whether a shop is in business.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize,
)]
#[sea_orm(rs_type = "String", db_type = "String(StringLen::N(16))")]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ShopStatus {
    /// It is.
    #[sea_orm(string_value = "OPEN")]
    Open,
    /// It has closed for good.
    #[sea_orm(string_value = "CLOSED")]
    Closed,
}

/// A shop.
#[derive(Clone, Debug, PartialEq, DeriveEntityModel, Serialize, Deserialize)]
#[sea_orm(table_name = "shops")]
pub struct Model {
    /// The shop.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: i64,
    /// Its type.
    pub type_id: i64,
    /// The merchant who runs it, `None` when nobody has claimed it.
    pub owner_id: Option<i64>,
    /// Name.
    pub name: String,
    /// Ids of its pictures, a JSON array of strings.
    #[sea_orm(column_type = "Text")]
    pub images: String,
    /// Quarter of the city.
    pub area: Option<String>,
    /// Street address.
    pub address: Option<String>,
    /// Degrees north.
    pub latitude: f64,
    /// Degrees east.
    pub longitude: f64,
    /// What a visit costs, in the minor unit of `currency`.
    pub average_price_minor: Option<i64>,
    /// ISO 4217 code of `average_price_minor`.
    pub currency: Option<String>,
    /// Vouchers sold.
    pub sold_count: i64,
    /// Reviews.
    pub comment_count: i64,
    /// Rating in tenths, 0 to 50.
    pub score_tenths: i32,
    /// Opening hours as written by the shop.
    pub open_hours: Option<String>,
    /// Where an imported shop comes from, unique, for example `osm:node/1`.
    pub source: Option<String>,
    /// Whether it is in business.
    pub status: ShopStatus,
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
