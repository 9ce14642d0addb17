//! The sum of a shop's reviews; changed under the lock of the shop's row. The table `shop_ratings`.

use sea_orm::entity::prelude::*;

/// The sum of a shop's reviews.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "shop_ratings")]
pub struct Model {
    /// The shop.
    #[sea_orm(primary_key, auto_increment = false)]
    pub shop_id: i64,
    /// All scores together.
    pub score_sum: i64,
    /// Reviews.
    pub review_count: i64,
}

/// It is joined by hand where needed.
#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
