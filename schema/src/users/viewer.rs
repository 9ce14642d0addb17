//! The viewer in the API: what is theirs alone.

use async_graphql::{Context, ID, Object, Result};
use domain::users::{UserCard, UserId, Users};
use tokio::sync::OnceCell;

use super::{User, UserRole};
use crate::chats::{Conversation, conversation_with, conversations_of};
use crate::context::ContextExt;
use crate::error::{api_error, unauthenticated};
use crate::feeds;
use crate::notifications::{Notification, notifications_of, unread_count_of};
use crate::orders::waitlist::position_of;
use crate::orders::{Order, OrderStatus, orders_of, own_key};
use crate::pagination::List;
use crate::reminders::has_reminder;
use crate::sign_ins::{SignInCalendar, SignInStreak};

/// The person who is signed in.
pub struct Viewer {
    pub(crate) user_id: UserId,
    /// Read when first asked for: most requests of a viewer are about their orders.
    row: OnceCell<domain::users::User>,
}

impl Viewer {
    pub(super) fn of(user_id: UserId) -> Self {
        Self {
            user_id,
            row: OnceCell::new(),
        }
    }

    pub(super) fn known(row: domain::users::User) -> Self {
        Self {
            user_id: UserId(row.id),
            row: OnceCell::new_with(Some(row)),
        }
    }

    async fn row(&self, users: &Users) -> Result<&domain::users::User> {
        let read = async || match users.get(self.user_id).await {
            Ok(Some(row)) => Ok(row),
            Ok(None) => Err(unauthenticated()),
            Err(e) => Err(api_error(e)),
        };
        self.row.get_or_try_init(read).await
    }
}

/// The person who is signed in, and what is theirs alone.
#[Object]
impl Viewer {
    /// The viewer as others see them.
    async fn user(&self, ctx: &Context<'_>) -> Result<User> {
        let row = self.row(&ctx.services().users).await?;
        Ok(User {
            row: UserCard::from(row),
            is_self: true,
        })
    }

    /// The viewer's phone number in full, in E.164: a plus and 8 to 15 digits.
    async fn phone(&self, ctx: &Context<'_>) -> Result<&str> {
        Ok(&self.row(&ctx.services().users).await?.phone)
    }

    /// What the viewer may do.
    async fn role(&self, ctx: &Context<'_>) -> Result<UserRole> {
        Ok(self.row(&ctx.services().users).await?.role.into())
    }

    /// The viewer's orders, newest first; those that are still QUEUED are not in the list yet.
    #[graphql(complexity = "first.unwrap_or(20).clamp(0, 50) as usize * child_complexity + 1")]
    async fn orders(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only orders that stand there.")] status: Option<OrderStatus>,
        #[graphql(desc = "How many, 1 to 50; 20 by default.")] first: Option<i32>,
        #[graphql(desc = "The cursor of the last one before, of the same list.")] after: Option<
            String,
        >,
    ) -> Result<List<Order>> {
        orders_of(ctx, self.user_id, status, (first, after)).await
    }

    /// The how-manieth of a sale's waiting list the viewer is, from 1; null when they are not on it.
    async fn waitlist_position(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The voucher.")] voucher_id: ID,
    ) -> Option<Result<i32>> {
        position_of(ctx, self.user_id, &voucher_id)
            .await
            .transpose()
    }

    /// Whether the viewer has asked to be reminded of a sale.
    async fn has_reminder(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The voucher.")] voucher_id: ID,
    ) -> Result<bool> {
        has_reminder(ctx, self.user_id, &voucher_id).await
    }

    /// The viewer's conversations in which something was written, the newest message first.
    #[graphql(complexity = "first.unwrap_or(20).clamp(0, 50) as usize * child_complexity + 1")]
    async fn conversations(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "How many, 1 to 50; 20 by default.")] first: Option<i32>,
        #[graphql(desc = "The cursor of the last one before, of the same list.")] after: Option<
            String,
        >,
    ) -> Result<List<Conversation>> {
        conversations_of(ctx, self.user_id, (first, after)).await
    }

    /// The viewer's conversation with another user; null when nothing was ever written in it.
    async fn conversation(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The other user.")] user_id: ID,
    ) -> Option<Result<Conversation>> {
        conversation_with(ctx, self.user_id, &user_id)
            .await
            .transpose()
    }

    /// What the viewer was told, newest first; the newest 1,000 are kept.
    #[graphql(complexity = "first.unwrap_or(20).clamp(0, 50) as usize * child_complexity + 1")]
    async fn notifications(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "How many, 1 to 50; 20 by default.")] first: Option<i32>,
        #[graphql(desc = "The cursor of the last one before, of the same list.")] after: Option<
            String,
        >,
    ) -> Result<List<Notification>> {
        notifications_of(ctx, self.user_id, (first, after)).await
    }

    /// How many of the kept notifications are unread.
    async fn unread_notification_count(&self, ctx: &Context<'_>) -> Result<i32> {
        unread_count_of(ctx, self.user_id).await
    }

    /// The notes of those whom the viewer follows, the newest first: all that are there, by everybody followed now.
    #[graphql(complexity = "first.unwrap_or(20).clamp(0, 50) as usize * child_complexity + 1")]
    async fn feed(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "How many, 1 to 50; 20 by default.")] first: Option<i32>,
        #[graphql(desc = "The cursor of the last one before.")] after: Option<String>,
    ) -> Result<feeds::Feed> {
        feeds::feed(ctx, self.user_id, (first, after)).await
    }

    /// An order of the viewer by id, also one that is still QUEUED; null when there is none.
    async fn order(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The order.")] id: ID,
    ) -> Option<Result<Order>> {
        let key = own_key(ctx, &id).ok()?;
        let found = ctx
            .services()
            .orders
            .get(key)
            .await
            .map_err(api_error)
            .transpose()?;
        Some(found.map(Order))
    }

    /// The days of a year, or of one month of it, on which the viewer signed in.
    async fn sign_ins(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The year, 1970 to 9999.")] year: i32,
        #[graphql(desc = "The month, 1 to 12; the whole year by default.")] month: Option<i32>,
    ) -> Result<SignInCalendar> {
        SignInCalendar::read(ctx, self.user_id, year, month).await
    }

    /// How many days in a row the viewer has signed in, as of today in their time zone.
    async fn sign_in_streak(&self, ctx: &Context<'_>) -> Result<SignInStreak> {
        let streak = ctx.services().sign_ins.streak(self.user_id).await;
        Ok(streak.map_err(api_error)?.into())
    }
}
