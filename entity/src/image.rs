//! A picture that a user uploaded. The table `images`.

use sea_orm::entity::prelude::*;

/// How far a picture is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "String(StringLen::N(16))")]
pub enum ImageState {
    /// Its object is being written.
    #[sea_orm(string_value = "STORING")]
    Storing,
    /// It is there, and nothing has named it yet.
    #[sea_orm(string_value = "NEW")]
    New,
    /// Something names it, or has named it.
    #[sea_orm(string_value = "KEPT")]
    Kept,
    /// It is gone for everybody; its object goes next.
    #[sea_orm(string_value = "DELETING")]
    Deleting,
}

/// A picture that a user uploaded.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "images")]
pub struct Model {
    /// The picture.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: i64,
    /// The user who uploaded it.
    pub owner_id: i64,
    /// What it is called in the store, random and unique.
    pub object_key: String,
    /// How far it is.
    pub state: ImageState,
    /// `image/jpeg` or `image/png`.
    pub content_type: String,
    /// Pixels from left to right.
    pub width: i32,
    /// Pixels from top to bottom.
    pub height: i32,
    /// Size of the stored object.
    pub bytes: i32,
    /// SHA-256 of the stored object in hexadecimal.
    pub sha256: String,
    /// When it was uploaded, in epoch milliseconds.
    pub created_at: i64,
}

/// It is joined by hand where needed.
#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
