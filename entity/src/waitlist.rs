//! How far the waiting list of a sale goes. The table `waitlists`.

use sea_orm::entity::prelude::*;

/// How far the waiting list of a sale goes.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "waitlists")]
pub struct Model {
    /// The voucher.
    #[sea_orm(primary_key, auto_increment = false)]
    pub voucher_id: i64,
    /// The last place that was given.
    pub last_place: i64,
    /// Whether there is something to do for it: somebody is on it, or Redis may still think so.
    pub is_active: bool,
}

/// It is joined by hand where needed.
#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
