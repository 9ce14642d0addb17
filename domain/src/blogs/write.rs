//! Writing, changing and deleting notes.

use entity::{blog, blog_fanout};
use sea_orm::{ColumnTrait, DbErr, EntityTrait, IntoActiveModel, QueryFilter};

use super::cached::BlogById;
use super::request::Request;
use super::{Blog, BlogId, Blogs, Error, store};
use crate::infra::db::is_unique_violation;
use crate::infra::text::check_text;
use crate::shops::ShopId;
use crate::uploads::{ImageId, from_column, to_column};
use crate::users::{Session, UserId};

/// Characters of a title, at most.
pub const TITLE_MAX_CHARS: usize = 100;
/// Characters of what a note says, at most.
pub const CONTENT_MAX_CHARS: usize = 5_000;
/// The channel that tells of new notes, each as `<note>:<author>`. Who must not miss one reads `blog_fanouts` too.
pub const CHANNEL: &str = "blogs";

/// A note to publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewBlog {
    /// The shop that it is about, if it is about one.
    pub shop_id: Option<ShopId>,
    /// 1 to 100 characters.
    pub title: String,
    /// 1 to 5,000 characters.
    pub content: String,
    /// At most 9 pictures of the author, in their order.
    pub image_ids: Vec<ImageId>,
    /// The client's own id of the request: a repeat publishes nothing more.
    pub request_id: Option<String>,
}

/// Changes to a note: `None` leaves as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlogChange {
    /// 1 to 100 characters.
    pub title: Option<String>,
    /// 1 to 5,000 characters.
    pub content: Option<String>,
    /// At most 9 pictures of the author, in their order.
    pub image_ids: Option<Vec<ImageId>>,
    /// How often the note had been changed when the author began: refused when that is not so any more.
    pub edit_count: Option<i64>,
}

impl Blogs {
    /// Publishes a note. Its way to followers begins with a row that is committed with it.
    ///
    /// # Errors
    /// Names the argument that is wrong; `NoSuchBlog` when the request was made before, and its note is deleted.
    pub async fn publish(&self, session: &Session, new: NewBlog) -> Result<Blog, Error> {
        check_text("input.title", &new.title, 1, TITLE_MAX_CHARS)?;
        check_text("input.content", &new.content, 1, CONTENT_MAX_CHARS)?;
        let request = new.request()?;
        if let Some(request) = &request
            && let Some(before) = self.published_by(session.user_id, request).await?
        {
            return Ok(before);
        }
        let images = &new.image_ids;
        self.uploads.require_owned(session, images, &[]).await?;
        if let Some(shop) = new.shop_id {
            self.shops.load(shop).await?.ok_or(Error::NoSuchShop)?;
        }
        let now = self.infra.clock.now_ms();
        let blog = row(self.infra.ids.next()?, session.user_id, &new, now);
        let blog = Blog {
            request_id: request.as_ref().map(|r| r.id.clone()),
            request_hash: request.as_ref().map(|r| r.hash.clone()),
            ..blog
        };
        match (self.insert(blog.clone()).await, request) {
            (Ok(()), _) => {
                self.tell(&blog).await;
                Ok(blog)
            }
            // The same request came twice at once, and the other one was first.
            (Err(e), Some(request)) if is_unique_violation(&e) => {
                let first = self.published_by(session.user_id, &request).await?;
                first.ok_or(Error::Database(e))
            }
            (Err(e), _) => Err(e.into()),
        }
    }

    /// Changes a note of the viewer.
    ///
    /// # Errors
    /// `NoSuchBlog`, `NotAuthor`, `ChangedMeanwhile`; names the argument that is wrong.
    pub async fn update(
        &self,
        session: &Session,
        id: BlogId,
        change: BlogChange,
    ) -> Result<Blog, Error> {
        if let Some(title) = &change.title {
            check_text("input.title", title, 1, TITLE_MAX_CHARS)?;
        }
        if let Some(content) = &change.content {
            check_text("input.content", content, 1, CONTENT_MAX_CHARS)?;
        }
        let before = self.load(id).await?;
        if before.author_id != session.user_id.0 {
            return Err(Error::NotAuthor);
        }
        if change == BlogChange::default() {
            return Ok(before);
        }
        if let Some(images) = &change.image_ids {
            let known = from_column(&before.image_ids);
            self.uploads.require_owned(session, images, &known).await?;
        }
        let now = self.infra.clock.now_ms();
        let step = self.change(id, move |txn, mut blog| {
            let change = change.clone();
            Box::pin(async move {
                if change
                    .edit_count
                    .is_some_and(|count| count != blog.edit_count)
                {
                    let edit_count = blog.edit_count;
                    return Ok(Err(Error::ChangedMeanwhile { edit_count }));
                }
                change.describe(&mut blog);
                blog.edit_count += 1;
                blog.updated_at = now;
                Ok(Ok((store(txn, blog).await?, ())))
            })
        });
        Ok(step.await?.0)
    }

    /// Deletes a note: it is gone for everybody, with its likes and comments.
    ///
    /// # Errors
    /// `NoSuchBlog`, `Forbidden`.
    pub async fn delete(&self, session: &Session, id: BlogId) -> Result<BlogId, Error> {
        let is_author = self.load(id).await?.author_id == session.user_id.0;
        if !is_author && !session.is_admin() {
            return Err(Error::Forbidden);
        }
        let now = self.infra.clock.now_ms();
        let step = self.change(id, move |txn, mut blog| {
            blog.deleted_at = Some(now);
            Box::pin(async move { Ok(Ok((store(txn, blog).await?, ()))) })
        });
        step.await?;
        if !is_author {
            tracing::info!(
                blog.id = id.0,
                user.id = session.user_id.0,
                "an administrator deleted a note"
            );
        }
        Ok(id)
    }

    /// The note that a request made before.
    async fn published_by(&self, author: UserId, request: &Request) -> Result<Option<Blog>, Error> {
        let made = blog::Entity::find()
            .filter(blog::Column::AuthorId.eq(author.0))
            .filter(blog::Column::RequestId.eq(&request.id))
            .one(self.infra.db.conn())
            .await?;
        let Some(made) = made else { return Ok(None) };
        request.require_same(made.request_hash.as_deref())?;
        if made.deleted_at.is_some() {
            return Err(Error::NoSuchBlog);
        }
        Ok(Some(made))
    }

    async fn insert(&self, blog: Blog) -> Result<(), DbErr> {
        let (db, id) = (self.infra.db.clone(), BlogId(blog.id));
        let write = async move {
            let version = blog.version;
            let step = db.write(move |txn| {
                let (fanout, blog) = (fanout(&blog), blog.clone().into_active_model());
                Box::pin(async move {
                    blog::Entity::insert(blog)
                        .exec_without_returning(txn)
                        .await?;
                    blog_fanout::Entity::insert(fanout.into_active_model())
                        .exec_without_returning(txn)
                        .await
                        .map(|_| ())
                })
            });
            step.await.map(|()| (version, ()))
        };
        let cache = &self.infra.cache;
        cache.write_then_invalidate(BlogById, id, write).await
    }

    async fn tell(&self, blog: &Blog) {
        let news = format!("{}:{}", blog.id, blog.author_id);
        if let Err(e) = self.infra.redis.publish(CHANNEL, &news).await {
            tracing::debug!(error = %e, "a new note is found in the database");
        }
    }
}

impl NewBlog {
    /// The client's id of the request with all that was asked for.
    fn request(&self) -> Result<Option<Request>, Error> {
        let Some(id) = &self.request_id else {
            return Ok(None);
        };
        let shop = self.shop_id.map(|shop| shop.to_string());
        let images = to_column(&self.image_ids);
        let shop = shop.unwrap_or_default();
        let arguments = [&*shop, &*self.title, &*self.content, &*images];
        Ok(Some(Request::new(id, &arguments)?))
    }
}

impl BlogChange {
    fn describe(self, blog: &mut Blog) {
        if let Some(title) = self.title {
            blog.title = title;
        }
        if let Some(content) = self.content {
            blog.content = content;
        }
        if let Some(images) = self.image_ids {
            blog.image_ids = to_column(&images);
        }
    }
}

fn row(id: i64, author: UserId, new: &NewBlog, now: i64) -> Blog {
    Blog {
        id,
        author_id: author.0,
        shop_id: new.shop_id.map(|shop| shop.0),
        title: new.title.clone(),
        content: new.content.clone(),
        image_ids: to_column(&new.image_ids),
        like_count: 0,
        comment_count: 0,
        edit_count: 0,
        request_id: None,
        request_hash: None,
        created_at: now,
        updated_at: now,
        deleted_at: None,
        version: 1,
    }
}

fn fanout(blog: &Blog) -> blog_fanout::Model {
    blog_fanout::Model {
        blog_id: blog.id,
        author_id: blog.author_id,
        created_at: blog.created_at,
        step: None,
        done_at: None,
    }
}
