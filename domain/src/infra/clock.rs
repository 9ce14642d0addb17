//! The one source of time for rules. It follows the database's time, so that nodes with wrong clocks agree.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use sea_orm::DbErr;

use super::db::Db;

/// A question to the database that takes longer than this may be wrong by half of it, either way.
const SLOW_TRIP_MS: i64 = 200;

/// The time that rules go by. Cheap to clone; clones share the offset.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    offset_ms: Arc<AtomicI64>,
    shift_ms: Arc<AtomicI64>,
    /// Whether the offset was ever learned.
    follows: Arc<AtomicBool>,
}

impl Clock {
    /// Milliseconds since 1970, by the database's clock as last seen.
    pub fn now_ms(&self) -> i64 {
        system_ms() + self.offset_ms.load(Ordering::Relaxed) + self.shift_ms.load(Ordering::Relaxed)
    }

    /// Moves this clock by some milliseconds. For tests: rules see the new time, stores keep theirs.
    pub fn shift_ms(&self, by: i64) {
        self.shift_ms.fetch_add(by, Ordering::Relaxed);
    }

    /// Reads the database's time and follows it from now on. The trip's length is halved away; one that is so long that
    /// the half says little is left out, unless it is the first.
    ///
    /// # Errors
    /// When the database cannot be asked; the last offset stays.
    pub async fn follow(&self, db: &Db) -> Result<(), DbErr> {
        let before = system_ms();
        if let Some(server) = db.server_time_ms().await? {
            self.learn(server, (before, system_ms()));
        }
        Ok(())
    }

    /// Takes up what the database said between two moments of this machine.
    fn learn(&self, server: i64, (before, after): (i64, i64)) {
        if after - before > SLOW_TRIP_MS && self.follows.load(Ordering::Relaxed) {
            return;
        }
        self.follows.store(true, Ordering::Relaxed);
        self.offset_ms
            .store(server - (before + after) / 2, Ordering::Relaxed);
    }
}

fn system_ms() -> i64 {
    let since_1970 = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_trip_to_the_database_does_not_move_the_clock_once_it_follows() {
        let clock = Clock::default();
        let offset = || clock.offset_ms.load(Ordering::Relaxed);
        clock.learn(10_500, (0, 1_000));
        assert_eq!(offset(), 10_000, "the first is better than none");
        clock.learn(5_100, (0, 200));
        assert_eq!(offset(), 5_000);
        clock.learn(9_000, (0, 201));
        assert_eq!(offset(), 5_000, "a slow one is left out");
        clock.learn(7_000, (0, 2));
        assert_eq!(offset(), 6_999);
    }
}
