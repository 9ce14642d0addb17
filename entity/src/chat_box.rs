//! How many messages have gone to or from a user. The table `chat_boxes`.

use sea_orm::entity::prelude::*;

/// How many messages have gone to or from a user.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "chat_boxes")]
pub struct Model {
    /// The user.
    #[sea_orm(primary_key, auto_increment = false)]
    pub user_id: i64,
    /// The number of their newest message in all conversations; 0 while there is none.
    pub last_feed: i64,
}

/// It is joined by hand where needed.
#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
