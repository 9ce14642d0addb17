//! A request that took ordinary vouchers, so that its repeat takes none. The table `claims`.

use sea_orm::entity::prelude::*;

/// A request that took ordinary vouchers.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "claims")]
pub struct Model {
    /// Who asked.
    #[sea_orm(primary_key, auto_increment = false)]
    pub user_id: i64,
    /// The client's id of the request.
    #[sea_orm(primary_key, auto_increment = false)]
    pub request_id: String,
    /// The voucher.
    pub voucher_id: i64,
    /// Units.
    pub quantity: i32,
    /// The order that came of it.
    pub order_id: i64,
    /// When it was written, in epoch milliseconds.
    pub created_at: i64,
}

/// It is joined by hand where needed.
#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
