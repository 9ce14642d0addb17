//! Units that were paid, or given back, and are not yet counted at their shop. The table `sold_changes`.

use sea_orm::entity::prelude::*;

/// Units that were paid, or given back, and are not yet counted at their shop.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "sold_changes")]
pub struct Model {
    /// The order.
    #[sea_orm(primary_key, auto_increment = false)]
    pub order_id: i64,
    /// Its units; below 0 when they were given back.
    #[sea_orm(primary_key, auto_increment = false)]
    pub units: i32,
    /// The shop.
    pub shop_id: i64,
}

/// It is joined by hand where needed.
#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
