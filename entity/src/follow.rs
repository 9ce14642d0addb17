//! Somebody follows somebody. The table `follows`.

use sea_orm::entity::prelude::*;

/// Somebody follows somebody.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "follows")]
pub struct Model {
    /// Its number, unique.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: i64,
    /// Who follows.
    pub follower_id: i64,
    /// Whom.
    pub followee_id: i64,
    /// Which change of the follower's list this was: see `follow_counts`.
    pub seq: i64,
    /// Since when, in epoch milliseconds.
    pub created_at: i64,
}

/// It is joined by hand where needed.
#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
