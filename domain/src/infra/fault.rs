//! The families of trouble an API must tell apart. The wording of an error stays with its concept.

use std::time::Duration;

use deadpool_redis::redis::RedisError;
use sea_orm::{DbErr, RuntimeErr};

/// How long a client should wait before it tries again after trouble of ours.
pub const RETRY_AFTER: Duration = Duration::from_millis(500);

/// What kind of trouble an error is, for whoever answers the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The caller is not signed in.
    Unauthenticated,
    /// The caller may not do this.
    Forbidden,
    /// No such thing, or not one the caller may know of.
    NotFound,
    /// An argument is wrong.
    BadInput {
        /// The argument's path as the API names it, for example `input.phone`.
        argument: &'static str,
    },
    /// Too many calls.
    RateLimited {
        /// When a call will be taken again.
        retry_after: Duration,
    },
    /// It may work in a moment.
    TryLater {
        /// When to try again.
        retry_after: Duration,
    },
    /// As `TryLater`, where the error's words are those of a store: they are not for the caller.
    Busy {
        /// When to try again.
        retry_after: Duration,
    },
    /// A store or a service is away.
    Unavailable,
    /// A bug or a broken store; shown without detail, logged once.
    Internal,
}

/// An error that knows its kind; each concept's error does.
pub trait Faulty: std::error::Error {
    /// The kind of trouble.
    fn fault(&self) -> Fault;
}

/// Sorts a database error: a lost or busy database is `Unavailable`, the rest is ours.
pub fn database_fault(error: &DbErr) -> Fault {
    match error {
        DbErr::ConnectionAcquire(_) | DbErr::Conn(_) => Fault::Unavailable,
        DbErr::Exec(RuntimeErr::SqlxError(e)) | DbErr::Query(RuntimeErr::SqlxError(e)) => match **e
        {
            sea_orm::sqlx::Error::Io(_)
            | sea_orm::sqlx::Error::Tls(_)
            | sea_orm::sqlx::Error::PoolTimedOut
            | sea_orm::sqlx::Error::PoolClosed
            | sea_orm::sqlx::Error::WorkerCrashed => Fault::Unavailable,
            _ if super::db::is_contention(error) => Fault::Busy {
                retry_after: RETRY_AFTER,
            },
            _ => Fault::Internal,
        },
        _ => Fault::Internal,
    }
}

/// Sorts a Redis error: no connection, no answer in time or still loading is `Unavailable`, the rest is ours.
pub fn redis_fault(error: &RedisError) -> Fault {
    let loading = matches!(
        error.code(),
        Some("LOADING" | "MASTERDOWN" | "READONLY" | "CLUSTERDOWN" | "MISCONF" | "OOM")
    );
    if error.is_io_error() || error.is_timeout() || error.is_connection_dropped() || loading {
        Fault::Unavailable
    } else {
        Fault::Internal
    }
}
