//! Notes as everybody sees them, from the cache. Nothing of a viewer is in there: whether he likes a note is asked for
//! beside it.
//!
//! A note that many like at once changes faster than the cache can take it up: its readers are told to come later, again
//! and again. They read the database then, a few at a time: what they find is as new as anything that was told before.

use std::collections::HashMap;
use std::time::Duration;

use entity::blog;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};

use super::{Blog, BlogId, Blogs, Error, IDS_PER_READ};
use crate::infra::cache::{self, Kind};

/// Reads past the cache at a time, on one node: few, so that a slow database is not made slower.
pub(super) const PAST_AT_ONCE: usize = 4;
/// How long a reader waits for one of them.
const PAST_WAIT: Duration = Duration::from_millis(500);

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
        match cache.get_or_load(BlogById, &id, min_version, load).await {
            Err(cache::Error::TryLater) if min_version == 0 => {
                Ok(self.read_past(&[id]).await?.pop())
            }
            found => Ok(found?.as_deref().filter(|b| is_there(b)).cloned()),
        }
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
        match cache.get_or_load_each(BlogById, ids, load).await {
            Err(cache::Error::TryLater) => self.read_past(ids).await,
            found => {
                let found = found?;
                let there = found.iter().filter(|blog| is_there(blog));
                Ok(there.map(|blog| Blog::clone(blog)).collect())
            }
        }
    }

    /// Notes that are there, by id and in that order, past the cache.
    async fn read_past(&self, ids: &[BlogId]) -> Result<Vec<Blog>, Error> {
        let turn = tokio::time::timeout(PAST_WAIT, self.past.acquire()).await;
        let Ok(Ok(_turn)) = turn else {
            return Err(cache::Error::TryLater.into());
        };
        let mut found = HashMap::new();
        for chunk in ids.chunks(IDS_PER_READ) {
            let rows = blog::Entity::find()
                .filter(blog::Column::Id.is_in(chunk.iter().map(|id| id.0)))
                .filter(blog::Column::DeletedAt.is_null());
            let rows = rows.all(self.infra.db.conn()).await?;
            found.extend(rows.into_iter().map(|row| (row.id, row)));
        }
        Ok(ids.iter().filter_map(|id| found.remove(&id.0)).collect())
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
