//! Two people who write to each other. The table `conversations`.

use sea_orm::entity::prelude::*;

/// Two people who write to each other.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "conversations")]
pub struct Model {
    /// The conversation.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: i64,
    /// The one with the smaller number, unique with `high_id`.
    pub low_id: i64,
    /// The one with the greater number.
    pub high_id: i64,
    /// When it began, in epoch milliseconds.
    pub created_at: i64,
}

/// It is joined by hand where needed.
#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
