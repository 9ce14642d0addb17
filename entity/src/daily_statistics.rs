//! The figures of a day that is over. The table `daily_statistics`.

use sea_orm::entity::prelude::*;

/// The figures of a day that is over.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "daily_statistics")]
pub struct Model {
    /// The day.
    #[sea_orm(primary_key, auto_increment = false)]
    pub day: Date,
    /// Users who were active on the day.
    pub dau: i64,
    /// Users who were active on the seven days that end with it.
    pub wau: i64,
    /// Users who were active on the thirty days that end with it.
    pub mau: i64,
    /// Visitors of the day, signed in or not.
    pub uv: i64,
    /// Orders written.
    pub orders: i64,
    /// Orders paid.
    pub paid_orders: i64,
    /// When it was last computed, in epoch milliseconds.
    pub computed_at: i64,
    /// Grows each time it is computed.
    pub version: i64,
}

/// It is joined by hand where needed.
#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
