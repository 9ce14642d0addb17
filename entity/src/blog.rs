//! A note that a user wrote. The table `blogs`.

use sea_orm::entity::prelude::*;
use serde::{Deserialize, Serialize};

/// A note.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, Serialize, Deserialize)]
#[sea_orm(table_name = "blogs")]
pub struct Model {
    /// The note.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: i64,
    /// Who wrote it.
    pub author_id: i64,
    /// The shop that it is about, `None` when it is about none.
    pub shop_id: Option<i64>,
    /// Title.
    pub title: String,
    /// What it says.
    #[sea_orm(column_type = "Text")]
    pub content: String,
    /// Its pictures' ids in their order, a JSON array of strings.
    #[sea_orm(column_type = "Text")]
    pub image_ids: String,
    /// How many like it: the rows of `blog_likes`.
    pub like_count: i64,
    /// Comments on it that are not deleted.
    pub comment_count: i64,
    /// How often its author changed it.
    pub edit_count: i64,
    /// The author's client's own id of the request that made it, unique to the author.
    #[serde(skip)]
    pub request_id: Option<String>,
    /// SHA-256 of the arguments that came with `request_id`.
    #[serde(skip)]
    pub request_hash: Option<String>,
    /// When it was published, in epoch milliseconds.
    pub created_at: i64,
    /// When its author last changed it, in epoch milliseconds.
    pub updated_at: i64,
    /// When it was deleted, in epoch milliseconds, `None` while it is there.
    pub deleted_at: Option<i64>,
    /// Grows with each change of the row.
    pub version: i64,
}

/// It is joined by hand where needed.
#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
