//! A feature switch that was set. The table `switches`.

use sea_orm::entity::prelude::*;

/// A feature switch that was set.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "switches")]
pub struct Model {
    /// Its name.
    #[sea_orm(primary_key, auto_increment = false)]
    pub name: String,
    /// Whether the feature is on.
    pub is_on: bool,
    /// Who set it: a user's number.
    pub updated_by: i64,
    /// When it was set, in epoch milliseconds.
    pub updated_at: i64,
    /// Grows each time it is set.
    pub version: i64,
}

/// It is joined by hand where needed.
#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
