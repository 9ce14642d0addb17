//! What users do with notes.

use async_graphql::{Context, ID, InputObject, Object, Result, SimpleObject};
use domain::blogs::{BlogChange, BlogId, NewBlog};
use domain::shops::ShopId;

use super::Blog;
use crate::context::ContextExt;
use crate::error::api_error;
use crate::limits::{BLOG_WRITES, Limited};
use crate::scalars::{global_id, parse_id};
use crate::uploads::image_ids;

/// A note to publish.
#[derive(InputObject)]
pub struct PublishBlogInput {
    /// The shop that it is about; left out when it is about none.
    shop_id: Option<ID>,
    /// 1 to 100 characters.
    title: String,
    /// 1 to 5,000 characters.
    content: String,
    /// Pictures that the viewer has uploaded, at most 9, none twice, in the order to show them.
    #[graphql(default)]
    image_ids: Vec<ID>,
    /// The client's own id of this request, 1 to 64 letters, digits or `_.:-`: a repeat with the same id and the same
    /// arguments answers the same note and publishes nothing more; with other arguments it is BAD_INPUT.
    client_request_id: Option<String>,
}

/// A note as it is to be; what is left out or null stays.
#[derive(InputObject)]
pub struct UpdateBlogInput {
    /// The note.
    blog_id: ID,
    /// 1 to 100 characters.
    title: Option<String>,
    /// 1 to 5,000 characters.
    content: Option<String>,
    /// All its pictures from now on: at most 9 that the viewer has uploaded, none twice, in the order to show them.
    image_ids: Option<Vec<ID>>,
    /// The `editCount` of the note that the viewer saw: BAD_INPUT when it has been changed since, and nothing changes.
    edit_count: Option<i32>,
}

/// A note to delete.
#[derive(InputObject)]
pub struct DeleteBlogInput {
    /// The note.
    blog_id: ID,
}

/// A note that was published.
#[derive(SimpleObject)]
pub struct PublishBlogPayload {
    /// The note as it is now.
    blog: Blog,
}

/// A note that was changed.
#[derive(SimpleObject)]
pub struct UpdateBlogPayload {
    /// The note as it is now.
    blog: Blog,
}

/// A note that was deleted.
#[derive(SimpleObject)]
pub struct DeleteBlogPayload {
    /// The id that the note had.
    deleted_blog_id: ID,
}

/// Writing notes.
#[derive(Default)]
pub struct BlogMutation;

#[Object]
impl BlogMutation {
    /// Publishes a note. For users.
    ///
    /// BAD_INPUT with the argument's path when a text is too short, too long or holds a NUL or a character that changes the
    /// direction of text, when there is no such shop, or a picture is not the viewer's.
    #[graphql(guard = "Limited(&BLOG_WRITES)")]
    async fn publish_blog(
        &self,
        ctx: &Context<'_>,
        input: PublishBlogInput,
    ) -> Result<PublishBlogPayload> {
        let session = ctx.require_viewer()?;
        let shop = input.shop_id.as_ref();
        let shop = shop.map(|id| parse_id(id, "Shop", "input.shopId"));
        let new = NewBlog {
            shop_id: shop.transpose()?.map(ShopId),
            title: input.title,
            content: input.content,
            image_ids: image_ids(&input.image_ids)?,
            request_id: input.client_request_id,
        };
        let published = ctx.services().blogs.publish(session, new).await;
        let blog = Blog(published.map_err(api_error)?);
        Ok(PublishBlogPayload { blog })
    }

    /// Changes a note. Its author.
    ///
    /// NOT_FOUND when it was deleted; BAD_INPUT as for `publishBlog`: then nothing changes.
    #[graphql(guard = "Limited(&BLOG_WRITES)")]
    async fn update_blog(
        &self,
        ctx: &Context<'_>,
        input: UpdateBlogInput,
    ) -> Result<UpdateBlogPayload> {
        let session = ctx.require_viewer()?;
        let id = BlogId(parse_id(&input.blog_id, "Blog", "input.blogId")?);
        let change = BlogChange {
            title: input.title,
            content: input.content,
            image_ids: input.image_ids.as_deref().map(image_ids).transpose()?,
            edit_count: input.edit_count.map(i64::from),
        };
        let updated = ctx.services().blogs.update(session, id, change).await;
        let blog = Blog(updated.map_err(api_error)?);
        Ok(UpdateBlogPayload { blog })
    }

    /// Deletes a note, with its likes and comments, for everybody and for good. Its author, and administrators.
    ///
    /// NOT_FOUND when it is deleted already.
    #[graphql(guard = "Limited(&BLOG_WRITES)")]
    async fn delete_blog(
        &self,
        ctx: &Context<'_>,
        input: DeleteBlogInput,
    ) -> Result<DeleteBlogPayload> {
        let session = ctx.require_viewer()?;
        let id = BlogId(parse_id(&input.blog_id, "Blog", "input.blogId")?);
        let deleted = ctx.services().blogs.delete(session, id).await;
        Ok(DeleteBlogPayload {
            deleted_blog_id: global_id("Blog", deleted.map_err(api_error)?.0),
        })
    }
}
