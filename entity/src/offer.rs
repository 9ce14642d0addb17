//! What an ordinary voucher has in stock. The table `offers`.

use sea_orm::entity::prelude::*;
use serde::{Deserialize, Serialize};

/// What an ordinary voucher has in stock.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, Serialize, Deserialize)]
#[sea_orm(table_name = "offers")]
pub struct Model {
    /// The voucher.
    #[sea_orm(primary_key, auto_increment = false)]
    pub voucher_id: i64,
    /// Its shop.
    pub shop_id: i64,
    /// Units for sale, `None` when there is no end of them.
    pub total: Option<i64>,
    /// Units held by orders, 0 to `total`.
    pub sold: i64,
    /// Units one user may hold, `None` for any number.
    pub per_user_limit: Option<i32>,
    /// When it was written, in epoch milliseconds.
    pub created_at: i64,
}

/// It is joined by hand where needed.
#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
