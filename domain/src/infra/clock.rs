//! The one source of time for rules. It follows the database's time, so that nodes with wrong clocks agree.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use sea_orm::DbErr;

use super::db::Db;

/// The time that rules go by. Cheap to clone; clones share the offset.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    offset_ms: Arc<AtomicI64>,
    shift_ms: Arc<AtomicI64>,
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

    /// Reads the database's time and follows it from now on. The trip's length is halved away.
    ///
    /// # Errors
    /// When the database cannot be asked; the last offset stays.
    pub async fn follow(&self, db: &Db) -> Result<(), DbErr> {
        let before = system_ms();
        if let Some(server) = db.server_time_ms().await? {
            let after = system_ms();
            self.offset_ms
                .store(server - (before + after) / 2, Ordering::Relaxed);
        }
        Ok(())
    }
}

fn system_ms() -> i64 {
    let since_1970 = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX)
}
