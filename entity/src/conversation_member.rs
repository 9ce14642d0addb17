//! One side of a conversation. The table `conversation_members`.

use sea_orm::entity::prelude::*;

/// One side of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "conversation_members")]
pub struct Model {
    /// The conversation.
    #[sea_orm(primary_key, auto_increment = false)]
    pub conversation_id: i64,
    /// Whose side it is.
    #[sea_orm(primary_key, auto_increment = false)]
    pub user_id: i64,
    /// The number of the conversation's newest message among those of this user; 0 while there is none.
    pub last_feed: i64,
    /// The conversation's newest message; 0 while there is none.
    pub last_message_id: i64,
    /// How many messages of the other one there are.
    pub received: i64,
    /// Messages up to this `seq` are read.
    pub read_seq: i64,
    /// How many of the other one's messages are read.
    pub read_received: i64,
}

/// It is joined by hand where needed.
#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
