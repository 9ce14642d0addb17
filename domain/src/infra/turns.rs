//! Turns: within this process, those who would wait for the same row's lock wait here, without a connection. Not a
//! lock that anything may rely on: other processes have turns of their own.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::{Mutex, OwnedMutexGuard};

/// Queues. Two rows that share one wait for each other now and then; far more than connections is enough.
const QUEUES: i64 = 256;

/// The queues of one kind of row. Cheap to clone.
#[derive(Clone)]
pub struct Turns {
    queues: Arc<Vec<Arc<Mutex<()>>>>,
}

impl Default for Turns {
    fn default() -> Self {
        let queues = (0..QUEUES).map(|_| Arc::default()).collect();
        Self {
            queues: Arc::new(queues),
        }
    }
}

/// Somebody's turn, until it is dropped.
pub struct Turn {
    _queues: Vec<OwnedMutexGuard<()>>,
}

impl Turns {
    /// Waits for the turn at these rows.
    pub async fn take(&self, rows: &[i64]) -> Turn {
        // In one order, so that nobody waits in a circle.
        let wanted: BTreeSet<i64> = rows.iter().map(|row| row.rem_euclid(QUEUES)).collect();
        let mut held = Vec::with_capacity(wanted.len());
        for queue in wanted {
            let queue = usize::try_from(queue).unwrap_or_default();
            held.push(Arc::clone(&self.queues[queue]).lock_owned().await);
        }
        Turn { _queues: held }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::Turns;

    #[tokio::test]
    async fn one_row_has_one_turn_at_a_time() {
        let turns = Turns::default();
        let first = turns.take(&[1, -7]).await;
        assert!(turns.take(&[3, 1]).now_or_never().is_none());
        assert!(turns.take(&[2, 3]).now_or_never().is_some());
        drop(first);
        // Two rows of one queue are one turn.
        assert!(turns.take(&[1, 257]).now_or_never().is_some());
    }
}
