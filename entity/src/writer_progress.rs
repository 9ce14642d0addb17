//! When the writer last committed a partition. The table `writer_progress`.

use sea_orm::entity::prelude::*;

/// When the writer last committed a partition.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "writer_progress")]
pub struct Model {
    /// The partition.
    #[sea_orm(primary_key, auto_increment = false)]
    pub partition_id: i32,
    /// When, in epoch milliseconds.
    pub committed_at: i64,
}

/// It is joined by hand where needed.
#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
