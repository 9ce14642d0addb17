//! Lists of notes, the newest first. A page begins after the last note of the one before, whatever was written or
//! deleted meanwhile.

use entity::blog::{self, Column};
use sea_orm::{ColumnTrait, Condition, EntityTrait, QueryFilter, QueryOrder, QuerySelect};
use serde::{Deserialize, Serialize};

use super::{Blog, BlogId, Blogs, Error};
use crate::shops::ShopId;
use crate::users::UserId;

/// A place in a list of notes: when a note was published, in epoch milliseconds, and the note.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlogKey {
    /// When it was published.
    pub created_at: i64,
    /// The note: many may be published in one millisecond.
    pub id: BlogId,
}

impl BlogKey {
    /// The place of a note.
    pub fn of(blog: &Blog) -> Self {
        Self {
            created_at: blog.created_at,
            id: BlogId(blog.id),
        }
    }
}

impl Blogs {
    /// Notes of an author, newest first, after a place in the list; at most `limit`.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn of_author(
        &self,
        author: UserId,
        after: Option<BlogKey>,
        limit: u64,
    ) -> Result<Vec<Blog>, Error> {
        self.newest(Column::AuthorId.eq(author.0).into(), after, limit)
            .await
    }

    /// Notes about a shop, newest first, after a place in the list; at most `limit`.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn of_shop(
        &self,
        shop: ShopId,
        after: Option<BlogKey>,
        limit: u64,
    ) -> Result<Vec<Blog>, Error> {
        self.newest(Column::ShopId.eq(shop.0).into(), after, limit)
            .await
    }

    async fn newest(
        &self,
        which: Condition,
        after: Option<BlogKey>,
        limit: u64,
    ) -> Result<Vec<Blog>, Error> {
        let mut notes = blog::Entity::find()
            .filter(which)
            .filter(Column::DeletedAt.is_null());
        if let Some(key) = after {
            let same = Condition::all()
                .add(Column::CreatedAt.eq(key.created_at))
                .add(Column::Id.lt(key.id.0));
            let older = Column::CreatedAt.lt(key.created_at);
            notes = notes.filter(Condition::any().add(older).add(same));
        }
        let notes = notes
            .order_by_desc(Column::CreatedAt)
            .order_by_desc(Column::Id)
            .limit(limit);
        Ok(notes.all(self.infra.db.conn()).await?)
    }
}
