//! What somebody says to a note. The table `comments`.

use sea_orm::entity::prelude::*;

/// A comment on a note.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "comments")]
pub struct Model {
    /// The comment. A greater one was written later.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: i64,
    /// The note.
    pub blog_id: i64,
    /// Who wrote it.
    pub author_id: i64,
    /// What it says.
    pub text: String,
    /// The author's client's own id of the request that made it, unique to the author.
    pub request_id: Option<String>,
    /// SHA-256 of the arguments that came with `request_id`.
    pub request_hash: Option<String>,
    /// When it was written, in epoch milliseconds.
    pub created_at: i64,
    /// When it was deleted, in epoch milliseconds, `None` while it is there.
    pub deleted_at: Option<i64>,
}

/// It is joined by hand where needed.
#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
