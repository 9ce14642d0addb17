//! Who makes ids under which number. The table `worker_ids`.

use sea_orm::entity::prelude::*;

/// Who makes ids under which number.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "worker_ids")]
pub struct Model {
    /// The number, 0 to 1023.
    #[sea_orm(primary_key, auto_increment = false)]
    pub worker_id: i32,
    /// The process.
    pub owner: String,
    /// Until when, in epoch milliseconds.
    pub leased_until: i64,
}

/// It is joined by hand where needed.
#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
