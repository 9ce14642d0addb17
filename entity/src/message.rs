//! What one wrote to another. The table `messages`.

use sea_orm::entity::prelude::*;

/// What one wrote to another.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "messages")]
pub struct Model {
    /// The message.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: i64,
    /// Its conversation, unique with `seq`.
    pub conversation_id: i64,
    /// The how-manieth of the conversation, from 1, without gaps.
    pub seq: i64,
    /// Who wrote it, unique with `request_id` and with `sender_feed`.
    pub sender_id: i64,
    /// To whom, unique with `recipient_feed`.
    pub recipient_id: i64,
    /// The how-manieth of its sender in the conversation, from 1.
    pub sent: i64,
    /// The words.
    pub text: String,
    /// The sender's own id of it.
    pub request_id: String,
    /// Its number among all messages of the sender, in and out.
    pub sender_feed: i64,
    /// Its number among all messages of the recipient, in and out.
    pub recipient_feed: i64,
    /// When it was written, in epoch milliseconds.
    pub created_at: i64,
}

/// It is joined by hand where needed.
#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
