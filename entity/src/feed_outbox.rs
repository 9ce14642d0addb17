//! A note of an author whom many follow, pushed to active followers only. The table `feed_outboxes`.

use sea_orm::entity::prelude::*;

/// A note that followers fetch who were not active when it was pushed.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "feed_outboxes")]
pub struct Model {
    /// The note.
    #[sea_orm(primary_key, auto_increment = false)]
    pub blog_id: i64,
    /// Who wrote it.
    pub author_id: i64,
    /// When it was published, in epoch milliseconds.
    pub created_at: i64,
}

/// It is joined by hand where needed.
#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
