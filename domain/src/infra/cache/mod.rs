//! The tiered cache: this process, then Redis, then the database. It has two doors, `get_or_load` and
//! `write_then_invalidate`. Not for anything that decides: the sale path, roles and owners are read from the database.
//!
//! Promised: on one node nobody sees an older version after a newer one; after a write the node that wrote is new at
//! once, others at once by a broadcast, and within 5 s when it is lost, also when the writer dies between its commit
//! and its word: it has left a mark in Redis before. `min_version` is never undercut. Only when Redis is away during
//! a write, and the process dies before Redis is back, an old value lives on for its life there.
//!
//! Rows of these kinds are never removed from their tables: shops close, vouchers retire, users are banned, each by a
//! change with a version. A kind that deletes must leave the version behind (`write_then_invalidate` tells "absent" from
//! then on, under it). A row that is removed by hand is told for the life of its copies.

mod flights;
mod floors;
mod invalidate;
mod kinds;
mod known;
mod local;
mod remote;
mod tiered;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use sea_orm::DbErr;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::fault::{Fault, Faulty, database_fault};
use super::locks::Locks;
use super::redis::Redis;
use flights::Flight;
use floors::Floors;
use invalidate::Word;
use kinds::Facts;
use known::KnownIds;
use local::Local;
use remote::Remote;

#[cfg(test)]
pub(crate) use kinds::assert_golden;
pub use kinds::{Kind, Policy, Versions};
pub use known::IdColumn;
pub use local::{LOCAL_BYTES, LOCAL_BYTES_MOST, LOCAL_CAPACITY, LOCAL_MOST};

/// How long a copy in the process is told, less a jitter of at most a fifth: what other nodes may be behind when they
/// miss a broadcast.
pub const LOCAL_LIFE: Duration = Duration::from_secs(5);
/// Reads of the database at a time while Redis is away, so that its outage does not become the database's.
pub const BULKHEAD: usize = 16;
/// When a client that could not be served should come again.
const RETRY_AFTER: Duration = Duration::from_millis(200);

/// Why nothing was told.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// Somebody else is loading it and takes long, or the wanted version is not to be seen yet.
    #[error("this cannot be read right now")]
    TryLater,
    /// The loader's own.
    #[error("the database failed: {0}")]
    Database(Arc<DbErr>),
    /// The cache could not be made.
    #[error("no memory tier: {0}")]
    Memory(String),
}

impl Faulty for Error {
    fn fault(&self) -> Fault {
        match self {
            Self::TryLater => Fault::TryLater {
                retry_after: RETRY_AFTER,
            },
            Self::Database(e) => database_fault(e),
            Self::Memory(_) => Fault::Internal,
        }
    }
}

/// One row of one kind: `kind:id`.
#[derive(Clone, Debug)]
struct Place {
    kind: &'static str,
    key: String,
    versions: Versions,
}

impl Place {
    fn of<K: Kind>(id: &K::Key) -> Self {
        Self {
            kind: K::NAME,
            key: format!("{}:{id}", K::NAME),
            versions: K::VERSIONS,
        }
    }
}

struct Inner {
    local: Local,
    floors: Floors,
    remote: Remote,
    /// Where events and locks are.
    redis: Redis,
    locks: Locks,
    /// Reads that are on their way, by row and reach: whoever wants the same waits for them.
    flights: Mutex<HashMap<(String, tiered::Reach), Flight>>,
    next_flight: AtomicU64,
    /// Rows that are being loaded again behind their readers' backs.
    rebuilding: Mutex<HashSet<String>>,
    bulkhead: Semaphore,
    /// Writes that Redis has not heard of yet.
    unsaid: Mutex<HashMap<String, Word>>,
    /// Rows whose wanted version the database itself did not have, and when that was.
    unmet: Mutex<HashMap<String, Instant>>,
    /// Which ids there are, by kind.
    known: RwLock<HashMap<&'static str, Arc<KnownIds>>>,
}

/// The cache of one node. Cheap to clone.
#[derive(Clone)]
pub struct Cache {
    inner: Arc<Inner>,
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache")
            .field("local", &self.inner.local.len())
            .finish_non_exhaustive()
    }
}

impl Cache {
    /// A cache over a Redis that may evict. Starts one thread; hears other nodes only while `run` runs, and only if
    /// that Redis listens.
    ///
    /// # Errors
    /// When the tier in the process cannot be made.
    pub fn new(redis: Redis) -> Result<Self, Error> {
        describe_metrics();
        let inner = Inner {
            local: Local::new().map_err(|e| Error::Memory(e.to_string()))?,
            floors: Floors::default(),
            remote: Remote::new(redis.clone()),
            locks: Locks::new(vec![redis.clone()]),
            redis,
            flights: Mutex::default(),
            next_flight: AtomicU64::new(0),
            rebuilding: Mutex::default(),
            bulkhead: Semaphore::new(BULKHEAD),
            unsaid: Mutex::default(),
            unmet: Mutex::default(),
            known: RwLock::default(),
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// The Redis that it lies in.
    pub fn redis(&self) -> &Redis {
        &self.inner.redis
    }

    /// Tells absent ids of a kind from a filter of the ids that are there, while `run` runs.
    pub fn know_ids<K: Kind>(&self, _kind: K, column: IdColumn) {
        let known = Arc::new(KnownIds::new(K::NAME, column));
        self.inner.known.write().insert(K::NAME, known);
    }

    /// Whether there is surely no row with this id.
    fn lacks<K: Kind>(&self, id: &K::Key) -> bool {
        let known = self.inner.known.read().get(K::NAME).cloned();
        let number = K::number(id);
        known.is_some_and(|known| number.is_some_and(|number| known.lacks(number)))
    }

    /// Whether Redis did not answer when it was last asked: answers come from copies and from the database then.
    pub fn is_without_redis(&self) -> bool {
        self.inner.remote.is_away()
    }

    /// Copies in this process, those that are too old and not swept yet included; at most `LOCAL_MOST`.
    pub fn local_len(&self) -> usize {
        self.inner.local.len()
    }

    /// Bytes of these, reckoned; at most `LOCAL_BYTES_MOST`.
    pub fn local_bytes(&self) -> usize {
        self.inner.local.bytes()
    }
}

/// A life that ends a little earlier than told, so that what came together does not go together.
fn jittered(life: Duration) -> Duration {
    life.mul_f64(1.0 - rand::random::<f64>() / 10.0)
}

/// Counts one look at one tier.
fn count(facts: &Facts, tier: &'static str, result: &'static str) {
    metrics::counter!("lifemate_cache_requests_total", "kind" => facts.name, "tier" => tier, "result" => result)
        .increment(1);
}

/// Notes how long one look at a tier took. Not for the one in the process: a look there takes less than the note.
fn time(facts: &Facts, tier: &'static str, began: Instant) {
    metrics::histogram!("lifemate_cache_read_seconds", "kind" => facts.name, "tier" => tier)
        .record(began.elapsed().as_secs_f64());
}

fn describe_metrics() {
    metrics::describe_counter!(
        "lifemate_cache_requests_total",
        "Looks at a tier: absent for filter; hit, stale, miss or away for local and redis; load, bulkhead or error for database."
    );
    metrics::describe_histogram!(
        "lifemate_cache_read_seconds",
        "How long a look at redis or the database took that brought an answer, by kind and tier."
    );
    metrics::describe_counter!(
        "lifemate_cache_rebuilds_total",
        "Values loaded from the database, by kind."
    );
    metrics::describe_gauge!("lifemate_cache_local_entries", "Copies in this process.");
    metrics::describe_gauge!(
        "lifemate_cache_local_bytes",
        "Bytes of the copies in this process, by the length of their JSON."
    );
    metrics::describe_counter!(
        "lifemate_cache_filter_rebuilds_total",
        "Filters of known ids made anew, by kind."
    );
    metrics::describe_gauge!(
        "lifemate_cache_filter_ids",
        "Ids in the filter when it was made, by kind."
    );
    metrics::describe_gauge!(
        "lifemate_cache_filter_bytes",
        "Memory of the filter, by kind."
    );
    metrics::describe_gauge!(
        "lifemate_cache_filter_false_positive_ratio",
        "Share of ids that never were that the filter took for known ones when it was made, measured, by kind."
    );
    metrics::describe_counter!(
        "lifemate_cache_try_later_total",
        "Readers told to come later, by kind."
    );
    metrics::describe_counter!(
        "lifemate_cache_invalidations_total",
        "Writes heard of, by kind: own, or another node's by broadcast."
    );
}
