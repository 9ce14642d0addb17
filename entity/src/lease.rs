//! Who holds a name. The table `leases`.

use sea_orm::entity::prelude::*;

/// Who holds a name.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "leases")]
pub struct Model {
    /// The name.
    #[sea_orm(primary_key, auto_increment = false)]
    pub name: String,
    /// The process.
    pub owner: String,
    /// Until when, in epoch milliseconds.
    pub expires_at: i64,
}

/// It is joined by hand where needed.
#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
