//! How many a user follows, and is followed by. The table `follow_counts`.

use sea_orm::entity::prelude::*;

/// How many a user follows, and is followed by; none of a user who never did either.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "follow_counts")]
pub struct Model {
    /// The user.
    #[sea_orm(primary_key, auto_increment = false)]
    pub user_id: i64,
    /// Rows of `follows` that follow him.
    pub followers: i64,
    /// Rows of `follows` that are his.
    pub following: i64,
    /// Changes of whom he follows so far.
    pub seq: i64,
}

/// It is joined by hand where needed.
#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
