//! The cache: one load for a thousand readers, never old after new, and no stampede when Redis is away. Through the
//! API in `answers`; here two nodes' caches over one Redis and a table in memory.

mod answers;
mod known;
mod pages;
pub(crate) mod storms;
mod versions;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use domain::infra::cache::{Cache, Error, Kind, Policy};
use domain::infra::redis::Redis;
use parking_lot::Mutex;
use sea_orm::DbErr;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::support::wait::eventually;

/// Rows that all wait for.
#[derive(Clone, Copy)]
struct Row;

impl Kind for Row {
    type Key = u64;
    type Value = String;
    const NAME: &'static str = "row";
    const REDIS_LIFE: Duration = Duration::from_secs(60);
}

/// Rows that all wait for, and that Redis soon forgets.
#[derive(Clone, Copy)]
struct Brief;

impl Kind for Brief {
    type Key = u64;
    type Value = String;
    const NAME: &'static str = "brief";
    const REDIS_LIFE: Duration = Duration::from_millis(200);
}

/// Rows that are told when they are old, while they are loaded anew.
#[derive(Clone, Copy)]
struct Lazy;

impl Kind for Lazy {
    type Key = u64;
    type Value = String;
    const NAME: &'static str = "lazy";
    const POLICY: Policy = Policy::LogicalExpiry {
        stale_for: Duration::from_secs(600),
    };
    const REDIS_LIFE: Duration = Duration::from_millis(200);
}

/// A table that counts who reads it. Deleted rows keep their version.
#[derive(Clone)]
struct Table(Arc<Inner>);

struct Inner {
    rows: Mutex<HashMap<u64, (i64, bool)>>,
    loads: AtomicUsize,
    at_once: AtomicUsize,
    most_at_once: AtomicUsize,
    slow: Duration,
    /// Whether reads take anything up to `slow`, so that they overtake one another.
    uneven: bool,
    /// A read that has read waits for a permit before it comes back; `None`: it does not.
    gate: Option<Semaphore>,
}

impl Table {
    fn new(slow: Duration) -> Self {
        Self::with(slow, false, None)
    }

    fn uneven(slow: Duration) -> Self {
        Self::with(slow, true, None)
    }

    fn gated() -> Self {
        Self::with(Duration::ZERO, false, Some(Semaphore::new(0)))
    }

    fn with(slow: Duration, uneven: bool, gate: Option<Semaphore>) -> Self {
        Self(Arc::new(Inner {
            rows: Mutex::default(),
            loads: AtomicUsize::new(0),
            at_once: AtomicUsize::new(0),
            most_at_once: AtomicUsize::new(0),
            slow,
            uneven,
            gate,
        }))
    }

    fn loads(&self) -> usize {
        self.0.loads.load(Ordering::SeqCst)
    }

    /// The newest version of a row, deleted or not.
    fn version(&self, id: u64) -> i64 {
        self.0.rows.lock().get(&id).map_or(0, |row| row.0)
    }

    /// Writes a row, or deletes it, and answers its new version.
    fn write(&self, id: u64, is_there: bool) -> i64 {
        let mut rows = self.0.rows.lock();
        let row = rows.entry(id).or_insert((0, false));
        *row = (row.0 + 1, is_there);
        row.0
    }

    async fn load(self, id: u64) -> Result<Option<(i64, String)>, DbErr> {
        let inner = &self.0;
        inner.loads.fetch_add(1, Ordering::SeqCst);
        let at_once = inner.at_once.fetch_add(1, Ordering::SeqCst) + 1;
        inner.most_at_once.fetch_max(at_once, Ordering::SeqCst);
        let row = inner.rows.lock().get(&id).copied();
        if let Some(gate) = &inner.gate {
            gate.acquire().await.unwrap().forget();
        }
        let part = if inner.uneven { rand::random() } else { 1.0 };
        if !inner.slow.is_zero() {
            tokio::time::sleep(inner.slow.mul_f64(part)).await;
        }
        inner.at_once.fetch_sub(1, Ordering::SeqCst);
        Ok(row
            .filter(|(_, is_there)| *is_there)
            .map(|(version, _)| (version, format!("{version}"))))
    }
}

/// One node's cache.
struct Node {
    cache: Cache,
    stop: CancellationToken,
}

impl Node {
    /// One that hears the others.
    async fn start(url: &str, deployment: &str) -> Self {
        let node = Self::deaf(url, deployment);
        let redis = node.cache.redis();
        let mut ready = redis.subscribe("ready");
        redis.listen(node.stop.clone());
        eventually(Duration::from_secs(20), "the subscription", async || {
            redis.publish("ready", "").await.unwrap();
            let heard = tokio::time::timeout(Duration::from_millis(100), ready.recv());
            heard.await.is_ok()
        })
        .await;
        let (cache, stop) = (node.cache.clone(), node.stop.clone());
        tokio::spawn(async move { cache.run(stop).await });
        node
    }

    /// One that misses every broadcast.
    fn deaf(url: &str, deployment: &str) -> Self {
        let redis = Redis::new(url, deployment).unwrap();
        Self {
            cache: Cache::new(redis).unwrap(),
            stop: CancellationToken::new(),
        }
    }

    async fn get<K: Kind<Key = u64, Value = String>>(
        &self,
        kind: K,
        table: &Table,
        id: u64,
        min_version: i64,
    ) -> Result<Option<i64>, Error> {
        get(&self.cache, kind, table, id, min_version).await
    }

    /// Writes a row of the table through the door, and answers its version.
    async fn write<K: Kind<Key = u64>>(
        &self,
        kind: K,
        table: &Table,
        id: u64,
        is_there: bool,
    ) -> i64 {
        let rows = table.clone();
        let write = async move {
            let version = rows.write(id, is_there);
            Ok::<_, DbErr>((version, version))
        };
        self.cache
            .write_then_invalidate(kind, id, write)
            .await
            .unwrap()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// The version that a reader is told; `None`: there is no such row.
async fn get<K: Kind<Key = u64, Value = String>>(
    cache: &Cache,
    kind: K,
    table: &Table,
    id: u64,
    min_version: i64,
) -> Result<Option<i64>, Error> {
    let table = table.clone();
    let load = move || table.clone().load(id);
    let found = cache.get_or_load(kind, &id, min_version, load).await?;
    Ok(found.map(|text| text.parse().unwrap()))
}
