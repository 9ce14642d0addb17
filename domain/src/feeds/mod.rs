//! Feeds: the notes of those whom a user follows, the newest first. Who follows whom is `follows`, what a note is is
//! `blogs`.
//!
//! What a feed holds is defined by the database alone: every note that is there, by an author whom the reader follows
//! now, in the order of (time, id). The rest of this concept only makes that quick, and never answers anything else:
//!
//! * A reader has an **inbox** in Redis with the newest entries, whole down to its *floor*; below the floor a walk goes
//!   on in the database. It is built from the database at the first look, and again whenever it was lost.
//! * Publishing writes a row of `blog_fanouts` with the note and does nothing per follower. A **worker** pushes the note
//!   to the followers in batches; the row keeps how far it came, and until it is done, readers find the note by the row:
//!   so a note is seen at once, whether workers are behind or not.
//! * Notes of authors with more followers than a threshold go to an **outbox** and are pushed only to those who were
//!   seen in the last seven days. Who comes back after longer pulls from the outboxes what has passed them by, and has it
//!   merged into their inbox, in the same order.
//! * Whom a reader **follows** anew is back-filled when they next look: the inbox knows the change of the list (`seq`,
//!   see `follows`) up to which it is right. Those who are followed no more are left out while reading.
//!
//! The order in which stores are asked is what makes this true at every moment: a reader reads the rows of what is under
//! way before the inbox, and a worker marks a row as done after the last push. A new inbox takes pushes before it is
//! filled from the database, and a returning reader is marked as seen before the outboxes are read.

mod entry;
mod fanout;
mod fill;
mod inbox;
mod live;
mod page;
mod source;
mod workers;

use std::sync::Arc;
use std::time::Duration;

use deadpool_redis::redis::RedisError;
use sea_orm::DbErr;

use crate::blogs::{self, Blogs};
use crate::follows::{self, Follows};
use crate::infra::Infra;
use crate::infra::fault::{Fault, Faulty, RETRY_AFTER, database_fault, redis_fault};
use crate::settings::FeedSettings;
use crate::users::{self, Users};
use live::Live;

/// Entries of an inbox: far more than a person scrolls; 44 bytes each, and what Redis adds.
pub const INBOX_MAX: usize = 500;
/// Whoever was seen in this time has notes pushed that others fetch.
pub const ACTIVE_FOR: Duration = Duration::from_secs(7 * 24 * 3_600);

/// What can go wrong with feeds.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A subscriber reads more slowly than notes come.
    #[error("notes came faster than they were read; read the feed, then subscribe again")]
    FellBehind,
    /// Notes cannot be read.
    #[error(transparent)]
    Blogs(#[from] blogs::Error),
    /// Follows cannot be read.
    #[error(transparent)]
    Follows(#[from] follows::Error),
    /// Authors cannot be read.
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
            Self::FellBehind => Fault::TryLater {
                retry_after: RETRY_AFTER,
            },
            Self::Blogs(e) => e.fault(),
            Self::Follows(e) => e.fault(),
            Self::Users(e) => e.fault(),
            Self::Database(e) => database_fault(e),
            Self::Redis(e) => redis_fault(e),
        }
    }
}

/// The concepts that feeds are made of.
#[derive(Clone)]
pub struct Parts {
    /// Authors.
    pub users: Users,
    /// Who follows whom.
    pub follows: Follows,
    /// Notes.
    pub blogs: Blogs,
}

/// The feeds. Cheap to clone.
#[derive(Clone)]
pub struct Feeds {
    infra: Infra,
    parts: Parts,
    settings: FeedSettings,
    live: Arc<Live>,
}

impl Feeds {
    /// Makes the concept.
    pub fn new(infra: Infra, parts: Parts, settings: FeedSettings) -> Self {
        fanout::describe_metrics();
        Self {
            infra,
            parts,
            settings,
            live: Arc::default(),
        }
    }
}
