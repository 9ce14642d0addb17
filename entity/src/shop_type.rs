//! A kind of shop. The table `shop_types`.

use sea_orm::entity::prelude::*;
use serde::{Deserialize, Serialize};

/// A kind of shop.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, Serialize, Deserialize)]
#[sea_orm(table_name = "shop_types")]
pub struct Model {
    /// The type.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: i64,
    /// Stable name in lower case, unique.
    pub code: String,
    /// Name shown.
    pub name: String,
    /// Place in lists, lowest first.
    pub sort: i32,
    /// When it was written, in epoch milliseconds.
    pub created_at: i64,
    /// Grows with each change of the row.
    pub version: i64,
}

/// It is joined by hand where needed.
#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
