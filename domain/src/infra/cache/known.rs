//! Which ids a table has: a Bloom filter in the memory of each node, so that ids that were never given out cost neither
//! Redis nor the database anything. Not for rows that were deleted: those stay known until the next rebuild.
//!
//! A filter says "surely not" only of ids older than it can be wrong about. Ids carry the time they were made at, and
//! a row is committed within minutes after its id was made; so an id made less than `GRACE` before the filter last
//! looked at the table goes the ordinary way, and a new row is found at once on every node without any message. Every
//! `LOOK_EVERY` the filter reads the newest ids, back to `OVERLAP` before its last look; every `REBUILD_EVERY`, and when
//! it is full, a new one is made from all ids, by pages, while the old one goes on answering. A node that has none yet
//! lets everything through, and so does one whose looks fail: the young ids are then those since its last look.
//!
//! Why not in Redis: a look-up there costs as much as the answer "absent" that is kept there. A filter of 10 million
//! ids is 12 MB.
//!
//! Rows whose ids were not made by `Ids` a moment before (written by hand) are found at the next rebuild, or when
//! their cache entry is invalidated, whichever comes first.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use fastbloom::{AtomicBloomFilter, DefaultHasher};
use parking_lot::RwLock;
use sea_orm::sea_query::{DynIden, Expr, ExprTrait, Func, IntoIden, Order, Query};
use sea_orm::{ConnectionTrait, DbErr};
use tokio_util::sync::CancellationToken;

use crate::infra::clock::Clock;
use crate::infra::db::Db;
use crate::infra::ids::{first_made_at, made_at_ms};

/// Wrong "perhaps" answers that a filter is made for. A second look costs one read, so fewer are not worth the memory.
const FALSE_POSITIVES: f64 = 0.01;
/// A filter holds its table's rows and half as many more before it is made anew.
const ROOM: f64 = 1.5;
/// The smallest filter, 120 KB: a young product is not rebuilt with each new row.
const ROOM_LEAST: u64 = 100_000;
/// Ids read in one question.
const PAGE: u64 = 5_000;
/// How long after its id was made a row may be committed: a transaction runs at most six times ten seconds.
const GRACE: Duration = Duration::from_secs(2 * 60);
/// How far the clocks of two nodes may differ.
const SKEW: Duration = Duration::from_secs(60);
/// How often the newest ids are read.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// How far back of the last look they are read again.
const OVERLAP: Duration = Duration::from_secs(15 * 60);
/// How often all ids are read: deleted ones go, those written by hand come.
const REBUILD_EVERY: Duration = Duration::from_secs(60 * 60);
/// Ids that never were, asked for to measure how often the filter errs.
const PROBES: i64 = 20_000;

/// A column of ids made by `Ids`.
#[derive(Clone, Debug)]
pub struct IdColumn {
    db: Db,
    clock: Clock,
    table: DynIden,
    column: DynIden,
}

impl IdColumn {
    /// The column of a table. The clock is the one that its ids are made by.
    pub fn new(db: Db, clock: Clock, table: impl IntoIden, column: impl IntoIden) -> Self {
        Self {
            db,
            clock,
            table: table.into_iden(),
            column: column.into_iden(),
        }
    }

    async fn count(&self) -> Result<u64, DbErr> {
        let mut count = Query::select();
        count
            .expr(Func::count(Expr::col(self.column.clone())))
            .from(self.table.clone());
        let db = self.db.clone();
        let asked = async move { db.conn().query_one(&count).await };
        let row = self.db.run(asked).await?;
        let number: i64 = row.map_or(Ok(0), |row| row.try_get_by_index(0))?;
        Ok(u64::try_from(number).unwrap_or(0))
    }

    /// The next ids above one, in order; at most `PAGE`.
    async fn above(&self, id: i64) -> Result<Vec<i64>, DbErr> {
        let mut page = Query::select();
        page.column(self.column.clone())
            .from(self.table.clone())
            .and_where(Expr::col(self.column.clone()).gt(id))
            .order_by(self.column.clone(), Order::Asc)
            .limit(PAGE);
        let db = self.db.clone();
        let asked = async move { db.conn().query_all(&page).await };
        let rows = self.db.run(asked).await?;
        rows.iter().map(|row| row.try_get_by_index(0)).collect()
    }
}

/// The ids of one kind.
pub(super) struct KnownIds {
    kind: &'static str,
    column: IdColumn,
    filter: RwLock<Option<Arc<Filter>>>,
}

struct Filter {
    bits: AtomicBloomFilter<DefaultHasher>,
    room: u64,
    /// Ids put in that set a bit: a full one has taken nearly as many as it has room for.
    taken: AtomicU64,
    made_at: i64,
    /// When its last look at the table began.
    looked_at: AtomicI64,
}

impl KnownIds {
    pub(super) fn new(kind: &'static str, column: IdColumn) -> Self {
        Self {
            kind,
            column,
            filter: RwLock::new(None),
        }
    }

    /// Whether there is surely no row with this id; if not, only the table knows.
    pub(super) fn lacks(&self, id: i64) -> bool {
        let filter = self.filter.read().clone();
        filter.is_some_and(|filter| filter.lacks(id, self.column.clock.now_ms()))
    }

    /// Follows the table until `stop`.
    pub(super) async fn follow(&self, stop: CancellationToken) {
        let look = async || {
            if let Err(e) = self.look().await {
                tracing::debug!(error = %e, kind = self.kind, "ids are read again later");
            }
            tokio::time::sleep(LOOK_EVERY).await;
        };
        while stop.run_until_cancelled(look()).await.is_some() {}
    }

    /// Reads the newest ids, or all of them when it is time.
    async fn look(&self) -> Result<(), DbErr> {
        let now = self.column.clock.now_ms();
        let filter = self.filter.read().clone();
        match filter.filter(|filter| filter.is_good(now)) {
            Some(filter) => {
                let back_to = filter.looked_at.load(Ordering::Relaxed) - ms(OVERLAP);
                self.fill(&filter, first_made_at(back_to) - 1).await?;
                filter.looked_at.store(now, Ordering::Relaxed);
            }
            None => {
                let filter = Filter::new(self.column.count().await?, now);
                self.fill(&filter, i64::MIN).await?;
                self.tell(&filter);
                *self.filter.write() = Some(Arc::new(filter));
            }
        }
        Ok(())
    }

    async fn fill(&self, filter: &Filter, above: i64) -> Result<(), DbErr> {
        let mut last = above;
        loop {
            let page = self.column.above(last).await?;
            for id in &page {
                filter.put(*id);
            }
            match page.last() {
                Some(id) if page.len() as u64 == PAGE => last = *id,
                _ => return Ok(()),
            }
        }
    }

    fn tell(&self, filter: &Filter) {
        let share = filter.measured_false_positives();
        metrics::gauge!("lifemate_cache_filter_ids", "kind" => self.kind)
            .set(filter.taken.load(Ordering::Relaxed) as f64);
        metrics::gauge!("lifemate_cache_filter_bytes", "kind" => self.kind)
            .set(filter.bits.num_bits() as f64 / 8.0);
        metrics::gauge!("lifemate_cache_filter_false_positive_ratio", "kind" => self.kind)
            .set(share);
        metrics::counter!("lifemate_cache_filter_rebuilds_total", "kind" => self.kind).increment(1);
    }
}

impl Filter {
    fn new(rows: u64, now: i64) -> Self {
        let room = Ord::max((rows as f64 * ROOM) as u64, ROOM_LEAST);
        let bits = AtomicBloomFilter::with_false_pos(FALSE_POSITIVES)
            .seed(&rand::random())
            .expected_items(usize::try_from(room).unwrap_or(usize::MAX));
        let early = rand::random::<f64>() * REBUILD_EVERY.as_millis() as f64 / 10.0;
        Self {
            bits,
            room,
            taken: AtomicU64::new(0),
            // As if a little older, so that nodes that start together do not rebuild together.
            made_at: now - early as i64,
            looked_at: AtomicI64::new(now),
        }
    }

    fn put(&self, id: i64) {
        if !self.bits.insert(&id) {
            self.taken.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn lacks(&self, id: i64, now: i64) -> bool {
        let made_at = made_at_ms(id);
        let is_settled = made_at < self.looked_at.load(Ordering::Relaxed) - ms(GRACE);
        let is_of_the_future = made_at > now + ms(SKEW);
        (is_settled || is_of_the_future) && !self.bits.contains(&id)
    }

    fn is_good(&self, now: i64) -> bool {
        // The nearer it is to full, the more new ids look like known ones, and are not counted.
        let full = (self.room as f64 * (1.0 - FALSE_POSITIVES)) as u64;
        now < self.made_at + ms(REBUILD_EVERY) && self.taken.load(Ordering::Relaxed) < full
    }

    /// No id is negative, so each of these that it takes for one is an error.
    fn measured_false_positives(&self) -> f64 {
        let wrong = (1..=PROBES).filter(|n| self.bits.contains(&-n)).count();
        wrong as f64 / PROBES as f64
    }
}

fn ms(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_800_000_000_000;

    #[test]
    fn of_absent_ids_at_most_one_in_a_hundred_is_taken_for_one_that_is_there() {
        let filter = Filter::new(400_000, NOW);
        let old = first_made_at(NOW - ms(OVERLAP));
        for n in 0..600_000 {
            filter.put(old - 7 * n);
        }
        assert!((0..600_000).all(|n| !filter.lacks(old - 7 * n, NOW)));
        let wrong = (0..200_000)
            .filter(|n| !filter.lacks(old - 7 * n - 3, NOW))
            .count();
        let share = wrong as f64 / 200_000.0;
        assert!(share <= 0.011, "{share} when it is full");
        let probed = filter.measured_false_positives();
        assert!((0.005..=0.013).contains(&probed), "{probed} by probes");
        assert!(!filter.is_good(NOW), "a full one is made anew");
        // Ten million keys: 9.6 bits each.
        let large = AtomicBloomFilter::with_false_pos(FALSE_POSITIVES).expected_items(10_000_000);
        assert!(large.num_bits() / 8 <= 12_500_000, "{}", large.num_bits());
    }

    #[test]
    fn young_ids_are_let_through_and_those_of_the_future_are_not() {
        let filter = Filter::new(0, NOW);
        let at = |ms| first_made_at(ms) + 5;
        assert!(filter.lacks(at(NOW - ms(GRACE) - 1), NOW));
        assert!(!filter.lacks(at(NOW - ms(GRACE)), NOW));
        assert!(!filter.lacks(at(NOW + ms(SKEW)), NOW));
        assert!(filter.lacks(at(NOW + ms(SKEW) + 1), NOW));
        assert!(filter.lacks(7, NOW) && filter.lacks(i64::MAX, NOW));
        filter.put(7);
        assert!(!filter.lacks(7, NOW));
        // As time goes on without a look at the table, more is let through, not less.
        assert!(!filter.lacks(at(NOW - 1), NOW + ms(OVERLAP)));
    }
}
