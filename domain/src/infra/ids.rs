//! Time-ordered 64-bit ids made in process. The worker id in them is leased in the database, so that no two
//! processes ever make the same one.

use std::fmt;
use std::sync::Arc;

use entity::worker_id;
use parking_lot::Mutex;
use sea_orm::sea_query::Expr;
use sea_orm::{ActiveValue::Set, ColumnTrait, DbErr, EntityTrait, QueryFilter, QueryOrder};
use uuid::Uuid;

use super::clock::Clock;
use super::db::{Db, is_unique_violation};

/// 2026-01-01T00:00:00Z; 41 bits of milliseconds from here last until 2095.
const EPOCH_MS: i64 = 1_767_225_600_000;
const WORKER_BITS: u32 = 10;
const SEQUENCE_BITS: u32 = 12;
const WORKERS: i32 = 1 << WORKER_BITS;
const SEQUENCES: i64 = 1 << SEQUENCE_BITS;
/// A worker id stays ours this long without a renewal, so that an outage of the database does not stop a node.
const LEASE_MS: i64 = 24 * 3600 * 1000;
/// How long after its lease a worker id rests before another process may get it.
const REST_MS: i64 = LEASE_MS;
/// How long a worker id rests that its process gave back: longer than two nodes' clocks may differ.
const RELEASED_REST_MS: i64 = 60_000;
/// A clock that steps back by more than this is not waited for.
const MAX_STEP_BACK_MS: i64 = 5_000;

/// Why no id could be made.
#[derive(Debug, thiserror::Error)]
pub enum IdsError {
    /// The clock stepped back too far.
    #[error("the clock went back by {0} ms, more than an id can wait for")]
    ClockWentBack(i64),
    /// The worker id's lease ran out while the database was away.
    #[error("the worker id's lease ran out: the database was away for a day")]
    LeaseRanOut,
    /// All worker ids are taken.
    #[error("all {WORKERS} worker ids are leased")]
    NoWorkerId,
    /// The database could not be asked.
    #[error("worker ids could not be read: {0}")]
    Database(#[from] DbErr),
}

struct State {
    last_ms: i64,
    sequence: i64,
    leased_until: i64,
}

/// Makes ids. Cheap to clone; clones share the sequence.
#[derive(Clone)]
pub struct Ids {
    clock: Clock,
    worker: i32,
    owner: Arc<str>,
    state: Arc<Mutex<State>>,
}

impl fmt::Debug for Ids {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ids")
            .field("worker", &self.worker)
            .finish_non_exhaustive()
    }
}

impl Ids {
    /// Leases a worker id for 24 h and makes ids with it.
    ///
    /// # Errors
    /// When the database is away or all worker ids are taken.
    pub async fn lease(db: &Db, clock: Clock) -> Result<Self, IdsError> {
        let owner = Uuid::new_v4().simple().to_string();
        let now = clock.now_ms();
        let (worker, leased_until) = match reuse(db, &owner, now).await? {
            Some(worker) => (worker, now + LEASE_MS),
            None => (first_unused(db, &owner, now).await?, now + LEASE_MS),
        };
        let state = State {
            last_ms: 0,
            sequence: 0,
            leased_until,
        };
        Ok(Self {
            clock,
            worker,
            owner: owner.into(),
            state: Arc::new(Mutex::new(state)),
        })
    }

    /// Renews the lease of the worker id; to be called hourly.
    ///
    /// # Errors
    /// When the database is away (try again), or the id is no longer ours.
    pub async fn renew(&self, db: &Db) -> Result<(), IdsError> {
        let until = self.clock.now_ms() + LEASE_MS;
        let renewed = worker_id::Entity::update_many()
            .col_expr(worker_id::Column::LeasedUntil, Expr::value(until))
            .filter(worker_id::Column::WorkerId.eq(self.worker))
            .filter(worker_id::Column::Owner.eq(&*self.owner))
            .exec(db.conn())
            .await?;
        if renewed.rows_affected != 1 {
            return Err(IdsError::LeaseRanOut);
        }
        self.state.lock().leased_until = until;
        Ok(())
    }

    /// Gives the worker id back when the process ends; another process gets it a minute later.
    ///
    /// # Errors
    /// When the database is away; the lease then runs out by itself.
    pub async fn release(&self, db: &Db) -> Result<(), DbErr> {
        let reusable_soon = self.clock.now_ms() - REST_MS + RELEASED_REST_MS;
        worker_id::Entity::update_many()
            .col_expr(worker_id::Column::LeasedUntil, Expr::value(reusable_soon))
            .filter(worker_id::Column::WorkerId.eq(self.worker))
            .filter(worker_id::Column::Owner.eq(&*self.owner))
            .exec(db.conn())
            .await?;
        self.state.lock().leased_until = 0;
        Ok(())
    }

    /// The name of this process among all that share the database.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// Makes an id greater than every one this process made before.
    ///
    /// A clock that stepped back by up to 5 s is not followed until it has caught up.
    ///
    /// # Errors
    /// When the clock went back further, or the worker id's lease ran out.
    pub fn next(&self) -> Result<i64, IdsError> {
        let mut state = self.state.lock();
        let now = self.clock.now_ms();
        if now >= state.leased_until {
            return Err(IdsError::LeaseRanOut);
        }
        if now + MAX_STEP_BACK_MS < state.last_ms {
            return Err(IdsError::ClockWentBack(state.last_ms - now));
        }
        if now > state.last_ms {
            (state.last_ms, state.sequence) = (now, 0);
        } else {
            state.sequence += 1;
            if state.sequence == SEQUENCES {
                // Borrow from the next millisecond instead of waiting for it: ids stay unique and ordered.
                (state.last_ms, state.sequence) = (state.last_ms + 1, 0);
            }
        }
        let since = state.last_ms - EPOCH_MS;
        Ok((since << (WORKER_BITS + SEQUENCE_BITS))
            | (i64::from(self.worker) << SEQUENCE_BITS)
            | state.sequence)
    }
}

/// The least id that can be made at a moment in epoch milliseconds, or after it.
pub fn first_at_ms(ms: i64) -> i64 {
    (ms - EPOCH_MS).max(0) << (WORKER_BITS + SEQUENCE_BITS)
}

/// When an id was made, in epoch milliseconds.
pub fn made_at_ms(id: i64) -> i64 {
    (id >> (WORKER_BITS + SEQUENCE_BITS)) + EPOCH_MS
}

/// The smallest id that may be made at a time in epoch milliseconds.
pub fn first_made_at(ms: i64) -> i64 {
    (ms - EPOCH_MS).saturating_mul(1 << (WORKER_BITS + SEQUENCE_BITS))
}

/// Takes over the worker id whose lease ran out longest ago, if it has rested.
async fn reuse(db: &Db, owner: &str, now: i64) -> Result<Option<i32>, DbErr> {
    let rested = worker_id::Entity::find()
        .filter(worker_id::Column::LeasedUntil.lt(now - REST_MS))
        .order_by_asc(worker_id::Column::LeasedUntil)
        .one(db.conn())
        .await?;
    let Some(candidate) = rested else {
        return Ok(None);
    };
    let taken = worker_id::Entity::update_many()
        .col_expr(worker_id::Column::Owner, Expr::value(owner))
        .col_expr(worker_id::Column::LeasedUntil, Expr::value(now + LEASE_MS))
        .filter(worker_id::Column::WorkerId.eq(candidate.worker_id))
        .filter(worker_id::Column::LeasedUntil.eq(candidate.leased_until))
        .exec(db.conn())
        .await?;
    Ok((taken.rows_affected == 1).then_some(candidate.worker_id))
}

/// Takes the lowest worker id above those ever used; several processes that start at once try in turn.
async fn first_unused(db: &Db, owner: &str, now: i64) -> Result<i32, IdsError> {
    let highest = worker_id::Entity::find()
        .order_by_desc(worker_id::Column::WorkerId)
        .one(db.conn())
        .await?;
    for worker in highest.map_or(0, |w| w.worker_id + 1)..WORKERS {
        let row = worker_id::ActiveModel {
            worker_id: Set(worker),
            owner: Set(owner.to_owned()),
            leased_until: Set(now + LEASE_MS),
        };
        match worker_id::Entity::insert(row)
            .exec_without_returning(db.conn())
            .await
        {
            Ok(_) => return Ok(worker),
            Err(e) if is_unique_violation(&e) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Err(IdsError::NoWorkerId)
}

/// Defines the id of one kind of thing: a number inside, digits outside.
#[macro_export]
macro_rules! define_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub i64);

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                self.0.fmt(f)
            }
        }

        impl From<i64> for $name {
            fn from(id: i64) -> Self {
                Self(id)
            }
        }

        impl ::std::str::FromStr for $name {
            type Err = ::std::num::ParseIntError;

            fn from_str(digits: &str) -> Result<Self, Self::Err> {
                digits.parse().map(Self)
            }
        }

        impl ::serde::Serialize for $name {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(&self.0)
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let digits = <String as ::serde::Deserialize>::deserialize(deserializer)?;
                digits.parse().map(Self).map_err(::serde::de::Error::custom)
            }
        }
    };
}
