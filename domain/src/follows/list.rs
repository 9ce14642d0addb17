//! Lists of followers, and whether somebody follows somebody. Whom two follow in common is `sets`.

use std::collections::HashSet;

use entity::follow::{self, Column};
use entity::{follow_count, user};
use sea_orm::{
    ColumnTrait, Condition, DbErr, EntityTrait, JoinType, Order, QueryFilter, QueryOrder,
    QuerySelect, Select,
};

use super::{Error, Follow, FollowCounts, FollowKey, Follows, IDS_PER_QUESTION};
use crate::users::UserId;

impl Follows {
    /// Who follows a user, the newest first, after a place in the list; at most `limit`.
    ///
    /// # Errors
    /// The database's.
    pub async fn followers_after(
        &self,
        user: UserId,
        after: Option<FollowKey>,
        limit: usize,
    ) -> Result<Vec<Follow>, Error> {
        let list = follow::Entity::find().filter(Column::FolloweeId.eq(user.0));
        Ok(self.newest(list, Column::FollowerId, after, limit).await?)
    }

    /// Whom a user follows, the newest first, after a place in the list; at most `limit`.
    ///
    /// # Errors
    /// The database's.
    pub async fn following_after(
        &self,
        user: UserId,
        after: Option<FollowKey>,
        limit: usize,
    ) -> Result<Vec<Follow>, Error> {
        let list = follow::Entity::find().filter(Column::FollowerId.eq(user.0));
        Ok(self.newest(list, Column::FolloweeId, after, limit).await?)
    }

    /// Who follows a user, the oldest first: a walk in batches, in which everybody is met who followed when it began.
    ///
    /// # Errors
    /// The database's.
    pub async fn followers_batch(
        &self,
        user: UserId,
        after: Option<FollowKey>,
        limit: usize,
    ) -> Result<Vec<Follow>, Error> {
        let mut list = follow::Entity::find().filter(Column::FolloweeId.eq(user.0));
        if let Some(key) = after {
            let later = Condition::all()
                .add(Column::CreatedAt.eq(key.created_at))
                .add(Column::Id.gt(key.id));
            let later = Condition::any()
                .add(Column::CreatedAt.gt(key.created_at))
                .add(later);
            list = list
                .filter(Column::CreatedAt.gte(key.created_at))
                .filter(later);
        }
        let list = list
            .order_by_asc(Column::CreatedAt)
            .order_by_asc(Column::Id)
            .limit(limit as u64);
        Ok(list.all(self.infra.db.conn()).await?)
    }

    /// Whom of these users somebody follows.
    ///
    /// # Errors
    /// The database's.
    pub async fn is_following(
        &self,
        follower: UserId,
        users: &[UserId],
    ) -> Result<HashSet<UserId>, Error> {
        let own = Column::FollowerId.eq(follower.0);
        Ok(self.among(own, Column::FolloweeId, users).await?)
    }

    /// Who of these users follows somebody.
    ///
    /// # Errors
    /// The database's.
    pub async fn followers_among(
        &self,
        followee: UserId,
        users: &[UserId],
    ) -> Result<HashSet<UserId>, Error> {
        let own = Column::FolloweeId.eq(followee.0);
        Ok(self.among(own, Column::FollowerId, users).await?)
    }

    /// Whether two users follow each other, as the database has it now.
    ///
    /// # Errors
    /// The database's.
    pub async fn are_mutual(&self, one: UserId, other: UserId) -> Result<bool, Error> {
        let there = self.is_following(one, &[other]).await?;
        let back = self.is_following(other, &[one]).await?;
        Ok(!there.is_empty() && !back.is_empty())
    }

    /// The counts of users; those who never followed or were followed are left out.
    ///
    /// # Errors
    /// The database's.
    pub async fn counts(&self, users: &[UserId]) -> Result<Vec<FollowCounts>, Error> {
        let mut found = Vec::with_capacity(users.len());
        for users in users.chunks(IDS_PER_QUESTION) {
            let ids = users.iter().map(|user| user.0);
            let counts =
                follow_count::Entity::find().filter(follow_count::Column::UserId.is_in(ids));
            found.extend(counts.all(self.infra.db.conn()).await?);
        }
        Ok(found)
    }

    /// How many follow a user.
    ///
    /// # Errors
    /// The database's.
    pub async fn follower_count(&self, user: UserId) -> Result<i64, Error> {
        let counts = self.counts(&[user]).await?;
        Ok(counts.first().map_or(0, |counts| counts.followers))
    }

    /// How many a user follows.
    ///
    /// # Errors
    /// The database's.
    pub async fn following_count(&self, user: UserId) -> Result<i64, Error> {
        let counts = self.counts(&[user]).await?;
        Ok(counts.first().map_or(0, |counts| counts.following))
    }

    /// Whom a user has followed by the changes after `seq`, at most `limit`, and still does.
    ///
    /// # Errors
    /// The database's.
    pub async fn followed_since(
        &self,
        user: UserId,
        seq: i64,
        limit: usize,
    ) -> Result<Vec<UserId>, Error> {
        let ids: Vec<i64> = follow::Entity::find()
            .select_only()
            .column(Column::FolloweeId)
            .filter(Column::FollowerId.eq(user.0))
            .filter(Column::Seq.gt(seq))
            .limit(limit as u64)
            .into_tuple()
            .all(self.infra.db.conn())
            .await?;
        Ok(ids.into_iter().map(UserId).collect())
    }

    /// Those whose other side still has an account, so that a page is as long as it says.
    async fn newest(
        &self,
        mut list: Select<follow::Entity>,
        other: Column,
        after: Option<FollowKey>,
        limit: usize,
    ) -> Result<Vec<Follow>, DbErr> {
        let account = follow::Entity::belongs_to(user::Entity)
            .from(other)
            .to(user::Column::Id)
            .into();
        list = list.join(JoinType::InnerJoin, account);
        if let Some(key) = after {
            let earlier = Condition::all()
                .add(Column::CreatedAt.eq(key.created_at))
                .add(Column::Id.lt(key.id));
            let earlier = Condition::any()
                .add(Column::CreatedAt.lt(key.created_at))
                .add(earlier);
            list = list
                .filter(Column::CreatedAt.lte(key.created_at))
                .filter(earlier);
        }
        let list = list
            .order_by(Column::CreatedAt, Order::Desc)
            .order_by(Column::Id, Order::Desc)
            .limit(limit as u64);
        list.all(self.infra.db.conn()).await
    }

    async fn among(
        &self,
        own: sea_orm::sea_query::SimpleExpr,
        other: Column,
        users: &[UserId],
    ) -> Result<HashSet<UserId>, DbErr> {
        let mut found = HashSet::new();
        for users in users.chunks(IDS_PER_QUESTION) {
            let ids: Vec<i64> = follow::Entity::find()
                .select_only()
                .column(other)
                .filter(own.clone())
                .filter(other.is_in(users.iter().map(|user| user.0)))
                .into_tuple()
                .all(self.infra.db.conn())
                .await?;
            found.extend(ids.into_iter().map(UserId));
        }
        Ok(found)
    }
}
