//! What guests say of shops, with a score that moves the shop's rating: once for each redeemed order, and once for each
//! user without one.

mod write;

use entity::review;
use sea_orm::{ColumnTrait, DbErr, EntityTrait, QueryFilter, QueryOrder, QuerySelect};

use crate::define_id;
use crate::infra::Infra;
use crate::infra::fault::{Fault, Faulty, database_fault};
use crate::infra::ids::IdsError;
use crate::infra::text::{TextError, check_text};
use crate::orders::{self, OrderId, OrderKey, Orders};
use crate::shops::{self, ShopId, Shops};
use crate::uploads::{self, ImageId, Uploads, to_column};
use crate::users::{Role, Session};

define_id!(
    /// The number of a review.
    ReviewId
);

/// A review as stored.
pub type Review = review::Model;

/// The most characters of a review.
pub const TEXT_MAX: usize = 2_000;
/// Ids in one question to the database.
const IDS_PER_READ: usize = 500;

/// What goes wrong with reviews.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No such review, or it was deleted.
    #[error("no such review")]
    NoSuchReview,
    /// No such shop.
    #[error("no such shop")]
    NoSuchShop,
    /// Neither its author nor an administrator.
    #[error("only its author or an administrator may delete a review")]
    Forbidden,
    /// The viewer runs the shop.
    #[error("nobody reviews a shop of their own")]
    OwnShop,
    /// A score that is none.
    #[error("a score is 1 to 5")]
    BadScore,
    /// An order of another shop.
    #[error("this is no order of the shop")]
    OtherShop,
    /// A text that is not taken.
    #[error(transparent)]
    Text(#[from] TextError),
    /// The pictures' own trouble.
    #[error(transparent)]
    Uploads(#[from] uploads::Error),
    /// The orders' own trouble.
    #[error(transparent)]
    Orders(#[from] orders::Error),
    /// The shops' own trouble.
    #[error(transparent)]
    Shops(#[from] shops::Error),
    /// No id could be made.
    #[error(transparent)]
    Ids(#[from] IdsError),
    /// The database's own.
    #[error("the database failed: {0}")]
    Database(#[from] DbErr),
}

impl Faulty for Error {
    fn fault(&self) -> Fault {
        match self {
            Self::NoSuchReview | Self::NoSuchShop => Fault::NotFound,
            Self::Forbidden | Self::OwnShop => Fault::Forbidden,
            Self::BadScore => Fault::BadInput {
                argument: "input.score",
            },
            Self::OtherShop => Fault::BadInput {
                argument: "input.orderId",
            },
            Self::Text(e) => e.fault(),
            Self::Uploads(e) => e.fault(),
            Self::Orders(e) => e.fault(),
            Self::Shops(e) => e.fault(),
            Self::Ids(_) => Fault::Unavailable,
            Self::Database(e) => database_fault(e),
        }
    }
}

/// A review to write.
#[derive(Clone, Debug)]
pub struct NewReview {
    /// The shop.
    pub shop: ShopId,
    /// The viewer's order that it is about, used in this shop; `None`: about none.
    pub order: Option<OrderKey>,
    /// 1 to 5.
    pub score: i32,
    /// 1 to 2,000 characters.
    pub text: String,
    /// Pictures of the viewer's, at most 9.
    pub images: Vec<ImageId>,
}

/// What became of a review.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Added {
    /// It stands.
    Review(Review),
    /// The viewer wrote one about the same before, which may be deleted by an administrator.
    AlreadyReviewed(Review),
    /// The order is not redeemed.
    OrderNotUsed,
}

/// Reviews. Cheap to clone.
#[derive(Clone)]
pub struct Reviews {
    infra: Infra,
    shops: Shops,
    orders: Orders,
    uploads: Uploads,
}

impl Reviews {
    /// Makes the concept.
    pub fn new(infra: Infra, shops: Shops, orders: Orders, uploads: Uploads) -> Self {
        Self {
            infra,
            shops,
            orders,
            uploads,
        }
    }

    /// Writes a review, and moves the shop's rating by it.
    ///
    /// # Errors
    /// `NoSuchShop`, `OwnShop`; names the argument that is wrong; trouble of a store.
    pub async fn add(&self, session: &Session, new: NewReview) -> Result<Added, Error> {
        check(&new)?;
        let shop = self.shops.load(new.shop).await?.ok_or(Error::NoSuchShop)?;
        if shop.owner_id == Some(session.user_id.0) {
            return Err(Error::OwnShop);
        }
        if let Some(key) = new.order {
            let order = self.orders.require(key).await?;
            if order.status != orders::Status::Used {
                return Ok(Added::OrderNotUsed);
            }
            if order.shop_id != Some(new.shop) {
                return Err(Error::OtherShop);
            }
        }
        let images = &new.images;
        self.uploads.require_owned(session, images, &[]).await?;
        let row = self.row(session, new)?;
        Ok(self.insert(row).await?)
    }

    /// Deletes a review, and takes it out of the shop's rating; answers it as it was. Its author may write another one
    /// about the same then, unless an administrator deleted it.
    ///
    /// # Errors
    /// `NoSuchReview`, `Forbidden`, or trouble of the database.
    pub async fn delete(&self, session: &Session, id: ReviewId) -> Result<Review, Error> {
        let review = self
            .get_many(&[id])
            .await?
            .pop()
            .ok_or(Error::NoSuchReview)?;
        let is_author = review.user_id == session.user_id.0;
        if !is_author && session.role != Role::Admin {
            return Err(Error::Forbidden);
        }
        if self.take_out(review.clone(), is_author).await? {
            Ok(review)
        } else {
            Err(Error::NoSuchReview)
        }
    }

    /// Reviews by id; those that are missing or deleted are left out.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn get_many(&self, ids: &[ReviewId]) -> Result<Vec<Review>, Error> {
        let ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
        self.standing(review::Column::Id, &ids).await
    }

    /// The reviews of orders; those that have none are left out.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn of_orders(&self, orders: &[OrderId]) -> Result<Vec<Review>, Error> {
        let ids: Vec<i64> = orders.iter().map(|id| id.0).collect();
        self.standing(review::Column::OrderId, &ids).await
    }

    /// Reviews of a shop, newest first, before `before`; at most `limit`.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn of_shop(
        &self,
        shop: ShopId,
        before: Option<ReviewId>,
        limit: u64,
    ) -> Result<Vec<Review>, Error> {
        let reviews = review::Entity::find()
            .filter(review::Column::ShopId.eq(shop.0))
            .filter(review::Column::DeletedAt.is_null())
            .filter(review::Column::Id.lt(before.map_or(i64::MAX, |b| b.0)))
            .order_by_desc(review::Column::Id)
            .limit(limit);
        let db = self.infra.db.clone();
        let read = async move { reviews.all(db.conn()).await };
        Ok(self.infra.db.run(read).await?)
    }

    async fn standing(&self, column: review::Column, ids: &[i64]) -> Result<Vec<Review>, Error> {
        let mut found = Vec::with_capacity(ids.len());
        for chunk in ids.chunks(IDS_PER_READ) {
            let reviews = review::Entity::find()
                .filter(column.is_in(chunk.iter().copied()))
                .filter(review::Column::DeletedAt.is_null());
            let db = self.infra.db.clone();
            let read = async move { reviews.all(db.conn()).await };
            found.extend(self.infra.db.run(read).await?);
        }
        Ok(found)
    }

    fn row(&self, session: &Session, new: NewReview) -> Result<Review, Error> {
        Ok(Review {
            id: self.infra.ids.next()?,
            shop_id: new.shop.0,
            user_id: session.user_id.0,
            order_id: new.order.map_or(0, |key| key.order.0),
            holds: Some(1),
            score: new.score,
            text: new.text,
            image_ids: to_column(&new.images),
            created_at: self.infra.clock.now_ms(),
            deleted_at: None,
        })
    }
}

fn check(new: &NewReview) -> Result<(), Error> {
    if !(1..=5).contains(&new.score) {
        return Err(Error::BadScore);
    }
    check_text("input.text", &new.text, 1, TEXT_MAX)?;
    Ok(())
}
