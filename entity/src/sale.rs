//! A flash sale of one voucher. The table `sales`.

use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;
use serde::{Deserialize, Serialize};

/// How far a sale is.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize,
)]
#[sea_orm(rs_type = "String", db_type = "String(StringLen::N(16))")]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum SaleStage {
    /// Not published.
    #[sea_orm(string_value = "DRAFT")]
    Draft,
    /// Published; its window and pause tell the rest.
    #[sea_orm(string_value = "OPENED")]
    Opened,
    /// Over, and its books are closed.
    #[sea_orm(string_value = "SETTLED")]
    Settled,
}

/// A flash sale of one voucher.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "sales")]
pub struct Model {
    /// The voucher.
    #[sea_orm(primary_key, auto_increment = false)]
    pub voucher_id: i64,
    /// Its shop.
    pub shop_id: i64,
    /// First millisecond of the window.
    pub begin_ms: i64,
    /// First millisecond after the window.
    pub end_ms: i64,
    /// Units for sale.
    pub total: i64,
    /// Units held by orders, 0 to `total`.
    pub sold: i64,
    /// Units one user may hold.
    pub per_user_limit: i32,
    /// Orders one user may place, closed ones included.
    pub max_attempts: i32,
    /// Price of a unit, in the minor unit.
    pub price_minor: i64,
    /// ISO 4217 code.
    pub currency: String,
    /// How far it is.
    pub stage: SaleStage,
    /// Whether its merchant paused it.
    pub paused: bool,
    /// Whether a difference of the books froze it.
    pub frozen: bool,
    /// Grows with each recovery; 0 for a draft.
    pub epoch: i64,
    /// The epoch a recovery in progress will begin; equal to `epoch` when there is none.
    pub announced: i64,
    /// Grows with each change of the total.
    pub adjust_version: i64,
    /// The total that is being brought about, `None` when none is.
    pub adjust_target: Option<i64>,
    /// Who recovers it, `None` when nobody does.
    pub lease_token: Option<String>,
    /// Until when, in epoch milliseconds.
    pub lease_until: i64,
    /// When it was written, in epoch milliseconds.
    pub created_at: i64,
    /// When it was last changed, in epoch milliseconds.
    pub updated_at: i64,
    /// When it was settled, in epoch milliseconds.
    pub settled_at: Option<i64>,
    /// Grows with each change of the row.
    pub version: i64,
}

/// It is joined by hand where needed.
#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl Entity {
    /// Sales that were published and are not settled, by voucher; their time may be over.
    pub fn find_open() -> Select<Entity> {
        Entity::find()
            .filter(Column::Stage.eq(SaleStage::Opened))
            .order_by_asc(Column::VoucherId)
    }
}
