//! Liking notes in the API.

use async_graphql::{Context, ID, InputObject, Object, Result, SimpleObject};
use domain::blogs::BlogId;

use super::Blog;
use crate::context::ContextExt;
use crate::error::{api_error, fault_error};
use crate::limits::{LIKES, Limited};
use crate::loaders::{LikedBy, LikersOf, by_id};
use crate::scalars::parse_id;
use crate::users::User;

/// Whether the viewer likes a note.
pub(super) async fn is_liked(ctx: &Context<'_>, blog: BlogId) -> Result<bool> {
    let Some(viewer) = ctx.viewer() else {
        return Ok(false);
    };
    let user = viewer.user_id;
    let found = by_id(ctx).load_one(LikedBy { user, blog }).await;
    Ok(found.map_err(|e| fault_error(&*e))?.is_some())
}

/// Who liked a note last.
pub(super) async fn latest_likers(ctx: &Context<'_>, blog: BlogId) -> Result<Vec<User>> {
    let ids = by_id(ctx).load_one(LikersOf(blog)).await;
    let ids = ids.map_err(|e| fault_error(&*e))?.unwrap_or_default();
    let users = by_id(ctx).load_many(ids.iter().copied()).await;
    let mut users = users.map_err(|e| fault_error(&*e))?;
    let in_order = ids.iter().filter_map(|id| users.remove(id));
    Ok(in_order.map(User::new).collect())
}

/// A note to like.
#[derive(InputObject)]
pub struct LikeBlogInput {
    /// The note.
    blog_id: ID,
}

/// A note to like no more.
#[derive(InputObject)]
pub struct UnlikeBlogInput {
    /// The note.
    blog_id: ID,
}

/// A note that is liked.
#[derive(SimpleObject)]
pub struct LikeBlogPayload {
    /// The note as it is now.
    blog: Blog,
}

/// A note that is liked no more.
#[derive(SimpleObject)]
pub struct UnlikeBlogPayload {
    /// The note as it is now.
    blog: Blog,
}

/// Liking notes.
#[derive(Default)]
pub struct LikeMutation;

#[Object]
impl LikeMutation {
    /// Likes a note; liking it again changes nothing. For users.
    ///
    /// NOT_FOUND when the note was deleted.
    #[graphql(guard = "Limited(&LIKES)")]
    async fn like_blog(&self, ctx: &Context<'_>, input: LikeBlogInput) -> Result<LikeBlogPayload> {
        let session = ctx.require_viewer()?;
        let id = BlogId(parse_id(&input.blog_id, "Blog", "input.blogId")?);
        let liked = ctx.services().blogs.like(session, id).await;
        let blog = Blog(liked.map_err(api_error)?);
        Ok(LikeBlogPayload { blog })
    }

    /// Likes a note no more; when the viewer does not like it, nothing changes. For users.
    ///
    /// NOT_FOUND when the note was deleted.
    #[graphql(guard = "Limited(&LIKES)")]
    async fn unlike_blog(
        &self,
        ctx: &Context<'_>,
        input: UnlikeBlogInput,
    ) -> Result<UnlikeBlogPayload> {
        let session = ctx.require_viewer()?;
        let id = BlogId(parse_id(&input.blog_id, "Blog", "input.blogId")?);
        let unliked = ctx.services().blogs.unlike(session, id).await;
        let blog = Blog(unliked.map_err(api_error)?);
        Ok(UnlikeBlogPayload { blog })
    }
}
