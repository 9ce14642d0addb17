//! Whom two users follow in common: by SINTER over sets in Redis, or by the database.
//!
//! A set is named after the user and the `seq` it was read at, which every question reads from the database first. So a
//! set is never changed and never stale: after a change nobody asks for the old name any more, and it runs out. A set
//! that is missing, evicted or lost is built from the database. Users who follow very many have no set; for them, and
//! while Redis is away, the database answers by its index.

use deadpool_redis::redis::{cmd, pipe};
use entity::follow::{self, Column};
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect};

use super::{Error, FollowCounts, Follows, IDS_PER_QUESTION};
use crate::infra::redis::Redis;
use crate::users::UserId;

/// Whoever follows more has no set: SINTER holds Redis up, and the answer is read whole.
const SET_MAX: i64 = 5_000;
/// A set lives so long without a question; it is cheap to build.
const SET_LIFE_SECS: i64 = 3_600;

impl Follows {
    /// Whom both users follow, those who registered last first, after one of them; at most `limit`.
    ///
    /// # Errors
    /// The database's.
    pub async fn in_common(
        &self,
        one: UserId,
        other: UserId,
        after: Option<UserId>,
        limit: usize,
    ) -> Result<Vec<UserId>, Error> {
        let counts = self.counts(&[one, other]).await?;
        let follows_some = |user: UserId| {
            let mut counts = counts.iter();
            counts.any(|counts| counts.user_id == user.0 && counts.following > 0)
        };
        if !follows_some(one) || !follows_some(other) {
            return Ok(Vec::new());
        }
        if counts.iter().all(|counts| counts.following <= SET_MAX) {
            match self.intersect(&counts).await {
                Ok(Some(mut common)) => {
                    common.sort_unstable_by(|a, b| b.cmp(a));
                    common.retain(|user| after.is_none_or(|after| *user < after));
                    common.truncate(limit);
                    return Ok(common);
                }
                Ok(None) => {}
                Err(Error::Redis(e)) => {
                    tracing::debug!(error = %e, "the database tells who is followed in common");
                }
                Err(e) => return Err(e),
            }
        }
        self.read_in_common(one, other, after, limit).await
    }

    /// `None` when a set is gone as soon as it is built.
    async fn intersect(&self, counts: &[FollowCounts]) -> Result<Option<Vec<UserId>>, Error> {
        let redis = self.infra.cache.redis();
        let keys: Vec<String> = counts.iter().map(|of| set_key(redis, of)).collect();
        for _ in 0..2 {
            // In one step: a set that is evicted in between would look like an empty one.
            let mut ask = pipe();
            ask.atomic();
            for key in &keys {
                ask.exists(key);
            }
            ask.sinter(&keys);
            let (is_there, common) = match keys.len() {
                1 => {
                    let (one, common): (bool, Vec<i64>) = redis.query_pipe(&ask).await?;
                    (vec![one], common)
                }
                _ => {
                    let (one, other, common): (bool, bool, Vec<i64>) =
                        redis.query_pipe(&ask).await?;
                    (vec![one, other], common)
                }
            };
            if is_there.iter().all(|is_there| *is_there) {
                return Ok(Some(common.into_iter().map(UserId).collect()));
            }
            for (of, is_there) in counts.iter().zip(is_there) {
                if !is_there {
                    self.build_set(of).await?;
                }
            }
        }
        Ok(None)
    }

    /// What is read here is as new as the name says, or newer.
    async fn build_set(&self, of: &FollowCounts) -> Result<(), Error> {
        let ids: Vec<i64> = follow::Entity::find()
            .select_only()
            .column(Column::FolloweeId)
            .filter(Column::FollowerId.eq(of.user_id))
            .into_tuple()
            .all(self.infra.db.conn())
            .await?;
        if ids.is_empty() {
            return Ok(());
        }
        let redis = self.infra.cache.redis();
        let key = set_key(redis, of);
        let mut put = pipe();
        put.atomic();
        for ids in ids.chunks(IDS_PER_QUESTION) {
            put.sadd(&key, ids).ignore();
        }
        put.add_command(cmd("EXPIRE").arg(&key).arg(SET_LIFE_SECS).to_owned())
            .ignore();
        redis.query_pipe::<()>(&put).await?;
        Ok(())
    }

    /// By the unique index of one list, looked up in that of the other, until the page is full.
    async fn read_in_common(
        &self,
        one: UserId,
        other: UserId,
        after: Option<UserId>,
        limit: usize,
    ) -> Result<Vec<UserId>, Error> {
        let others = follow::Entity::find()
            .select_only()
            .column(Column::FolloweeId)
            .filter(Column::FollowerId.eq(other.0));
        let mut common = follow::Entity::find()
            .select_only()
            .column(Column::FolloweeId)
            .filter(Column::FollowerId.eq(one.0))
            .filter(Column::FolloweeId.in_subquery(sea_orm::QueryTrait::into_query(others)));
        if let Some(after) = after {
            common = common.filter(Column::FolloweeId.lt(after.0));
        }
        let ids: Vec<i64> = common
            .order_by_desc(Column::FolloweeId)
            .limit(limit as u64)
            .into_tuple()
            .all(self.infra.db.conn())
            .await?;
        Ok(ids.into_iter().map(UserId).collect())
    }
}

/// Set of user numbers: whom a user follows as of a change of his list; lives an hour, may be evicted.
fn set_key(redis: &Redis, of: &FollowCounts) -> String {
    redis.key(format!("follows:set:{}:{}", of.user_id, of.seq))
}
