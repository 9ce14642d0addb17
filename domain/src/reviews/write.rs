//! The transactions of reviews. The shop's row is locked first, so that its rating is the sum of its reviews at every
//! moment.

use entity::review;
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, DatabaseTransaction, DbErr, EntityTrait, IntoActiveModel, QueryFilter};

use super::{Added, Review, Reviews};
use crate::shops::ShopId;
use crate::shops::tally::{lock_shop, rate};

impl Reviews {
    pub(super) async fn insert(&self, row: Review) -> Result<Added, DbErr> {
        let (infra, shop) = (self.infra.clone(), ShopId(row.shop_id));
        let write = async move {
            let db = infra.db.clone();
            db.write(move |txn| {
                let row = row.clone();
                Box::pin(async move { insert_in(txn, row).await })
            })
            .await
        };
        self.shops.write_tally(shop, write).await
    }

    /// Whether it still stood.
    pub(super) async fn take_out(&self, review: Review, by_author: bool) -> Result<bool, DbErr> {
        let (infra, shop) = (self.infra.clone(), ShopId(review.shop_id));
        let write = async move {
            let (db, clock) = (infra.db.clone(), infra.clock.clone());
            db.write(move |txn| {
                let (review, now) = (review.clone(), clock.now_ms());
                Box::pin(async move { delete_in(txn, &review, by_author, now).await })
            })
            .await
        };
        self.shops.write_tally(shop, write).await
    }
}

/// Answers the shop's version too.
async fn insert_in(txn: &DatabaseTransaction, row: Review) -> Result<(i64, Added), DbErr> {
    let shop = lock_shop(txn, ShopId(row.shop_id))
        .await?
        .ok_or_else(|| DbErr::RecordNotFound(format!("shop {}", row.shop_id)))?;
    let same = review::Entity::find()
        .filter(review::Column::UserId.eq(row.user_id))
        .filter(review::Column::ShopId.eq(row.shop_id))
        .filter(review::Column::OrderId.eq(row.order_id))
        .filter(review::Column::Holds.eq(1_i16))
        .one(txn)
        .await?;
    if let Some(earlier) = same {
        return Ok((shop.version, Added::AlreadyReviewed(earlier)));
    }
    review::Entity::insert(row.clone().into_active_model())
        .exec_without_returning(txn)
        .await?;
    let version = rate(txn, &shop, (row.score, 1), row.created_at).await?;
    Ok((version, Added::Review(row)))
}

async fn delete_in(
    txn: &DatabaseTransaction,
    review: &Review,
    by_author: bool,
    now: i64,
) -> Result<(i64, bool), DbErr> {
    let shop = lock_shop(txn, ShopId(review.shop_id))
        .await?
        .ok_or_else(|| DbErr::RecordNotFound(format!("shop {}", review.shop_id)))?;
    let holds = if by_author { None } else { review.holds };
    let deleted = review::Entity::update_many()
        .col_expr(review::Column::DeletedAt, Expr::value(now))
        .col_expr(review::Column::Holds, Expr::value(holds))
        .filter(review::Column::Id.eq(review.id))
        .filter(review::Column::DeletedAt.is_null())
        .exec(txn)
        .await?;
    if deleted.rows_affected == 0 {
        return Ok((shop.version, false));
    }
    let version = rate(txn, &shop, (-review.score, -1), now).await?;
    Ok((version, true))
}
