//! Notifications in the API: the viewer's list, marking it read, hearing of new ones.

use async_graphql::{Context, Enum, ID, InputObject, Object, Result, SimpleObject, Subscription};
use chrono::{DateTime, Utc};
use domain::notifications::NotificationId;
use domain::users::UserId;
use futures_util::{Stream, StreamExt};

use crate::context::ContextExt;
use crate::error::{api_error, fault_error};
use crate::limits::{Limited, MARKS};
use crate::loaders::by_id;
use crate::node::{Node, find};
use crate::pagination::{List, Page};
use crate::scalars::{global_id, parse_id, time};
use crate::users::User;

/// What a notification is about.
#[derive(Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "domain::notifications::NotificationKind")]
pub enum NotificationKind {
    /// A sale that the viewer wanted to be reminded of begins soon. The subject is its voucher.
    SaleStarting,
    /// A unit of a sold-out sale is free, and it is the viewer's turn to take it. The subject is the voucher.
    WaitlistIssued,
    /// Somebody likes a note of the viewer. The subject is the note.
    BlogLiked,
    /// Somebody commented on a note of the viewer. The subject is the note.
    BlogCommented,
}

/// Something that a user was told.
pub struct Notification(pub(crate) domain::notifications::Notification);

/// Something that a user was told. Only this user sees it. The newest 1,000 are kept.
#[Object]
impl Notification {
    /// The global id.
    pub(crate) async fn id(&self) -> ID {
        global_id("Notification", self.0.id.0)
    }

    /// What it is about.
    async fn kind(&self) -> NotificationKind {
        self.0.kind.into()
    }

    /// Who brought it about; null when nobody did, or they are gone.
    async fn actor(&self, ctx: &Context<'_>) -> Option<Result<User>> {
        let found = by_id(ctx).load_one(self.0.actor?).await;
        let found = found.map_err(|e| fault_error(&*e)).transpose()?;
        Some(found.map(User::new))
    }

    /// The thing it is about; null when that is gone, or the viewer may no longer see it.
    async fn subject(&self, ctx: &Context<'_>) -> Option<Result<Node>> {
        let id = subject_id(&self.0.subject)?;
        find(ctx, &id).await.transpose()
    }

    /// A few words, at most 200 characters; null when kind and subject say it all.
    async fn text(&self) -> Option<&str> {
        self.0.text.as_deref()
    }

    /// When it was written.
    async fn created_at(&self) -> DateTime<Utc> {
        time(self.0.created_at_ms)
    }

    /// Whether the viewer has marked it, or a newer one, as read.
    async fn is_read(&self) -> bool {
        self.0.is_read
    }
}

/// The global id of what the domain writes as `blog:12`.
fn subject_id(subject: &str) -> Option<ID> {
    let (concept, number) = subject.split_once(':')?;
    let (first, rest) = concept.split_at_checked(1)?;
    let type_name = format!("{}{rest}", first.to_ascii_uppercase());
    Some(global_id(&type_name, number.parse().ok()?))
}

/// A page of a viewer's notifications.
pub(crate) async fn notifications_of(
    ctx: &Context<'_>,
    viewer: UserId,
    page: (Option<i32>, Option<String>),
) -> Result<List<Notification>> {
    let page: Page<i64> = Page::new(ctx, format!("notifications:{viewer}"), page.0, page.1)?;
    let found = ctx
        .services()
        .notifications
        .of_user(viewer, page.after, page.load() as u64)
        .await
        .map_err(api_error)?;
    let items = found.into_iter().map(Notification).collect();
    Ok(page.list(ctx, items, |n: &Notification| n.0.seq))
}

/// How many notifications of a viewer are unread.
pub(crate) async fn unread_count_of(ctx: &Context<'_>, viewer: UserId) -> Result<i32> {
    let unread = ctx.services().notifications.unread_count(viewer).await;
    Ok(i32::try_from(unread.map_err(api_error)?).unwrap_or(i32::MAX))
}

/// A viewer's notification by its number.
pub(crate) async fn notification_by_id(
    ctx: &Context<'_>,
    number: i64,
) -> Result<Option<Notification>> {
    let Some(viewer) = ctx.viewer() else {
        return Ok(None);
    };
    let notifications = &ctx.services().notifications;
    let found = notifications.get(viewer.user_id, NotificationId(number));
    Ok(found.await.map_err(api_error)?.map(Notification))
}

/// What to mark as read.
#[derive(InputObject)]
pub struct MarkNotificationsReadInput {
    /// The newest notification that was read: it and all before it are marked. Without it, all are.
    up_to: Option<ID>,
}

/// Notifications were marked as read.
#[derive(SimpleObject)]
pub struct MarkNotificationsReadPayload {
    /// How many notifications are unread now.
    unread_notification_count: i32,
}

/// Marking notifications.
#[derive(Default)]
pub struct NotificationMutation;

#[Object]
impl NotificationMutation {
    /// Marks the viewer's notifications as read, up to one of them. A repeat, and one that was read before, change nothing:
    /// the mark never goes back. For users.
    ///
    /// `NOT_FOUND` when the viewer has no such notification.
    #[graphql(guard = "Limited(&MARKS)")]
    async fn mark_notifications_read(
        &self,
        ctx: &Context<'_>,
        input: MarkNotificationsReadInput,
    ) -> Result<MarkNotificationsReadPayload> {
        let viewer = ctx.require_viewer()?.user_id;
        let up_to = input.up_to.map(|id| {
            let number = parse_id(&id, "Notification", "input.upTo");
            number.map(NotificationId)
        });
        let marked = ctx
            .services()
            .notifications
            .mark_read(viewer, up_to.transpose()?);
        marked.await.map_err(api_error)?;
        Ok(MarkNotificationsReadPayload {
            unread_notification_count: unread_count_of(ctx, viewer).await?,
        })
    }
}

/// Hearing of notifications.
#[derive(Default)]
pub struct NotificationSubscription;

#[Subscription]
impl NotificationSubscription {
    /// What the viewer is told from now on, each once and in order. Read `Viewer.notifications` once it runs, for what came
    /// before. Signed-in users.
    async fn notification_received(
        &self,
        ctx: &Context<'_>,
    ) -> Result<impl Stream<Item = Notification>> {
        let viewer = ctx.require_viewer()?.user_id;
        let told = ctx.services().notifications.watch(viewer).await;
        Ok(told.map_err(api_error)?.map(Notification))
    }
}

#[cfg(test)]
mod tests {
    use super::subject_id;
    use crate::scalars::global_id;

    #[test]
    fn a_subject_becomes_the_global_id_of_its_type() {
        assert_eq!(subject_id("blog:12"), Some(global_id("Blog", 12)));
        assert_eq!(subject_id("blog:x"), None);
        assert_eq!(subject_id("blog"), None);
    }
}
