//! That a user likes a note. The table `blog_likes`.

use sea_orm::entity::prelude::*;

/// That a user likes a note.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "blog_likes")]
pub struct Model {
    /// The note.
    #[sea_orm(primary_key, auto_increment = false)]
    pub blog_id: i64,
    /// Who likes it.
    #[sea_orm(primary_key, auto_increment = false)]
    pub user_id: i64,
    /// The note's version that this like made: later likes of a note have greater ones.
    pub seq: i64,
    /// Since when, in epoch milliseconds.
    pub created_at: i64,
}

/// It is joined by hand where needed.
#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
