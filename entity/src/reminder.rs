//! Somebody who wants to be reminded of a sale. The table `reminders`.

use sea_orm::entity::prelude::*;

/// Somebody who wants to be reminded of a sale.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "reminders")]
pub struct Model {
    /// The voucher.
    #[sea_orm(primary_key, auto_increment = false)]
    pub voucher_id: i64,
    /// Whom to remind.
    #[sea_orm(primary_key, auto_increment = false)]
    pub user_id: i64,
    /// The beginning of which they were reminded, in epoch milliseconds; 0 before.
    pub told_begin_ms: i64,
    /// When it was asked for, in epoch milliseconds.
    pub created_at: i64,
}

/// It is joined by hand where needed.
#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
