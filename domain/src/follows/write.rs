//! Following and unfollowing: the row and the counts, in one transaction.

use entity::{follow, follow_count};
use futures_util::FutureExt;
use sea_orm::sea_query::{Expr, ExprTrait, OnConflict};
use sea_orm::{
    ActiveValue::Set, ColumnTrait, DatabaseTransaction, DbErr, EntityTrait, IntoActiveModel,
    PaginatorTrait, QueryFilter,
};

use super::{Error, Follow, Follows};
use crate::infra::db::is_unique_violation;
use crate::users::{Session, UserId};

impl Follows {
    /// Follows a user; once more changes nothing.
    ///
    /// # Errors
    /// `Oneself`, `NoSuchUser`; the database's.
    pub async fn follow(&self, session: &Session, user: UserId) -> Result<(), Error> {
        self.require_other(session, user).await?;
        let row = Follow {
            id: self.infra.ids.next()?,
            follower_id: session.user_id.0,
            followee_id: user.0,
            seq: 0,
            created_at: self.infra.clock.now_ms(),
        };
        let written = self
            .infra
            .db
            .write(move |txn| add(txn, row.clone()).boxed());
        match written.await {
            // Somebody tapped twice: the other tap has it.
            Err(e) if is_unique_violation(&e) => Ok(()),
            result => Ok(result?),
        }
    }

    /// Follows a user no more; once more changes nothing.
    ///
    /// # Errors
    /// `Oneself`, `NoSuchUser`; the database's.
    pub async fn unfollow(&self, session: &Session, user: UserId) -> Result<(), Error> {
        self.require_other(session, user).await?;
        let follower = session.user_id;
        let written = self
            .infra
            .db
            .write(move |txn| remove(txn, follower, user).boxed());
        Ok(written.await?)
    }

    async fn require_other(&self, session: &Session, user: UserId) -> Result<(), Error> {
        if session.user_id == user {
            return Err(Error::Oneself);
        }
        match self.users.cards(&[user]).await?.is_empty() {
            true => Err(Error::NoSuchUser),
            false => Ok(()),
        }
    }
}

/// The counts first: their lock is what gives a follower's changes their order.
async fn add(txn: &DatabaseTransaction, mut row: Follow) -> Result<(), DbErr> {
    let known = pair(row.follower_id, row.followee_id).count(txn).await?;
    if known > 0 {
        return Ok(());
    }
    count(txn, (row.follower_id, row.followee_id), 1).await?;
    let counts = follow_count::Entity::find_by_id(row.follower_id);
    let counts = counts.one(txn).await?;
    row.seq = counts.map_or(0, |counts| counts.seq);
    let insert = follow::Entity::insert(row.into_active_model());
    insert.exec_without_returning(txn).await.map(|_| ())
}

/// The row first: who finds it gone has nothing to count.
async fn remove(txn: &DatabaseTransaction, follower: UserId, user: UserId) -> Result<(), DbErr> {
    let removed = follow::Entity::delete_many()
        .filter(follow::Column::FollowerId.eq(follower.0))
        .filter(follow::Column::FolloweeId.eq(user.0))
        .exec(txn)
        .await?;
    match removed.rows_affected {
        0 => Ok(()),
        _ => count(txn, (follower.0, user.0), -1).await,
    }
}

fn pair(follower: i64, followee: i64) -> sea_orm::Select<follow::Entity> {
    follow::Entity::find()
        .filter(follow::Column::FollowerId.eq(follower))
        .filter(follow::Column::FolloweeId.eq(followee))
}

/// Counts one follow more or less. Always the smaller user first, so that two who follow each other do not lock crosswise.
async fn count(
    txn: &DatabaseTransaction,
    (follower, followee): (i64, i64),
    by: i64,
) -> Result<(), DbErr> {
    let followers = (followee, follow_count::Column::Followers, 0);
    let following = (follower, follow_count::Column::Following, 1);
    let mut changes = [followers, following];
    changes.sort_by_key(|(user, ..)| *user);
    for (user, column, seq) in changes {
        let of = |wanted: follow_count::Column| match wanted as usize == column as usize {
            true => by,
            false => 0,
        };
        let first = follow_count::ActiveModel {
            user_id: Set(user),
            followers: Set(of(follow_count::Column::Followers)),
            following: Set(of(follow_count::Column::Following)),
            seq: Set(seq),
        };
        let plus = |column, more: i64| Expr::col((follow_count::Entity, column)).add(more);
        let upsert = OnConflict::column(follow_count::Column::UserId)
            .value(column, plus(column, by))
            .value(
                follow_count::Column::Seq,
                plus(follow_count::Column::Seq, seq),
            )
            .to_owned();
        follow_count::Entity::insert(first)
            .on_conflict(upsert)
            .exec_without_returning(txn)
            .await?;
    }
    Ok(())
}
