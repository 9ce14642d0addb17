//! Notes as everybody sees them, from the cache. Nothing of a viewer is in there: whether he likes a note is asked for
//! beside it.

use entity::blog;
use sea_orm::EntityTrait;

use super::{Blog, BlogId, Blogs, Error};
use crate::infra::cache::Kind;

/// A note by its id; one that was deleted is kept without its words, for its version.
#[derive(Clone, Copy)]
pub(super) struct BlogById;

impl Kind for BlogById {
    type Key = BlogId;
    type Value = Blog;
    const NAME: &'static str = "blog";
}

impl Blogs {
    /// A note, `None` when there is none or it was deleted. At least as new as `min_version`, 0 for whatever is there:
    /// other nodes' changes may be 5 s old then.
    ///
    /// # Errors
    /// `TryLater` when `min_version` is not to be seen yet; trouble of the database.
    pub async fn get(&self, id: BlogId, min_version: i64) -> Result<Option<Blog>, Error> {
        let blogs = self.clone();
        let load = move || {
            let blogs = blogs.clone();
            async move { blogs.read(id).await }
        };
        let cache = &self.infra.cache;
        let found = cache.get_or_load(BlogById, &id, min_version, load).await?;
        Ok(found.as_deref().filter(|blog| is_there(blog)).cloned())
    }

    /// Notes to show, by id and in that order; those that are missing or were deleted are left out.
    ///
    /// # Errors
    /// As `get`.
    pub async fn shown(&self, ids: &[BlogId]) -> Result<Vec<Blog>, Error> {
        let blogs = self.clone();
        let load = move |id| {
            let blogs = blogs.clone();
            async move { blogs.read(id).await }
        };
        let cache = &self.infra.cache;
        let found = cache.get_or_load_each(BlogById, ids, load).await?;
        let there = found.iter().filter(|blog| is_there(blog));
        Ok(there.map(|blog| Blog::clone(blog)).collect())
    }

    async fn read(&self, id: BlogId) -> Result<Option<(i64, Blog)>, sea_orm::DbErr> {
        let row = blog::Entity::find_by_id(id.0);
        let row = row.one(self.infra.db.conn()).await?;
        Ok(row.map(|row| (row.version, without_words_if_deleted(row))))
    }
}

fn is_there(blog: &Blog) -> bool {
    blog.deleted_at.is_none()
}

fn without_words_if_deleted(mut blog: Blog) -> Blog {
    if !is_there(&blog) {
        blog.title.clear();
        blog.content.clear();
        "[]".clone_into(&mut blog.image_ids);
    }
    blog
}
