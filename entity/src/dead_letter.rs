//! A queued order that nobody can use. The table `dead_letters`.

use sea_orm::entity::prelude::*;
use serde::{Deserialize, Serialize};

/// Where a dead letter was found.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize,
)]
#[sea_orm(rs_type = "String", db_type = "String(StringLen::N(16))")]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum DeadLetterSource {
    /// On the bus.
    #[sea_orm(string_value = "KAFKA")]
    Kafka,
    /// In an outbox.
    #[sea_orm(string_value = "OUTBOX")]
    Outbox,
}

/// A queued order that nobody can use.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "dead_letters")]
pub struct Model {
    /// The letter.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// Where it was found.
    pub source: DeadLetterSource,
    /// The place there.
    pub reference: String,
    /// Why it cannot be used.
    pub reason: String,
    /// What it was, cut to a bound.
    #[sea_orm(column_type = "Text")]
    pub payload: String,
    /// When it was written, in epoch milliseconds.
    pub created_at: i64,
}

/// It is joined by hand where needed.
#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
