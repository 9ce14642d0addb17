//! Reviews in the API: what guests say of shops.

use async_graphql::{Context, Enum, ID, InputObject, Object, Result, SimpleObject};
use chrono::{DateTime, Utc};
use domain::reviews::{Added, NewReview, Review as ReviewRow, ReviewId};
use domain::shops::ShopId;
use domain::uploads::from_column;
use domain::users::UserId;

use crate::context::ContextExt;
use crate::error::{api_error, fault_error, not_found};
use crate::limits::{Limited, REVIEW_WRITES};
use crate::loaders::by_id;
use crate::orders::own_key;
use crate::pagination::{List, Page};
use crate::scalars::{global_id, parse_id, time};
use crate::shops::Shop;
use crate::uploads::{Image, image_ids, images_of};
use crate::users::User;

/// What a guest says of a shop.
pub struct Review(pub(crate) ReviewRow);

/// What a guest says of a shop. Anybody may see it.
#[Object]
impl Review {
    /// The id of the review.
    pub(crate) async fn id(&self) -> ID {
        global_id("Review", self.0.id)
    }

    /// The shop.
    async fn shop(&self, ctx: &Context<'_>) -> Result<Shop> {
        let found = by_id(ctx).load_one(ShopId(self.0.shop_id)).await;
        let found = found.map_err(|e| fault_error(&*e))?;
        found.map(Shop).ok_or_else(not_found)
    }

    /// Who wrote it.
    async fn author(&self, ctx: &Context<'_>) -> Result<User> {
        let found = by_id(ctx).load_one(UserId(self.0.user_id)).await;
        let found = found.map_err(|e| fault_error(&*e))?;
        found.map(User::new).ok_or_else(not_found)
    }

    /// 1 to 5.
    async fn score(&self) -> i32 {
        self.0.score
    }

    /// The words as they were written.
    async fn text(&self) -> &str {
        &self.0.text
    }

    /// Its pictures, at most 9, in the order its author gave them; those that were deleted are left out.
    async fn images(&self, ctx: &Context<'_>) -> Result<Vec<Image>> {
        images_of(ctx, &from_column(&self.0.image_ids)).await
    }

    /// Whether its author redeemed an order in the shop, and says how it was.
    async fn is_of_order(&self) -> bool {
        self.0.order_id != 0
    }

    /// When it was written.
    async fn created_at(&self) -> DateTime<Utc> {
        time(self.0.created_at)
    }
}

/// A page of a shop's reviews.
pub(crate) async fn reviews_of(
    ctx: &Context<'_>,
    shop: ShopId,
    page: (Option<i32>, Option<String>),
) -> Result<List<Review>> {
    let page: Page<ReviewId> = Page::new(ctx, format!("shop-reviews:{shop}"), page.0, page.1)?;
    let reviews = &ctx.services().reviews;
    let found = reviews
        .of_shop(shop, page.after, page.load() as u64)
        .await
        .map_err(api_error)?;
    Ok(page.list(
        ctx,
        found.into_iter().map(Review).collect(),
        |r: &Review| ReviewId(r.0.id),
    ))
}

/// A review to write.
#[derive(InputObject)]
pub struct AddReviewInput {
    /// The shop.
    shop_id: ID,
    /// An order of the viewer's that was redeemed in the shop; each may be reviewed once. Null: the one review of the
    /// shop that needs no order.
    order_id: Option<ID>,
    /// 1 to 5.
    score: i32,
    /// 1 to 2,000 characters.
    text: String,
    /// Pictures of the viewer's from `POST /uploads`, at most 9.
    #[graphql(default)]
    image_ids: Vec<ID>,
}

/// Why a review was not written.
#[derive(Clone, Copy, PartialEq, Eq, Enum)]
pub enum ReviewRefusal {
    /// The viewer has reviewed this order, or without one this shop.
    AlreadyReviewed,
    /// The order is not redeemed.
    OrderNotUsed,
}

/// What a review came to.
#[derive(SimpleObject)]
pub struct AddReviewPayload {
    /// The review; null when there is a refusal.
    review: Option<Review>,
    /// Why it was not written; null when it was.
    refusal: Option<ReviewRefusal>,
}

/// A review to delete.
#[derive(InputObject)]
pub struct DeleteReviewInput {
    /// The review.
    review_id: ID,
}

/// A review is gone.
#[derive(SimpleObject)]
pub struct DeleteReviewPayload {
    /// The id that it had.
    review_id: ID,
    /// The shop, with its rating as it is now.
    shop: Shop,
}

/// Writing and deleting reviews.
#[derive(Default)]
pub struct ReviewMutation;

#[Object]
impl ReviewMutation {
    /// Writes a review and moves the shop's rating by it. Signed-in users, but not whoever runs the shop.
    #[graphql(guard = "Limited(&REVIEW_WRITES)")]
    async fn add_review(
        &self,
        ctx: &Context<'_>,
        input: AddReviewInput,
    ) -> Result<AddReviewPayload> {
        let session = ctx.require_viewer()?;
        let order = input.order_id.as_ref().map(|id| own_key(ctx, id));
        let new = NewReview {
            shop: ShopId(parse_id(&input.shop_id, "Shop", "input.shopId")?),
            order: order.transpose()?,
            score: input.score,
            images: image_ids(&input.image_ids)?,
            text: input.text,
        };
        let reviews = &ctx.services().reviews;
        Ok(match reviews.add(session, new).await.map_err(api_error)? {
            Added::Review(review) => AddReviewPayload {
                review: Some(Review(review)),
                refusal: None,
            },
            Added::AlreadyReviewed(_) => refused(ReviewRefusal::AlreadyReviewed),
            Added::OrderNotUsed => refused(ReviewRefusal::OrderNotUsed),
        })
    }

    /// Deletes a review and takes it out of the shop's rating. Its author, and administrators.
    #[graphql(guard = "Limited(&REVIEW_WRITES)")]
    async fn delete_review(
        &self,
        ctx: &Context<'_>,
        input: DeleteReviewInput,
    ) -> Result<DeleteReviewPayload> {
        let session = ctx.require_viewer()?;
        let id = ReviewId(parse_id(&input.review_id, "Review", "input.reviewId")?);
        let deleted = ctx.services().reviews.delete(session, id).await;
        let review = deleted.map_err(api_error)?;
        let shop = ctx.services().shops.load(ShopId(review.shop_id)).await;
        Ok(DeleteReviewPayload {
            review_id: input.review_id,
            shop: shop.map_err(api_error)?.map(Shop).ok_or_else(not_found)?,
        })
    }
}

fn refused(refusal: ReviewRefusal) -> AddReviewPayload {
    AddReviewPayload {
        review: None,
        refusal: Some(refusal),
    }
}
