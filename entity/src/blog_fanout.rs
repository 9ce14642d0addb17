//! A note on its way to those who follow its author: written with the note, so that none is forgotten. The table
//! `blog_fanouts`.

use sea_orm::entity::prelude::*;

/// A note on its way.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "blog_fanouts")]
pub struct Model {
    /// The note.
    #[sea_orm(primary_key, auto_increment = false)]
    pub blog_id: i64,
    /// Who wrote it.
    pub author_id: i64,
    /// When it was published, in epoch milliseconds.
    pub created_at: i64,
    /// How far it has come, in words of those who carry it, `None` when nobody has begun.
    #[sea_orm(column_type = "Text")]
    pub step: Option<String>,
    /// When it had reached everybody, in epoch milliseconds, `None` until then.
    pub done_at: Option<i64>,
}

/// It is joined by hand where needed.
#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
