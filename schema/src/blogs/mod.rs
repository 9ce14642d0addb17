//! Notes in the API.

pub mod comment;
pub mod like;
pub mod mutation;

use async_graphql::connection::EmptyFields;
use async_graphql::{Context, ID, Object, Result};
use chrono::{DateTime, Utc};
use domain::blogs::{BlogId, BlogKey, Error, HotBlog, HotKey, Pace};
use domain::shops::ShopId;
use domain::switches::Switch;
use domain::uploads::from_column;
use domain::users::UserId;

use crate::context::ContextExt;
use crate::degraded::is_off;
use crate::error::{api_error, coded, fault_error};
use crate::limits::{LISTS, Limited};
use crate::loaders::by_id;
use crate::pagination::{List, Page};
use crate::scalars::{global_id, parse_id, parse_min_version, time};
use crate::shops::Shop;
use crate::uploads::{Image, images_of};
use crate::users::User;
use comment::Comment;

/// A note.
pub struct Blog(pub(crate) domain::blogs::Blog);

/// A note that a user wrote. Anybody may see it, until it is deleted.
#[Object]
impl Blog {
    /// The id of the note.
    pub(crate) async fn id(&self) -> ID {
        global_id("Blog", self.0.id)
    }

    /// Who wrote it; null when the account is no more. A banned author's notes stay.
    async fn author(&self, ctx: &Context<'_>) -> Option<Result<User>> {
        let found = by_id(ctx).load_one(UserId(self.0.author_id)).await;
        let found = found.map_err(|e| fault_error(&*e)).transpose()?;
        Some(found.map(User::new))
    }

    /// The shop that it is about; null when it is about none.
    async fn shop(&self, ctx: &Context<'_>) -> Option<Result<Shop>> {
        let found = by_id(ctx).load_one(ShopId(self.0.shop_id?)).await;
        let found = found.map_err(|e| fault_error(&*e)).transpose()?;
        Some(found.map(Shop))
    }

    /// Its title, 1 to 100 characters, as the author typed it.
    async fn title(&self) -> &str {
        &self.0.title
    }

    /// What it says, 1 to 5,000 characters, as the author typed it.
    async fn content(&self) -> &str {
        &self.0.content
    }

    /// Its pictures, at most 9, in the order that the author gave them; those that the author has deleted are left out.
    #[graphql(complexity = "9 * child_complexity + 1")]
    async fn images(&self, ctx: &Context<'_>) -> Result<Vec<Image>> {
        images_of(ctx, &from_column(&self.0.image_ids)).await
    }

    /// How many like it.
    async fn like_count(&self) -> i32 {
        count(self.0.like_count)
    }

    /// Whether the viewer likes it; false when nobody is signed in.
    async fn is_liked_by_viewer(&self, ctx: &Context<'_>) -> Result<bool> {
        like::is_liked(ctx, BlogId(self.0.id)).await
    }

    /// Who liked it last, the newest first; at most five.
    #[graphql(complexity = "5 * child_complexity + 1")]
    async fn latest_likers(&self, ctx: &Context<'_>) -> Result<Vec<User>> {
        like::latest_likers(ctx, BlogId(self.0.id)).await
    }

    /// How many comments there are on it.
    async fn comment_count(&self) -> i32 {
        count(self.0.comment_count)
    }

    /// The comments on it, newest first. `first` is 1 to 50, 20 by default.
    #[graphql(complexity = "first.unwrap_or(20).clamp(0, 50) as usize * child_complexity + 1")]
    async fn comments(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "How many, 1 to 50; 20 by default.")] first: Option<i32>,
        #[graphql(desc = "The cursor of the last one before.")] after: Option<String>,
    ) -> Result<List<Comment>> {
        comment::of_blog(ctx, BlogId(self.0.id), (first, after)).await
    }

    /// How often its author changed it.
    async fn edit_count(&self) -> i32 {
        count(self.0.edit_count)
    }

    /// When it was published.
    async fn created_at(&self) -> DateTime<Utc> {
        time(self.0.created_at)
    }

    /// When its author last changed it; when it was published, if they never did.
    async fn updated_at(&self) -> DateTime<Utc> {
        time(self.0.updated_at)
    }

    /// Grows with each change of the note: of its text, its likes, its comments.
    async fn version(&self) -> String {
        self.0.version.to_string()
    }
}

/// Reading notes.
#[derive(Default)]
pub struct BlogQuery;

#[Object]
impl BlogQuery {
    /// A note; null when there is none, or it was deleted. A malformed id is BAD_INPUT. Another server's change may come up
    /// to 5 s late, unless `minVersion` asks for it: null with TRY_LATER and `retryAfterMs` when that version is not to be
    /// seen yet. For everybody.
    async fn blog(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The note.")] id: ID,
        #[graphql(desc = "The `version` that the answer must have at least.")] min_version: Option<
            String,
        >,
    ) -> Option<Result<Blog>> {
        let read = async {
            let id = BlogId(parse_id(&id, "Blog", "id")?);
            let min_version = parse_min_version(min_version.as_deref())?;
            let blogs = &ctx.services().blogs;
            blogs.get(id, min_version).await.map_err(api_error)
        };
        Some(read.await.transpose()?.map(Blog))
    }

    /// The 500 notes that most people like; of two with as many likes the later one comes first. For everybody.
    ///
    /// The list is as of at most two seconds ago, and following pages are of the same moment: no note comes twice and none
    /// is left out, whatever is liked meanwhile; the notes themselves are as they are now, and deleted ones are skipped.
    /// Some twenty minutes later its cursors are BAD_CURSOR: begin anew.
    #[graphql(
        complexity = "first.unwrap_or(20).clamp(0, 50) as usize * child_complexity + 1",
        guard = "Limited(&LISTS)"
    )]
    async fn hot_blogs(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "How many, 1 to 50; 20 by default.")] first: Option<i32>,
        #[graphql(desc = "The cursor of the last one before.")] after: Option<String>,
    ) -> Result<List<Blog>> {
        let page: Page<HotKey> = Page::new(ctx, "hot-blogs", first, after)?;
        let pace = match is_off(ctx, Switch::HotBlogs, "hotBlogs") {
            true => Pace::Slow,
            false => Pace::Usual,
        };
        let blogs = &ctx.services().blogs;
        let found = blogs.hot(pace, page.after, page.load()).await;
        let found = found.map_err(|e| match e {
            Error::RankingGone => coded("BAD_CURSOR", e.to_string()),
            e => api_error(e),
        })?;
        let parts = |hot: HotBlog| (Blog(hot.blog), EmptyFields);
        Ok(page.list_with(ctx, found, |hot| hot.key, parts))
    }
}

/// A page of the notes of an author.
pub(crate) async fn of_author(
    ctx: &Context<'_>,
    author: UserId,
    (first, after): (Option<i32>, Option<String>),
) -> Result<List<Blog>> {
    let page: Page<BlogKey> = Page::new(ctx, format!("user-blogs:{author}"), first, after)?;
    let blogs = &ctx.services().blogs;
    let found = blogs.of_author(author, page.after, page.load() as u64);
    let found = found.await.map_err(api_error)?;
    Ok(list(ctx, &page, found))
}

/// A page of the notes about a shop.
pub(crate) async fn of_shop(
    ctx: &Context<'_>,
    shop: ShopId,
    (first, after): (Option<i32>, Option<String>),
) -> Result<List<Blog>> {
    let page: Page<BlogKey> = Page::new(ctx, format!("shop-blogs:{shop}"), first, after)?;
    let blogs = &ctx.services().blogs;
    let found = blogs.of_shop(shop, page.after, page.load() as u64);
    let found = found.await.map_err(api_error)?;
    Ok(list(ctx, &page, found))
}

fn list(ctx: &Context<'_>, page: &Page<BlogKey>, found: Vec<domain::blogs::Blog>) -> List<Blog> {
    let notes = found.into_iter().map(Blog).collect();
    page.list(ctx, notes, |blog: &Blog| BlogKey::of(&blog.0))
}

fn count(number: i64) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
