//! Anything by its id.

#![expect(
    missing_docs,
    reason = "the interface's derive makes a method without any"
)]

use async_graphql::{Context, ID, Interface, Object, Result};
use chrono::{DateTime, Utc};
use domain::blogs::BlogId;
use domain::reviews::ReviewId;
use domain::shops::ShopId;
use domain::uploads::ImageId;
use domain::users::UserId;
use domain::vouchers::VoucherId;

use crate::blogs::Blog;
use crate::blogs::comment::{Comment, comment_by_id};
use crate::chats::{Conversation, Message, conversation_by_id, message_by_id};
use crate::context::ContextExt;
use crate::error::{api_error, bad_input, fault_error};
use crate::loaders::by_id;
use crate::notifications::{Notification, notification_by_id};
use crate::orders::Order;
use crate::reviews::Review;
use crate::scalars::split_id;
use crate::shops::Shop;
use crate::uploads::Image;
use crate::users::User;
use crate::vouchers::{Voucher, is_shown};

/// Most ids in one question.
const IDS_MAX: usize = 100;

/// Something with an id of its own.
#[derive(Interface)]
#[graphql(field(
    name = "id",
    ty = "ID",
    desc = "The id: opaque, and the same for ever."
))]
pub enum Node {
    /// A user.
    User(User),
    /// A shop.
    Shop(Shop),
    /// A note.
    Blog(Blog),
    /// A comment on a note.
    Comment(Comment),
    /// A voucher.
    Voucher(Voucher),
    /// An order.
    Order(Order),
    /// A review.
    Review(Review),
    /// A notification.
    Notification(Notification),
    /// A conversation.
    Conversation(Conversation),
    /// A message.
    Message(Message),
    /// A picture.
    Image(Image),
}

/// Reading anything by its id.
#[derive(Default)]
pub struct NodeQuery;

#[Object]
impl NodeQuery {
    /// The thing with this id; null when there is none, or the viewer may not see it.
    async fn node(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Its id.")] id: ID,
    ) -> Option<Result<Node>> {
        find(ctx, &id).await.transpose()
    }

    /// The things with these ids, at most 100, in their order; null for each that is not there or not to be seen.
    #[graphql(complexity = "ids.len() * child_complexity + 1")]
    async fn nodes(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Their ids.")] ids: Vec<ID>,
    ) -> Result<Vec<Option<Node>>> {
        if ids.len() > IDS_MAX {
            return Err(bad_input("ids", format!("at most {IDS_MAX} ids at once")));
        }
        // All of them to their ends: a question to the database must not be dropped half-way.
        let found = futures_util::future::join_all(ids.iter().map(|id| find(ctx, id))).await;
        found.into_iter().collect()
    }

    /// The server's time. Windows of sales and deadlines go by it.
    async fn server_time(&self, ctx: &Context<'_>) -> DateTime<Utc> {
        crate::scalars::time(ctx.services().infra().clock.now_ms())
    }
}

/// The thing with an id, as far as the viewer may see it.
pub(crate) async fn find(ctx: &Context<'_>, id: &ID) -> Result<Option<Node>> {
    if let Some(key) = ctx.services().orders.open(id) {
        let Some(viewer) = ctx.viewer().filter(|v| v.user_id == key.buyer) else {
            return Ok(None);
        };
        tracing::trace!(user.id = viewer.user_id.0, "reading an order by its id");
        return Ok(ctx
            .services()
            .orders
            .get(key)
            .await
            .map_err(api_error)?
            .map(|o| Node::Order(Order(o))));
    }
    let Some((name, number)) = split_id(id) else {
        return Ok(None);
    };
    Ok(match name.as_str() {
        "User" => load(ctx, UserId(number))
            .await?
            .map(|u| Node::User(User::new(u))),
        "Blog" => load(ctx, BlogId(number))
            .await?
            .map(|b| Node::Blog(Blog(b))),
        "Shop" => load(ctx, ShopId(number))
            .await?
            .map(|s| Node::Shop(Shop(s))),
        "Image" => load(ctx, ImageId(number))
            .await?
            .filter(|i| ctx.services().uploads.is_visible_to(i, ctx.viewer()))
            .map(|i| Node::Image(Image(i))),
        "Review" => load(ctx, ReviewId(number))
            .await?
            .map(|r| Node::Review(Review(r))),
        "Voucher" => match load(ctx, VoucherId(number)).await? {
            Some(voucher) if is_shown(ctx, VoucherId(number)).await? => {
                Some(Node::Voucher(Voucher(voucher)))
            }
            _ => None,
        },
        "Conversation" => conversation_by_id(ctx, number)
            .await?
            .map(Node::Conversation),
        "Comment" => comment_by_id(ctx, number).await?.map(Node::Comment),
        "Message" => message_by_id(ctx, number).await?.map(Node::Message),
        "Notification" => notification_by_id(ctx, number)
            .await?
            .map(Node::Notification),
        _ => None,
    })
}

async fn load<K, V, E>(ctx: &Context<'_>, key: K) -> Result<Option<V>>
where
    K: Send + Sync + std::hash::Hash + Eq + Clone + 'static,
    V: Send + Sync + Clone + 'static,
    E: domain::infra::fault::Faulty + Send + Sync + 'static,
    crate::loaders::ById:
        async_graphql::dataloader::Loader<K, Value = V, Error = std::sync::Arc<E>>,
{
    by_id(ctx).load_one(key).await.map_err(|e| fault_error(&*e))
}
