//! Feeds in the API: the notes of those whom the viewer follows.

use async_graphql::connection::{ConnectionNameType, EdgeNameType, EmptyFields};
use async_graphql::{Context, OutputType, Result, Subscription};
use domain::blogs::BlogKey;
use domain::users::UserId;
use futures_util::{Stream, StreamExt};

use crate::blogs::Blog;
use crate::context::ContextExt;
use crate::error::api_error;
use crate::pagination::{List, Page};

/// What a feed's connection and its edges are called.
pub struct FeedNames;

impl ConnectionNameType for FeedNames {
    fn type_name<T: OutputType>() -> String {
        "FeedConnection".to_owned()
    }
}

impl EdgeNameType for FeedNames {
    fn type_name<T: OutputType>() -> String {
        "FeedEdge".to_owned()
    }
}

/// A page of a feed.
pub type Feed = List<Blog, EmptyFields, FeedNames, FeedNames>;

/// The list `Viewer.feed`.
pub(crate) async fn feed(
    ctx: &Context<'_>,
    user: UserId,
    (first, after): (Option<i32>, Option<String>),
) -> Result<Feed> {
    let page: Page<BlogKey> = Page::new(ctx, format!("feed:{user}"), first, after)?;
    let feeds = &ctx.services().feeds;
    let found = feeds.page(user, page.after, page.load()).await;
    let notes = found.map_err(api_error)?.into_iter().map(Blog).collect();
    Ok(page.list(ctx, notes, |note: &Blog| BlogKey::of(&note.0)))
}

/// Watching a feed.
#[derive(Default)]
pub struct FeedSubscription;

#[Subscription]
impl FeedSubscription {
    /// New notes of those whom the viewer follows when they are published, from now on, each once. For what came before,
    /// read `Viewer.feed` after this has begun. Signed-in users.
    ///
    /// Ends with `TRY_LATER` when notes come faster than they are read.
    async fn feed(&self, ctx: &Context<'_>) -> Result<impl Stream<Item = Result<Blog>>> {
        let viewer = ctx.require_viewer()?.user_id;
        let notes = ctx.services().feeds.watch(viewer);
        Ok(notes.map(|note| note.map(Blog).map_err(api_error)))
    }
}
