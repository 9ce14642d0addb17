//! One question to the database for many things of one request.

use std::collections::HashMap;
use std::sync::Arc;

use async_graphql::Context;
use async_graphql::dataloader::{DataLoader, Loader};
use domain::Services;
use domain::blogs::{Blog, BlogId, Comment, CommentId, CommentPage};
use domain::chats::{Conversation, ConversationId, Message, MessageId, MessageRange};
use domain::follows::FollowCounts;
use domain::orders::OrderId;
use domain::reviews::{Review, ReviewId};
use domain::shops::{Shop, ShopId, ShopType, ShopTypeId};
use domain::uploads::{Image, ImageId};
use domain::users::{UserCard, UserId};
use domain::vouchers::{Offer, SaleCard, Voucher, VoucherId};

use crate::degraded::note_missing_redis;

/// Loads things by id.
pub(crate) struct ById {
    pub(crate) services: Services,
}

impl ById {
    /// A loader that asks once for what one moment wants.
    pub(crate) fn new(services: Services) -> DataLoader<Self> {
        DataLoader::new(Self { services }, tokio::spawn)
    }
}

/// The loader of the schema, for a field that is answered from the cache.
pub(crate) fn by_id<'a>(ctx: &Context<'a>) -> &'a DataLoader<ById> {
    note_missing_redis(ctx);
    ctx.data_unchecked::<DataLoader<ById>>()
}

/// The sale of a voucher, as a key of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SaleOf(pub(crate) VoucherId);

/// What an ordinary voucher has in stock, as a key of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct OfferOf(pub(crate) VoucherId);

impl Loader<ShopId> for ById {
    type Value = Shop;
    type Error = Arc<domain::shops::Error>;

    async fn load(&self, keys: &[ShopId]) -> Result<HashMap<ShopId, Shop>, Self::Error> {
        let shops = self.services.shops.shown(keys).await.map_err(Arc::new)?;
        Ok(shops.into_iter().map(|s| (ShopId(s.id), s)).collect())
    }
}

impl Loader<ShopTypeId> for ById {
    type Value = ShopType;
    type Error = Arc<domain::shops::Error>;

    async fn load(&self, _: &[ShopTypeId]) -> Result<HashMap<ShopTypeId, ShopType>, Self::Error> {
        // They are few: all of them cost no more than some.
        let types = self.services.shops.types().await.map_err(Arc::new)?;
        Ok(types.into_iter().map(|t| (ShopTypeId(t.id), t)).collect())
    }
}

impl Loader<BlogId> for ById {
    type Value = Blog;
    type Error = Arc<domain::blogs::Error>;

    async fn load(&self, keys: &[BlogId]) -> Result<HashMap<BlogId, Blog>, Self::Error> {
        let blogs = self.services.blogs.shown(keys).await.map_err(Arc::new)?;
        Ok(blogs.into_iter().map(|b| (BlogId(b.id), b)).collect())
    }
}

/// Whether a user likes a note, as a key of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LikedBy {
    pub(crate) user: UserId,
    pub(crate) blog: BlogId,
}

impl Loader<LikedBy> for ById {
    /// There is one when the user likes the note.
    type Value = ();
    type Error = Arc<domain::blogs::Error>;

    async fn load(&self, keys: &[LikedBy]) -> Result<HashMap<LikedBy, ()>, Self::Error> {
        let mut asked: HashMap<UserId, Vec<BlogId>> = HashMap::new();
        for key in keys {
            asked.entry(key.user).or_default().push(key.blog);
        }
        let mut liked = HashMap::new();
        for (user, blogs) in asked {
            let found = self.services.blogs.liked_by(user, &blogs).await;
            let found = found.map_err(Arc::new)?;
            liked.extend(found.into_iter().map(|blog| (LikedBy { user, blog }, ())));
        }
        Ok(liked)
    }
}

/// Who liked a note last, as a key of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LikersOf(pub(crate) BlogId);

impl Loader<LikersOf> for ById {
    type Value = Vec<UserId>;
    type Error = Arc<domain::blogs::Error>;

    async fn load(&self, keys: &[LikersOf]) -> Result<HashMap<LikersOf, Vec<UserId>>, Self::Error> {
        let ids: Vec<BlogId> = keys.iter().map(|k| k.0).collect();
        let likers = self.services.blogs.latest_likers(&ids).await;
        let likers = likers.map_err(Arc::new)?;
        Ok(likers
            .into_iter()
            .map(|(id, users)| (LikersOf(id), users))
            .collect())
    }
}

impl Loader<CommentId> for ById {
    type Value = Comment;
    type Error = Arc<domain::blogs::Error>;

    async fn load(&self, keys: &[CommentId]) -> Result<HashMap<CommentId, Comment>, Self::Error> {
        let comments = self.services.blogs.comments_by_ids(keys).await;
        let comments = comments.map_err(Arc::new)?;
        Ok(comments.into_iter().map(|c| (CommentId(c.id), c)).collect())
    }
}

impl Loader<CommentPage> for ById {
    type Value = Vec<Comment>;
    type Error = Arc<domain::blogs::Error>;

    async fn load(
        &self,
        keys: &[CommentPage],
    ) -> Result<HashMap<CommentPage, Vec<Comment>>, Self::Error> {
        self.services.blogs.comments(keys).await.map_err(Arc::new)
    }
}

impl Loader<UserId> for ById {
    type Value = UserCard;
    type Error = Arc<domain::users::Error>;

    async fn load(&self, keys: &[UserId]) -> Result<HashMap<UserId, UserCard>, Self::Error> {
        let users = self.services.users.cards(keys).await.map_err(Arc::new)?;
        Ok(users.into_iter().map(|u| (UserId(u.id), u)).collect())
    }
}

impl Loader<ImageId> for ById {
    type Value = Image;
    type Error = Arc<domain::uploads::Error>;

    async fn load(&self, keys: &[ImageId]) -> Result<HashMap<ImageId, Image>, Self::Error> {
        let images = self.services.uploads.get_many(keys).await;
        let images = images.map_err(Arc::new)?;
        Ok(images.into_iter().map(|i| (ImageId(i.id), i)).collect())
    }
}

impl Loader<VoucherId> for ById {
    type Value = Voucher;
    type Error = Arc<domain::vouchers::Error>;

    async fn load(&self, keys: &[VoucherId]) -> Result<HashMap<VoucherId, Voucher>, Self::Error> {
        let vouchers = self.services.vouchers.shown(keys).await;
        let vouchers = vouchers.map_err(Arc::new)?;
        Ok(vouchers.into_iter().map(|v| (VoucherId(v.id), v)).collect())
    }
}

impl Loader<OfferOf> for ById {
    type Value = Offer;
    type Error = Arc<domain::vouchers::Error>;

    async fn load(&self, keys: &[OfferOf]) -> Result<HashMap<OfferOf, Offer>, Self::Error> {
        let ids: Vec<VoucherId> = keys.iter().map(|k| k.0).collect();
        let offers = self.services.vouchers.offers(&ids).await;
        let offers = offers.map_err(Arc::new)?;
        Ok(offers
            .into_iter()
            .map(|o| (OfferOf(VoucherId(o.voucher_id)), o))
            .collect())
    }
}

impl Loader<ReviewId> for ById {
    type Value = Review;
    type Error = Arc<domain::reviews::Error>;

    async fn load(&self, keys: &[ReviewId]) -> Result<HashMap<ReviewId, Review>, Self::Error> {
        let reviews = self.services.reviews.get_many(keys).await;
        let reviews = reviews.map_err(Arc::new)?;
        Ok(reviews.into_iter().map(|r| (ReviewId(r.id), r)).collect())
    }
}

/// The review of an order, as a key of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ReviewOf(pub(crate) OrderId);

impl Loader<ReviewOf> for ById {
    type Value = Review;
    type Error = Arc<domain::reviews::Error>;

    async fn load(&self, keys: &[ReviewOf]) -> Result<HashMap<ReviewOf, Review>, Self::Error> {
        let orders: Vec<OrderId> = keys.iter().map(|k| k.0).collect();
        let reviews = self.services.reviews.of_orders(&orders).await;
        let reviews = reviews.map_err(Arc::new)?;
        Ok(reviews
            .into_iter()
            .map(|r| (ReviewOf(OrderId(r.order_id)), r))
            .collect())
    }
}

impl Loader<SaleOf> for ById {
    type Value = SaleCard;
    type Error = Arc<domain::vouchers::Error>;

    async fn load(&self, keys: &[SaleOf]) -> Result<HashMap<SaleOf, SaleCard>, Self::Error> {
        let ids: Vec<VoucherId> = keys.iter().map(|k| k.0).collect();
        let sales = self.services.vouchers.sale_cards(&ids).await;
        let sales = sales.map_err(Arc::new)?;
        Ok(sales
            .into_iter()
            .map(|s| (SaleOf(VoucherId(s.voucher_id)), s))
            .collect())
    }
}

/// One follow, as a key of its own; with it, which of the two is the same in many keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FollowOf {
    viewer: UserId,
    user: UserId,
    is_by_viewer: bool,
}

impl FollowOf {
    /// The viewer follows the user.
    pub(crate) fn followed_by(viewer: UserId, user: UserId) -> Self {
        Self {
            viewer,
            user,
            is_by_viewer: true,
        }
    }

    /// The user follows the viewer.
    pub(crate) fn follower_of(viewer: UserId, user: UserId) -> Self {
        Self {
            is_by_viewer: false,
            ..Self::followed_by(viewer, user)
        }
    }
}

impl Loader<FollowOf> for ById {
    type Value = ();
    type Error = Arc<domain::follows::Error>;

    async fn load(&self, keys: &[FollowOf]) -> Result<HashMap<FollowOf, ()>, Self::Error> {
        let mut questions: HashMap<(UserId, bool), Vec<UserId>> = HashMap::new();
        for key in keys {
            let of = (key.viewer, key.is_by_viewer);
            questions.entry(of).or_default().push(key.user);
        }
        let (follows, mut found) = (&self.services.follows, HashMap::new());
        for ((viewer, is_by_viewer), users) in questions {
            let those = match is_by_viewer {
                true => follows.is_following(viewer, &users).await,
                false => follows.followers_among(viewer, &users).await,
            };
            let key = |user| FollowOf {
                viewer,
                user,
                is_by_viewer,
            };
            found.extend(those.map_err(Arc::new)?.into_iter().map(|u| (key(u), ())));
        }
        Ok(found)
    }
}

/// How many follow a user and are followed, as a key of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CountsOf(pub(crate) UserId);

impl Loader<CountsOf> for ById {
    type Value = FollowCounts;
    type Error = Arc<domain::follows::Error>;

    async fn load(
        &self,
        keys: &[CountsOf],
    ) -> Result<HashMap<CountsOf, FollowCounts>, Self::Error> {
        let ids: Vec<UserId> = keys.iter().map(|k| k.0).collect();
        let counts = self.services.follows.counts(&ids).await.map_err(Arc::new)?;
        Ok(counts
            .into_iter()
            .map(|c| (CountsOf(UserId(c.user_id)), c))
            .collect())
    }
}

impl Loader<ConversationId> for ById {
    type Value = Conversation;
    type Error = Arc<domain::chats::Error>;

    async fn load(
        &self,
        keys: &[ConversationId],
    ) -> Result<HashMap<ConversationId, Conversation>, Self::Error> {
        let found = self.services.chats.by_ids(keys).await.map_err(Arc::new)?;
        Ok(found.into_iter().map(|c| (c.id, c)).collect())
    }
}

impl Loader<MessageId> for ById {
    type Value = Message;
    type Error = Arc<domain::chats::Error>;

    async fn load(&self, keys: &[MessageId]) -> Result<HashMap<MessageId, Message>, Self::Error> {
        let found = self.services.chats.messages(keys).await.map_err(Arc::new)?;
        Ok(found.into_iter().map(|m| (MessageId(m.id), m)).collect())
    }
}

impl Loader<MessageRange> for ById {
    type Value = Vec<Message>;
    type Error = Arc<domain::chats::Error>;

    async fn load(
        &self,
        keys: &[MessageRange],
    ) -> Result<HashMap<MessageRange, Vec<Message>>, Self::Error> {
        self.services.chats.histories(keys).await.map_err(Arc::new)
    }
}
