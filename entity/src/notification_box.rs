//! How far a user's notifications go, and how far they are read. The table `notification_boxes`.

use sea_orm::entity::prelude::*;

/// How far a user's notifications go, and how far they are read.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "notification_boxes")]
pub struct Model {
    /// The user.
    #[sea_orm(primary_key, auto_increment = false)]
    pub user_id: i64,
    /// The newest notification's `seq`; 0 while there is none.
    pub last_seq: i64,
    /// All up to this one are read.
    pub read_seq: i64,
}

/// It is joined by hand where needed.
#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
