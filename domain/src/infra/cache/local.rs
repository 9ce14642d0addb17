//! The tier in this process: bounded in number, in bytes and in time, and free to forget. What may not be forgotten is
//! in `floors`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use stretto::{AsyncCacheBuilder, CacheError, TokioCache, TokioRuntime};
use tokio::time::Instant;

use super::kinds::Found;

/// Entries that are kept in the long run.
pub const LOCAL_CAPACITY: usize = 20_000;
/// While entries come faster than they are sorted out, at most so many are there; further ones are not taken.
pub const LOCAL_MOST: usize = LOCAL_CAPACITY + LOCAL_CAPACITY / 2;
/// Bytes that entries take in the long run, by the length of their JSON.
pub const LOCAL_BYTES: usize = 64 * 1024 * 1024;
/// While entries come faster than they are sorted out, at most so many bytes.
pub const LOCAL_BYTES_MOST: usize = LOCAL_BYTES + LOCAL_BYTES / 2;
/// What an entry takes beside its value: key, counters, places in tables.
const ENTRY_BYTES: usize = 400;
/// What an entry costs at least, so that the number has its bound too.
const LEAST_COST: usize = LOCAL_BYTES / LOCAL_CAPACITY;
/// Counters of how often entries are asked for: ten for each entry, as the algorithm wants.
const COUNTERS: usize = LOCAL_CAPACITY * 10;

#[derive(Clone)]
struct Copy {
    found: Found,
    good_until: Instant,
    generation: u64,
    _weight: Arc<Weight>,
}

/// Bytes that are held as long as this lives, wherever the cache has it.
struct Weight {
    bytes: usize,
    held: Arc<AtomicUsize>,
}

impl Weight {
    fn new(bytes: usize, held: &Arc<AtomicUsize>) -> Arc<Self> {
        held.fetch_add(bytes, Ordering::Relaxed);
        Arc::new(Self {
            bytes,
            held: Arc::clone(held),
        })
    }
}

impl Drop for Weight {
    fn drop(&mut self) {
        self.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

pub(super) struct Local {
    copies: TokioCache<String, Copy>,
    /// Copies of an earlier generation are not good any more.
    generation: AtomicU64,
    /// Bytes of all copies that live, those on their way into the cache included.
    held: Arc<AtomicUsize>,
}

impl Local {
    pub(super) fn new() -> Result<Self, CacheError> {
        Ok(Self {
            copies: AsyncCacheBuilder::new(COUNTERS, LOCAL_BYTES as i64)
                .set_ignore_internal_cost(true)
                .build::<TokioRuntime>()?,
            generation: AtomicU64::new(0),
            held: Arc::default(),
        })
    }

    /// The copy, unless it is too old or its version is below `least`. The guard of the cache ends in here: held longer
    /// it would lock out writers.
    pub(super) async fn get(&self, key: &str, least: i64) -> Option<Found> {
        let copy = self.copies.get(key).await.map(|c| c.value().clone())?;
        let good = Instant::now() < copy.good_until
            && copy.found.version >= least
            && copy.generation == self.generation.load(Ordering::Acquire);
        good.then_some(copy.found)
    }

    /// Keeps what was asked for at `asked_at` for some time from then; may forget it at any moment.
    pub(super) async fn put(&self, key: &str, found: Found, asked: Asked, life: Duration) {
        let good_until = asked.at + life;
        let left = good_until.saturating_duration_since(Instant::now());
        // Asking for the number costs a look at each shard, little beside the trip that brought the value.
        let bytes = found.bytes + ENTRY_BYTES;
        let is_full = self.copies.len() >= LOCAL_MOST || self.bytes() + bytes > LOCAL_BYTES_MOST;
        if left.is_zero() || is_full {
            return;
        }
        let cost = i64::try_from(bytes.max(LEAST_COST)).unwrap_or(i64::MAX);
        let copy = Copy {
            found,
            good_until,
            generation: asked.generation,
            _weight: Weight::new(bytes, &self.held),
        };
        let _ = self
            .copies
            .try_insert_with_ttl(key.to_owned(), copy, cost, left)
            .await;
    }

    pub(super) async fn remove(&self, key: &str) {
        let _ = self.copies.try_remove(&key.to_owned()).await;
    }

    /// The moment of a question.
    pub(super) fn ask(&self) -> Asked {
        Asked {
            at: Instant::now(),
            generation: self.generation.load(Ordering::Acquire),
        }
    }

    /// Forgets everything, what is being asked for at this moment too.
    pub(super) fn clear(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Entries there, those whose time is over included until they are swept.
    pub(super) fn len(&self) -> usize {
        self.copies.len()
    }

    /// Bytes of the same.
    pub(super) fn bytes(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }
}

/// When something was asked for.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    at: Instant,
    generation: u64,
}
