//! Who follows whom. What followers are shown of each other's notes is `feeds`.
//!
//! The database is the truth: one row a pair, and a row of counts a user, changed in one transaction. The counts carry a
//! number, `seq`, that grows with each change of whom a user follows, under that row's lock: what is derived from a
//! user's list names the number it was read at, and so never stands for a later one.

mod list;
mod sets;
mod write;

use deadpool_redis::redis::RedisError;
use entity::{follow, follow_count};
use sea_orm::DbErr;
use serde::{Deserialize, Serialize};

use crate::infra::Infra;
use crate::infra::fault::{Fault, Faulty, database_fault, redis_fault};
use crate::infra::ids::IdsError;
use crate::users::{self, Users};

/// Somebody follows somebody.
pub type Follow = follow::Model;
/// How many a user follows, and is followed by.
pub type FollowCounts = follow_count::Model;

/// Ids in one question to the database: below what each takes in one statement.
const IDS_PER_QUESTION: usize = 500;

/// A place in a list of followers, or of those who are followed: the newest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FollowKey {
    /// Since when, in epoch milliseconds.
    pub created_at: i64,
    /// The number of the follow.
    pub id: i64,
}

impl FollowKey {
    /// The place of a follow.
    pub fn of(follow: &Follow) -> Self {
        Self {
            created_at: follow.created_at,
            id: follow.id,
        }
    }
}

/// Why somebody was not followed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is the caller.
    #[error("nobody follows themselves")]
    Oneself,
    /// There is no such user.
    #[error("there is no such user")]
    NoSuchUser,
    /// No id for a new follow.
    #[error("no id for a new follow: {0}")]
    Ids(#[from] IdsError),
    /// Users cannot be read.
    #[error(transparent)]
    Users(#[from] users::Error),
    /// The database.
    #[error("database: {0}")]
    Database(#[from] DbErr),
    /// Redis.
    #[error("redis: {0}")]
    Redis(#[from] RedisError),
}

impl Faulty for Error {
    fn fault(&self) -> Fault {
        match self {
            Self::Oneself => Fault::BadInput {
                argument: "input.userId",
            },
            Self::NoSuchUser => Fault::NotFound,
            Self::Ids(_) => Fault::Internal,
            Self::Users(e) => e.fault(),
            Self::Database(e) => database_fault(e),
            Self::Redis(e) => redis_fault(e),
        }
    }
}

/// Who follows whom. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Follows {
    infra: Infra,
    users: Users,
}

impl Follows {
    /// Makes the concept.
    pub fn new(infra: Infra, users: Users) -> Self {
        Self { infra, users }
    }
}
