//! Many users with sessions at once, so that drills and benchmarks are run by real users. For development only: who calls
//! this checks the profile.

use entity::user;
use rand::Rng;
use sea_orm::{DbErr, EntityTrait};

use super::{Error, Role, User, UserId, Users, new_row};
use crate::infra::db::is_unique_violation;

/// Rows of one statement and sessions of one trip: 13 columns each stay below SQLite's 32,766 values a statement.
const BATCH: usize = 1_000;
/// No country has this code, so no code is ever sent to such a phone.
const UNREAL_PREFIX: &str = "+999";
/// Digits behind the prefix, as many as E.164 has room for.
const UNREAL_DIGITS: usize = 12;
/// Two runs hit the same phones once in a hundred million; a third time is a bug.
const TRIES: u32 = 3;

/// A user made for a drill, signed in.
#[derive(Clone, Debug)]
pub struct MintedSession {
    /// Who.
    pub user_id: UserId,
    /// A number that no phone has.
    pub phone: String,
    /// Signs requests in as this user.
    pub token: String,
}

/// Makes the users and their sessions, batch by batch.
pub(super) async fn mint(users: &Users, count: u32) -> Result<Vec<MintedSession>, Error> {
    let mut minted = Vec::with_capacity(count as usize);
    let mut left = count as usize;
    while left > 0 {
        let rows = insert_batch(users, left.min(BATCH)).await?;
        let ids: Vec<UserId> = rows.iter().map(|row| UserId(row.id)).collect();
        let tokens = users.inner.sessions.start_many(&ids, Role::User).await?;
        let sessions = rows.into_iter().zip(tokens);
        minted.extend(sessions.map(|(row, token)| MintedSession {
            user_id: UserId(row.id),
            phone: row.phone,
            token,
        }));
        left = count as usize - minted.len();
    }
    Ok(minted)
}

async fn insert_batch(users: &Users, count: usize) -> Result<Vec<User>, Error> {
    let mut tries = 1;
    loop {
        let rows = new_users(users, count)?;
        match insert(users, rows.clone()).await {
            Ok(()) => return Ok(rows),
            Err(e) if is_unique_violation(&e) && tries < TRIES => tries += 1,
            Err(e) => return Err(e.into()),
        }
    }
}

fn new_users(users: &Users, count: usize) -> Result<Vec<User>, Error> {
    let all = 10_u64.pow(UNREAL_DIGITS as u32);
    let first = rand::rng().random_range(0..all - count as u64);
    let phones = (first..)
        .take(count)
        .map(|number| format!("{UNREAL_PREFIX}{number:0UNREAL_DIGITS$}"));
    phones
        .map(|phone| Ok(new_row(&users.inner.infra, phone, Role::User)?))
        .collect()
}

async fn insert(users: &Users, rows: Vec<User>) -> Result<(), DbErr> {
    let step = users.inner.infra.db.write(move |txn| {
        let rows: Vec<user::ActiveModel> = rows
            .iter()
            .cloned()
            .map(user::ActiveModel::from)
            .map(all_set)
            .collect();
        Box::pin(async move {
            user::Entity::insert_many(rows)
                .exec_without_returning(txn)
                .await
                .map(|_| ())
        })
    });
    step.await
}

/// A model that was never stored counts as unchanged, and unchanged columns are left out of an insert.
fn all_set(row: user::ActiveModel) -> user::ActiveModel {
    use sea_orm::ActiveModelTrait;
    row.reset_all()
}
