//! What a node decides by itself before it asks Redis: a user who clicks too fast, and a sale that is sold out.
//! Both are kept per node on purpose: a refused click must not become a synced write.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::settings::SaleSettings;
use crate::users::UserId;
use crate::vouchers::VoucherId;

/// How long a sold-out answer may be repeated without asking Redis.
const SOLD_OUT_FOR: Duration = Duration::from_millis(500);
/// A gate that nobody closed again for so long is forgotten, with its buyers.
const FORGET_AFTER: Duration = Duration::from_secs(30);
/// The window of the click limit.
const WINDOW: Duration = Duration::from_secs(1);
/// Shards of the click counters, so that buyers rarely wait for each other.
const SHARDS: usize = 64;
/// Counters in a shard before those of past windows are dropped.
const SHARD_LIMIT: usize = 4_096;

struct Clicks {
    window: Instant,
    count: u32,
}

/// A closed gate: what was known when the sale was seen sold out.
struct Closed {
    epoch: i64,
    taken: i64,
    at: Instant,
    /// The buyers as of `taken`; `None` until loaded, and then everybody is let through.
    buyers: Option<Arc<HashSet<UserId>>>,
    /// Whether somebody loads them now.
    loading: bool,
}

/// The gate of one node.
pub(crate) struct Gate {
    clicks_per_second: u32,
    clicks: Vec<Mutex<HashMap<(VoucherId, UserId), Clicks>>>,
    closed: Mutex<HashMap<VoucherId, Closed>>,
    /// Grows with each unit that comes back, so that an answer older than it does not close the gate again.
    reopened: AtomicU64,
}

/// Whether the gate lets a buyer through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passage {
    Open,
    SoldOut,
    TooFast { retry_after: Duration },
}

impl Gate {
    pub(crate) fn new(settings: &SaleSettings) -> Self {
        Self {
            clicks_per_second: settings.clicks_per_second,
            clicks: (0..SHARDS).map(|_| Mutex::default()).collect(),
            closed: Mutex::default(),
            reopened: AtomicU64::new(0),
        }
    }

    /// Counts a click, and tells whether it goes on to Redis.
    pub(crate) fn pass(&self, voucher: VoucherId, buyer: UserId) -> Passage {
        if let Some(retry_after) = self.too_fast(voucher, buyer) {
            return Passage::TooFast { retry_after };
        }
        let mut closed = self.closed.lock();
        let Some(gate) = closed.get(&voucher) else {
            return Passage::Open;
        };
        let age = gate.at.elapsed();
        if age >= FORGET_AFTER {
            closed.remove(&voucher);
            return Passage::Open;
        }
        // An older entry stays: its buyers need not be loaded again while `taken` stands still.
        match &gate.buyers {
            Some(buyers) if age < SOLD_OUT_FOR && !buyers.contains(&buyer) => Passage::SoldOut,
            _ => Passage::Open,
        }
    }

    /// A number to hand back to `sold_out`: an answer asked for before a unit came back must not close the gate.
    pub(crate) fn moment(&self) -> u64 {
        self.reopened.load(Ordering::Acquire)
    }

    /// Redis said "sold out". Returns whether the buyers should be loaded now: `taken` moved, or it failed before.
    pub(crate) fn sold_out(
        &self,
        voucher: VoucherId,
        epoch: i64,
        taken: i64,
        asked_at: u64,
    ) -> bool {
        if self.moment() != asked_at {
            return false;
        }
        let mut closed = self.closed.lock();
        match closed.get_mut(&voucher) {
            Some(gate) if gate.epoch == epoch && gate.taken == taken => {
                gate.at = Instant::now();
                let wanted = gate.buyers.is_none() && !gate.loading;
                gate.loading |= wanted;
                wanted
            }
            _ => {
                closed.insert(
                    voucher,
                    Closed {
                        epoch,
                        taken,
                        at: Instant::now(),
                        buyers: None,
                        loading: true,
                    },
                );
                true
            }
        }
    }

    /// The buyers of a sale as they were at (epoch, taken).
    pub(crate) fn loaded(
        &self,
        voucher: VoucherId,
        epoch: i64,
        taken: i64,
        buyers: HashSet<UserId>,
    ) {
        if let Some(gate) = self.closed.lock().get_mut(&voucher)
            && gate.epoch == epoch
            && gate.taken == taken
        {
            gate.buyers = Some(Arc::new(buyers));
            gate.loading = false;
        }
    }

    /// The buyers could not be loaded; the next who hears "sold out" tries again.
    pub(crate) fn load_failed(&self, voucher: VoucherId, epoch: i64, taken: i64) {
        if let Some(gate) = self.closed.lock().get_mut(&voucher)
            && gate.epoch == epoch
            && gate.taken == taken
        {
            gate.loading = false;
        }
    }

    /// A unit came back, or the sale changed: ask Redis again.
    pub(crate) fn reopen(&self, voucher: VoucherId) {
        self.reopened.fetch_add(1, Ordering::AcqRel);
        self.closed.lock().remove(&voucher);
    }

    fn too_fast(&self, voucher: VoucherId, buyer: UserId) -> Option<Duration> {
        let now = Instant::now();
        let shard =
            usize::try_from((buyer.0 ^ (buyer.0 >> 22)).unsigned_abs()).unwrap_or(0) % SHARDS;
        let mut clicks = self.clicks[shard].lock();
        if clicks.len() >= SHARD_LIMIT {
            clicks.retain(|_, c| now.duration_since(c.window) < WINDOW);
        }
        let entry = clicks.entry((voucher, buyer)).or_insert(Clicks {
            window: now,
            count: 0,
        });
        let age = now.duration_since(entry.window);
        if age >= WINDOW {
            *entry = Clicks {
                window: now,
                count: 0,
            };
        }
        if entry.count >= self.clicks_per_second {
            return Some(WINDOW.saturating_sub(age));
        }
        entry.count += 1;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buyers_that_could_not_be_loaded_are_loaded_by_the_next_who_hears_sold_out() {
        let gate = Gate {
            clicks_per_second: 1_000,
            clicks: (0..SHARDS).map(|_| Mutex::default()).collect(),
            closed: Mutex::default(),
            reopened: AtomicU64::new(0),
        };
        let (voucher, buyer, other) = (VoucherId(1), UserId(1), UserId(2));
        let sold_out = |taken| gate.sold_out(voucher, 1, taken, gate.moment());
        assert!(sold_out(5), "the first one loads");
        assert!(!sold_out(5), "somebody loads already");
        gate.load_failed(voucher, 1, 5);
        assert_eq!(gate.pass(voucher, other), Passage::Open);
        assert!(sold_out(5), "it failed: again");
        gate.loaded(voucher, 1, 5, HashSet::from([buyer]));
        assert!(!sold_out(5));
        assert_eq!(gate.pass(voucher, other), Passage::SoldOut);
        assert_eq!(gate.pass(voucher, buyer), Passage::Open);
        assert!(sold_out(6), "a unit was taken: the buyers are others");
    }
}
