//! Who likes a note. Two moves that can be repeated: a like that is there stays one, and one that is not stays none.

use std::collections::{HashMap, HashSet};

use entity::blog_like::{self, Column};
use sea_orm::{
    ColumnTrait, DatabaseTransaction, DbErr, EntityTrait, IntoActiveModel, QueryFilter, QueryOrder,
    QuerySelect, QueryTrait,
};

use super::batch::all_of;
use super::{Blog, BlogId, Blogs, Error, IDS_PER_READ, store};
use crate::notifications::NotificationKind;
use crate::users::{Session, UserId};

/// Likers of a note that are told with it.
pub const LATEST_LIKERS: usize = 5;
/// Notes in one question about the latest likers: each is a part of the statement.
const NOTES_PER_QUESTION: usize = 50;

impl Blogs {
    /// Likes a note.
    ///
    /// # Errors
    /// `NoSuchBlog`, or trouble of the database.
    pub async fn like(&self, session: &Session, id: BlogId) -> Result<Blog, Error> {
        self.set_like(session.user_id, id, true).await
    }

    /// Likes a note no more.
    ///
    /// # Errors
    /// As `like`.
    pub async fn unlike(&self, session: &Session, id: BlogId) -> Result<Blog, Error> {
        self.set_like(session.user_id, id, false).await
    }

    /// Which of these notes a user likes.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn liked_by(&self, user: UserId, blogs: &[BlogId]) -> Result<HashSet<BlogId>, Error> {
        let mut liked = HashSet::new();
        for chunk in blogs.chunks(IDS_PER_READ) {
            let likes = blog_like::Entity::find()
                .filter(Column::UserId.eq(user.0))
                .filter(Column::BlogId.is_in(chunk.iter().map(|id| id.0)));
            let likes = likes.all(self.infra.db.conn()).await?;
            liked.extend(likes.iter().map(|like| BlogId(like.blog_id)));
        }
        Ok(liked)
    }

    /// Of each of these notes, who liked it last, the newest first, at most five; notes that nobody likes are left out.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn latest_likers(
        &self,
        blogs: &[BlogId],
    ) -> Result<HashMap<BlogId, Vec<UserId>>, Error> {
        let mut likes = Vec::new();
        for chunk in blogs.chunks(NOTES_PER_QUESTION) {
            let Some(all) = all_of(chunk.iter().map(|id| latest(*id)).collect()) else {
                continue;
            };
            let statement = self.infra.db.backend().build(&all);
            let found = blog_like::Entity::find().from_raw_sql(statement);
            likes.extend(found.all(self.infra.db.conn()).await?);
        }
        likes.sort_unstable_by_key(|like| std::cmp::Reverse(like.seq));
        let mut likers: HashMap<BlogId, Vec<UserId>> = HashMap::new();
        for like in likes {
            let of_note = likers.entry(BlogId(like.blog_id)).or_default();
            of_note.push(UserId(like.user_id));
        }
        Ok(likers)
    }

    async fn set_like(&self, user: UserId, id: BlogId, likes: bool) -> Result<Blog, Error> {
        // Most repeats end here, without a lock and with what is cached.
        if self.liked_by(user, &[id]).await?.contains(&id) == likes {
            return self.load(id).await;
        }
        let now = self.infra.clock.now_ms();
        let step = self.change(id, move |txn, blog| {
            Box::pin(async move {
                let changed = match likes {
                    true => add(txn, &blog, user, now).await?,
                    false => remove(txn, &blog, user).await?,
                };
                Ok(Ok((counted(txn, blog, changed).await?, changed)))
            })
        });
        let (blog, changed) = step.await?;
        if changed > 0 {
            // Who takes a like back and gives it again is told of once.
            let key = format!("blog_liked:{id}:{user}");
            self.tell_author(&blog, NotificationKind::BlogLiked, user, key)
                .await;
        }
        Ok(blog)
    }
}

/// Writes the count that has changed by so much.
async fn counted(txn: &DatabaseTransaction, mut blog: Blog, change: i64) -> Result<Blog, DbErr> {
    if change == 0 {
        return Ok(blog);
    }
    blog.like_count += change;
    store(txn, blog).await
}

/// Adds a like of a locked note; answers by how many they have become more.
async fn add(txn: &DatabaseTransaction, blog: &Blog, user: UserId, now: i64) -> Result<i64, DbErr> {
    let there = blog_like::Entity::find_by_id((blog.id, user.0));
    if there.one(txn).await?.is_some() {
        return Ok(0);
    }
    let like = blog_like::Model {
        blog_id: blog.id,
        user_id: user.0,
        seq: blog.version + 1,
        created_at: now,
    };
    blog_like::Entity::insert(like.into_active_model())
        .exec_without_returning(txn)
        .await?;
    Ok(1)
}

/// Removes a like of a locked note; answers by how many they have become more.
async fn remove(txn: &DatabaseTransaction, blog: &Blog, user: UserId) -> Result<i64, DbErr> {
    let like = blog_like::Entity::delete_by_id((blog.id, user.0));
    Ok(match like.exec(txn).await?.rows_affected {
        0 => 0,
        _ => -1,
    })
}

fn latest(blog: BlogId) -> sea_orm::sea_query::SelectStatement {
    let likes = blog_like::Entity::find()
        .filter(Column::BlogId.eq(blog.0))
        .order_by_desc(Column::Seq)
        .limit(LATEST_LIKERS as u64);
    likes.into_query()
}
