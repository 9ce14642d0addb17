//! Comments on notes in the API.

use async_graphql::{Context, ID, InputObject, Object, Result, SimpleObject};
use chrono::{DateTime, Utc};
use domain::blogs::{BlogId, CommentId, CommentPage, NewComment};
use domain::users::UserId;

use super::Blog;
use crate::context::ContextExt;
use crate::error::{api_error, fault_error};
use crate::limits::{COMMENT_WRITES, Limited};
use crate::loaders::by_id;
use crate::pagination::{List, Page};
use crate::scalars::{global_id, parse_id, time};
use crate::users::User;

/// A comment.
pub struct Comment {
    row: domain::blogs::Comment,
    /// The note, where it is at hand.
    blog: Option<domain::blogs::Blog>,
}

/// What somebody said to a note. Anybody may see it, until it or the note is deleted.
#[Object]
impl Comment {
    /// The id of the comment.
    pub(crate) async fn id(&self) -> ID {
        global_id("Comment", self.row.id)
    }

    /// The note; null when it was deleted.
    async fn blog(&self, ctx: &Context<'_>) -> Option<Result<Blog>> {
        if let Some(blog) = &self.blog {
            return Some(Ok(Blog(blog.clone())));
        }
        let found = by_id(ctx).load_one(BlogId(self.row.blog_id)).await;
        let found = found.map_err(|e| fault_error(&*e)).transpose()?;
        Some(found.map(Blog))
    }

    /// Who wrote it; null when the account is no more. A banned author's comments stay.
    async fn author(&self, ctx: &Context<'_>) -> Option<Result<User>> {
        let found = by_id(ctx).load_one(UserId(self.row.author_id)).await;
        let found = found.map_err(|e| fault_error(&*e)).transpose()?;
        Some(found.map(User::new))
    }

    /// What it says, 1 to 500 characters, as the author typed it.
    async fn text(&self) -> &str {
        &self.row.text
    }

    /// When it was written.
    async fn created_at(&self) -> DateTime<Utc> {
        time(self.row.created_at)
    }
}

/// A comment by its number; `None` when it or its note was deleted.
pub(crate) async fn comment_by_id(ctx: &Context<'_>, number: i64) -> Result<Option<Comment>> {
    let row = by_id(ctx).load_one(CommentId(number)).await;
    let Some(row) = row.map_err(|e| fault_error(&*e))? else {
        return Ok(None);
    };
    let blog = by_id(ctx).load_one(BlogId(row.blog_id)).await;
    let blog = blog.map_err(|e| fault_error(&*e))?;
    Ok(blog.map(|blog| Comment {
        row,
        blog: Some(blog),
    }))
}

/// A page of the comments on a note.
pub(super) async fn of_blog(
    ctx: &Context<'_>,
    blog_id: BlogId,
    (first, after): (Option<i32>, Option<String>),
) -> Result<List<Comment>> {
    let page: Page<CommentId> = Page::new(ctx, format!("blog-comments:{blog_id}"), first, after)?;
    let key = CommentPage {
        blog_id,
        after: page.after,
        limit: page.load(),
    };
    let found = by_id(ctx).load_one(key).await;
    let found = found.map_err(|e| fault_error(&*e))?.unwrap_or_default();
    let comments = found.into_iter().map(|row| Comment { row, blog: None });
    let comments = comments.collect();
    Ok(page.list(ctx, comments, |comment: &Comment| CommentId(comment.row.id)))
}

/// A comment to add.
#[derive(InputObject)]
pub struct AddCommentInput {
    /// The note.
    blog_id: ID,
    /// 1 to 500 characters.
    text: String,
    /// The client's own id of this request, 1 to 64 letters, digits or `_.:-`: a repeat with the same id and the same
    /// arguments answers the same comment and adds nothing more; with other arguments it is BAD_INPUT.
    client_request_id: Option<String>,
}

/// A comment to delete.
#[derive(InputObject)]
pub struct DeleteCommentInput {
    /// The comment.
    comment_id: ID,
}

/// A comment that was added.
#[derive(SimpleObject)]
pub struct AddCommentPayload {
    /// The comment.
    comment: Comment,
}

/// A comment that was deleted.
#[derive(SimpleObject)]
pub struct DeleteCommentPayload {
    /// The id that the comment had.
    deleted_comment_id: ID,
    /// The note as it is now.
    blog: Blog,
}

/// Saying something to notes.
#[derive(Default)]
pub struct CommentMutation;

#[Object]
impl CommentMutation {
    /// Adds a comment to a note. For users.
    ///
    /// NOT_FOUND when the note was deleted; BAD_INPUT with the argument's path when the text is too short, too long or
    /// holds a NUL or a character that changes the direction of text.
    #[graphql(guard = "Limited(&COMMENT_WRITES)")]
    async fn add_comment(
        &self,
        ctx: &Context<'_>,
        input: AddCommentInput,
    ) -> Result<AddCommentPayload> {
        let session = ctx.require_viewer()?;
        let new = NewComment {
            blog_id: BlogId(parse_id(&input.blog_id, "Blog", "input.blogId")?),
            text: input.text,
            request_id: input.client_request_id,
        };
        let added = ctx.services().blogs.add_comment(session, new).await;
        let (row, blog) = added.map_err(api_error)?;
        let blog = Some(blog);
        Ok(AddCommentPayload {
            comment: Comment { row, blog },
        })
    }

    /// Deletes a comment for good. Its author, the note's author, and administrators.
    ///
    /// NOT_FOUND when it, or the note, is deleted already.
    #[graphql(guard = "Limited(&COMMENT_WRITES)")]
    async fn delete_comment(
        &self,
        ctx: &Context<'_>,
        input: DeleteCommentInput,
    ) -> Result<DeleteCommentPayload> {
        let session = ctx.require_viewer()?;
        let id = CommentId(parse_id(&input.comment_id, "Comment", "input.commentId")?);
        let deleted = ctx.services().blogs.delete_comment(session, id).await;
        Ok(DeleteCommentPayload {
            deleted_comment_id: global_id("Comment", id.0),
            blog: Blog(deleted.map_err(api_error)?),
        })
    }
}
