//! What others count at a shop: its rating and what it has sold. They change it in a transaction of their own, and
//! drop what the cache keeps of the shop afterwards.

use entity::{shop, shop_rating};
use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{
    ColumnTrait, DatabaseTransaction, DbErr, EntityTrait, IntoActiveModel, QueryFilter, QuerySelect,
};

use super::cached::ShopById;
use super::{Shop, ShopId, Shops};

impl Shops {
    /// Runs a write that changes a shop's row; it answers the row's version.
    pub(crate) async fn write_tally<F, T, E>(&self, id: ShopId, write: F) -> Result<T, E>
    where
        F: Future<Output = Result<(i64, T), E>> + Send + 'static,
        T: Send + 'static,
        E: Send + 'static,
    {
        let cache = &self.infra.cache;
        cache.write_then_invalidate(ShopById, id, write).await
    }

    /// Drops what the cache keeps of a shop that was written under this version.
    pub(crate) async fn was_written(&self, id: ShopId, version: i64) {
        self.infra.cache.invalidate(ShopById, &id, version).await;
    }
}

/// Locks a shop's row, which stands before its rating and its reviews.
pub(crate) async fn lock_shop(
    txn: &DatabaseTransaction,
    id: ShopId,
) -> Result<Option<Shop>, DbErr> {
    shop::Entity::find_by_id(id.0)
        .lock_exclusive()
        .one(txn)
        .await
}

/// Adds reviews to the rating of a shop that is locked, or takes them out; answers the shop's new version.
pub(crate) async fn rate(
    txn: &DatabaseTransaction,
    shop: &Shop,
    (score, reviews): (i32, i64),
    now: i64,
) -> Result<i64, DbErr> {
    let known = shop_rating::Entity::find_by_id(shop.id).one(txn).await?;
    let is_known = known.is_some();
    let mut rating = known.unwrap_or(shop_rating::Model {
        shop_id: shop.id,
        score_sum: 0,
        review_count: 0,
    });
    rating.score_sum += i64::from(score);
    rating.review_count += reviews;
    let tenths = tenths(rating.score_sum, rating.review_count);
    let count = rating.review_count;
    let values = rating.into_active_model();
    if is_known {
        let values = sea_orm::ActiveModelTrait::reset_all(values);
        shop_rating::Entity::update(values).exec(txn).await?;
    } else {
        shop_rating::Entity::insert(values)
            .exec_without_returning(txn)
            .await?;
    }
    let version = shop.version + 1;
    shop::Entity::update_many()
        .col_expr(shop::Column::ScoreTenths, Expr::value(tenths))
        .col_expr(shop::Column::CommentCount, Expr::value(count))
        .col_expr(shop::Column::UpdatedAt, Expr::value(now))
        .col_expr(shop::Column::Version, Expr::value(version))
        .filter(shop::Column::Id.eq(shop.id))
        .exec(txn)
        .await?;
    Ok(version)
}

/// Adds to what a shop has sold; answers its new version, `None` when there is no such shop.
pub(crate) async fn add_sold(
    txn: &DatabaseTransaction,
    id: ShopId,
    units: i64,
    now: i64,
) -> Result<Option<i64>, DbErr> {
    let Some(shop) = lock_shop(txn, id).await? else {
        return Ok(None);
    };
    let version = shop.version + 1;
    shop::Entity::update_many()
        .col_expr(
            shop::Column::SoldCount,
            Expr::col(shop::Column::SoldCount).add(units),
        )
        .col_expr(shop::Column::UpdatedAt, Expr::value(now))
        .col_expr(shop::Column::Version, Expr::value(version))
        .filter(shop::Column::Id.eq(shop.id))
        .exec(txn)
        .await?;
    Ok(Some(version))
}

/// The average of scores in tenths, halves up; 0 when there are none.
fn tenths(sum: i64, count: i64) -> i32 {
    if count <= 0 {
        return 0;
    }
    i32::try_from((sum * 20 + count) / (count * 2)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::tenths;

    #[test]
    fn an_average_is_rounded_to_tenths_halves_up() {
        let cases = [
            (0, 0, 0),
            (5, 1, 50),
            (9, 2, 45),
            (13, 3, 43),
            (14, 3, 47),
            (17, 4, 43),
        ];
        for (sum, count, wanted) in cases {
            assert_eq!(tenths(sum, count), wanted, "{sum} of {count}");
        }
    }
}
