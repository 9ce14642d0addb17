//! What a user was told. The table `notifications`.

use sea_orm::entity::prelude::*;
use serde::{Deserialize, Serialize};

/// What a notification is about.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize,
)]
#[sea_orm(rs_type = "String", db_type = "String(StringLen::N(32))")]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum NotificationKind {
    /// A sale that the user wanted to be reminded of begins soon.
    #[sea_orm(string_value = "SALE_STARTING")]
    SaleStarting,
    /// A unit of a sold-out sale is free for the user, who waited for it.
    #[sea_orm(string_value = "WAITLIST_ISSUED")]
    WaitlistIssued,
    /// Somebody likes a note of the user.
    #[sea_orm(string_value = "BLOG_LIKED")]
    BlogLiked,
    /// Somebody commented on a note of the user.
    #[sea_orm(string_value = "BLOG_COMMENTED")]
    BlogCommented,
}

/// What a user was told.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "notifications")]
pub struct Model {
    /// The notification.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: i64,
    /// Whom it tells, unique with `seq` and with `once_key`.
    pub user_id: i64,
    /// The how-manieth of its user, from 1, without gaps.
    pub seq: i64,
    /// What it is about.
    pub kind: NotificationKind,
    /// Who brought it about.
    pub actor_id: Option<i64>,
    /// The thing it is about, as `<concept>:<number>`.
    pub subject: String,
    /// A few words.
    pub text: Option<String>,
    /// Names the event, which is told once.
    pub once_key: String,
    /// When it was written, in epoch milliseconds.
    pub created_at: i64,
}

/// It is joined by hand where needed.
#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
