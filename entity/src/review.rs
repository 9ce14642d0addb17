//! What a guest says of a shop. The table `reviews`.

use sea_orm::entity::prelude::*;

/// What a guest says of a shop.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "reviews")]
pub struct Model {
    /// The review.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: i64,
    /// The shop.
    pub shop_id: i64,
    /// Who wrote it.
    pub user_id: i64,
    /// The redeemed order it is about; 0 when it is about none.
    pub order_id: i64,
    /// 1 while its author may write no other about the same, `None` once he took it back.
    pub holds: Option<i16>,
    /// 1 to 5.
    pub score: i32,
    /// The words.
    #[sea_orm(column_type = "Text")]
    pub text: String,
    /// Ids of its pictures, a JSON array of strings.
    #[sea_orm(column_type = "Text")]
    pub image_ids: String,
    /// When it was written, in epoch milliseconds.
    pub created_at: i64,
    /// When it was deleted.
    pub deleted_at: Option<i64>,
}

/// It is joined by hand where needed.
#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
