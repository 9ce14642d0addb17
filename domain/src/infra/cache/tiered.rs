//! Reading: from the nearest tier that has what is wanted, and once for all who want the same.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, TryStreamExt, stream};
use sea_orm::DbErr;
use tokio::time::Instant;

use super::kinds::{Facts, Found};
use super::local::Asked;
use super::remote::{Away, Kept};
use super::{Cache, Error, Kind, Place, RETRY_AFTER, Versions, count, time};
use crate::infra::locks::Owner;

/// How long one who must load waits for another node that is loading.
const LOCK_WAIT: Duration = Duration::from_secs(1);
/// How long the lock outlives a holder that died. It is renewed while the holder works.
const LOCK_LEASE: Duration = Duration::from_secs(5);
/// A load that takes longer is given up by its readers; it must not keep them for ever.
const LOAD_LIMIT: Duration = Duration::from_secs(3);
/// How long a reader waits for a place in the bulkhead.
const BULKHEAD_WAIT: Duration = Duration::from_secs(1);
/// An old value is told from the process for so long, then Redis is asked whether there is a new one.
const STALE_LIFE: Duration = Duration::from_millis(500);
/// How often a reader reads again whose find was too old: he may have joined those who set out before a write.
const TRIES: usize = 3;

/// Rows whose unmet wishes are remembered, about 1 MB.
const UNMET_CAPACITY: usize = 10_000;
/// Of many rows, so many are read at the same time.
const AT_ONCE: usize = 16;

/// How far a read must go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Reach {
    /// To the first tier that has it.
    Any,
    /// To the database, because what Redis has is older than what is wanted.
    Database,
}

type Load = dyn Fn() -> BoxFuture<'static, Result<Option<(i64, Loaded)>, DbErr>> + Send + Sync;
type Loaded = Arc<dyn Any + Send + Sync>;

/// Everything that a read needs, without its types.
#[derive(Clone)]
pub(super) struct Work {
    pub(super) place: Place,
    facts: Facts,
    load: Arc<Load>,
}

impl Work {
    /// The same work, which notes that it has asked the database before it does.
    pub(super) fn telling(&self, has_asked: &Arc<AtomicBool>) -> Self {
        let (load, has_asked) = (Arc::clone(&self.load), Arc::clone(has_asked));
        Self {
            load: Arc::new(move || {
                has_asked.store(true, Ordering::SeqCst);
                load()
            }),
            ..self.clone()
        }
    }
}

impl Cache {
    /// A row by its id, `None` when there is none, at least as new as `min_version` (0: whatever is promised anyway).
    ///
    /// The loader answers the row with its version, which grows with every change. It is called in a task of its own, at
    /// most once at a time for a row on one node, and as good as never at the same time on two.
    ///
    /// # Errors
    /// `TryLater` when `min_version` is not to be seen yet, or when another one loads for more than a second; the
    /// loader's own.
    pub async fn get_or_load<K, L, F>(
        &self,
        _kind: K,
        id: &K::Key,
        min_version: i64,
        loader: L,
    ) -> Result<Option<Arc<K::Value>>, Error>
    where
        K: Kind,
        L: Fn() -> F + Send + Sync + 'static,
        F: Future<Output = Result<Option<(i64, K::Value)>, DbErr>> + Send + 'static,
    {
        let (place, facts) = (Place::of::<K>(id), Facts::of::<K>());
        let floor = self.inner.floors.get(&place.key);
        let least = min_version.max(floor);
        let found = match self.inner.local.get(&place.key, least).await {
            Some(found) => {
                count(&facts, "local", "hit");
                found
            }
            None if floor == 0 && self.lacks::<K>(id) => {
                count(&facts, "filter", "absent");
                return self.absent(&facts, min_version);
            }
            None => {
                count(&facts, "local", "miss");
                let load = move || {
                    let loading = loader();
                    let typed = async move {
                        let row = loading.await?;
                        Ok(row.map(|(version, value)| (version, Arc::new(value) as Loaded)))
                    };
                    typed.boxed()
                };
                let work = Work {
                    place,
                    facts,
                    load: Arc::new(load),
                };
                self.read(work, least, min_version).await?
            }
        };
        let value = found.value.map(|value| value.downcast::<K::Value>());
        Ok(value.and_then(Result::ok))
    }

    /// Rows by their ids, as `get_or_load` gives each; those that are missing are left out.
    ///
    /// # Errors
    /// The first of theirs.
    pub async fn get_or_load_each<K, L, F>(
        &self,
        kind: K,
        ids: &[K::Key],
        loader: L,
    ) -> Result<Vec<Arc<K::Value>>, Error>
    where
        K: Kind + Copy,
        K::Key: Copy + 'static,
        L: Fn(K::Key) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Result<Option<(i64, K::Value)>, DbErr>> + Send + 'static,
    {
        let reads: Vec<_> = ids
            .iter()
            .map(|id| {
                let (cache, id, loader) = (self.clone(), *id, loader.clone());
                async move {
                    let load = move || loader(id);
                    cache.get_or_load(kind, &id, 0, load).await
                }
                .boxed()
            })
            .collect();
        let found: Vec<_> = stream::iter(reads).buffered(AT_ONCE).try_collect().await?;
        Ok(found.into_iter().flatten().collect())
    }

    /// A row that never was has version 0.
    fn absent<T>(&self, facts: &Facts, min_version: i64) -> Result<Option<T>, Error> {
        if min_version == 0 {
            return Ok(None);
        }
        Err(too_new(facts))
    }

    /// Reads a row at least as new as `least`: what was wanted, and what this node had told or heard of when it was asked.
    ///
    /// A write that comes after the question may overtake the read. The reader reads once more then, so that he sees it
    /// too as a rule; but a row that is written without pause overtakes him each time, and so he is told what he found:
    /// it was there when he asked, or came later.
    async fn read(&self, work: Work, least: i64, min_version: i64) -> Result<Found, Error> {
        let mut reach = Reach::Any;
        let mut was_overtaken = false;
        for _ in 0..=TRIES {
            let found = match self.join_flight(&work, reach).await {
                Err(Error::TryLater) => break,
                result => result?,
            };
            let floor = self.inner.floors.get(&work.place.key);
            let is_newest = found.version >= floor;
            if found.version >= least && (is_newest || was_overtaken) {
                return Ok(found);
            }
            // The database itself has been read, and nobody knows of anything newer: the wish is not met now, nor will
            // it be read again for every one who wishes the same.
            let is_short = is_newest && found.version < min_version;
            if is_short && reach == Reach::Database {
                self.note_unmet(&work.place.key);
            }
            if is_short && self.is_unmet(&work.place.key) {
                break;
            }
            was_overtaken = found.version >= least;
            reach = Reach::Database;
        }
        Err(too_new(&work.facts))
    }

    fn is_unmet(&self, key: &str) -> bool {
        let unmet = self.inner.unmet.lock();
        unmet.get(key).is_some_and(|at| at.elapsed() < RETRY_AFTER)
    }

    fn note_unmet(&self, key: &str) {
        let mut unmet = self.inner.unmet.lock();
        if unmet.len() >= UNMET_CAPACITY {
            unmet.retain(|_, at| at.elapsed() < RETRY_AFTER);
        }
        if unmet.len() < UNMET_CAPACITY {
            unmet.insert(key.to_owned(), Instant::now());
        }
    }

    pub(super) async fn fetch(&self, work: &Work, reach: Reach) -> Result<Found, Error> {
        let asked = self.inner.local.ask();
        let Ok(kept) = self.inner.remote.read(&work.place, &work.facts).await else {
            count(&work.facts, "redis", "away");
            return self.load_without_redis(work).await;
        };
        if reach == Reach::Any
            && let Some(found) = self.usable(work, &kept)
        {
            let life = if kept.is_old {
                count(&work.facts, "redis", "stale");
                self.rebuild_behind(work);
                STALE_LIFE
            } else {
                count(&work.facts, "redis", "hit");
                work.facts.local_life
            };
            self.keep_local(work, &found, asked, life).await;
            return Ok(found);
        }
        count(&work.facts, "redis", "miss");
        self.load_under_lock(work, reach, kept.version).await
    }

    /// What Redis has, unless this node knows of something newer.
    fn usable(&self, work: &Work, kept: &Kept) -> Option<Found> {
        let floor = self.inner.floors.get(&work.place.key);
        kept.found.clone().filter(|f| f.version >= floor)
    }

    async fn load_under_lock(&self, work: &Work, reach: Reach, seen: i64) -> Result<Found, Error> {
        let (locks, owner) = (&self.inner.locks, Owner::default());
        let taken = locks.acquire(&work.place.key, &owner, LOCK_LEASE, LOCK_WAIT);
        match taken.await {
            Ok(Some(lock)) => {
                let loaded = self.look_again_and_load(work, reach, seen).await;
                // Should it not be heard, the lease runs out.
                let _ = lock.release().await;
                loaded
            }
            // Whoever has it may have done it in this very moment.
            Ok(None) => match self.look_again(work, reach, seen).await {
                Ok(Ok(found)) => Ok(found),
                Ok(Err(_)) => Err(Error::TryLater),
                Err(Away) => self.load_without_redis(work).await,
            },
            Err(e) => {
                tracing::debug!(error = %e, "no lock could be asked for");
                self.inner.remote.rest();
                self.load_without_redis(work).await
            }
        }
    }

    async fn look_again_and_load(
        &self,
        work: &Work,
        reach: Reach,
        seen: i64,
    ) -> Result<Found, Error> {
        match self.look_again(work, reach, seen).await {
            Ok(Ok(found)) => Ok(found),
            Ok(Err(version)) => {
                let found = self.load(work, version, "load").await?;
                match self
                    .inner
                    .remote
                    .put(&work.place, &work.facts, &found)
                    .await
                {
                    // Overtaken by a write: the readers learn it by the floor.
                    Ok(newest) => self.inner.floors.raise(&work.place.key, newest),
                    Err(Away) => count(&work.facts, "redis", "away"),
                }
                Ok(found)
            }
            Err(Away) => self.load_without_redis(work).await,
        }
    }

    /// What somebody else has brought to Redis meanwhile; `Err` tells the version that is known there.
    async fn look_again(
        &self,
        work: &Work,
        reach: Reach,
        seen: i64,
    ) -> Result<Result<Found, i64>, Away> {
        let asked = self.inner.local.ask();
        let kept = self.inner.remote.read(&work.place, &work.facts).await?;
        let wanted = |f: &Found| match reach {
            Reach::Any => !kept.is_old,
            Reach::Database => f.version > seen,
        };
        match self.usable(work, &kept).filter(wanted) {
            Some(found) => {
                count(&work.facts, "redis", "hit");
                self.keep_local(work, &found, asked, work.facts.local_life)
                    .await;
                Ok(Ok(found))
            }
            None => Ok(Err(kept.version)),
        }
    }

    async fn load_without_redis(&self, work: &Work) -> Result<Found, Error> {
        let permit = tokio::time::timeout(BULKHEAD_WAIT, self.inner.bulkhead.acquire()).await;
        let Ok(Ok(_permit)) = permit else {
            return Err(Error::TryLater);
        };
        self.load(work, 0, "bulkhead").await
    }

    /// Reads the database. A row that is not there has the version that was known before it was looked for.
    async fn load(&self, work: &Work, seen: i64, how: &'static str) -> Result<Found, Error> {
        let asked = self.inner.local.ask();
        let known = seen.max(self.inner.floors.get(&work.place.key));
        // In a task of its own: a database future that is dropped half-way may break its connection.
        let began = Instant::now();
        let loading = tokio::spawn((work.load)());
        let row = match tokio::time::timeout(LOAD_LIMIT, loading).await {
            Err(_) => Err(Error::TryLater),
            Ok(Err(e)) => Err(Error::Database(Arc::new(DbErr::Custom(e.to_string())))),
            Ok(Ok(result)) => result.map_err(|e| Error::Database(Arc::new(e))),
        };
        let row = row.inspect_err(|_| count(&work.facts, "database", "error"))?;
        count(&work.facts, "database", how);
        time(&work.facts, "database", began);
        metrics::counter!("lifemate_cache_rebuilds_total", "kind" => work.facts.name).increment(1);
        let found = match row {
            Some((version, value)) => Found {
                version: match work.facts.versions {
                    Versions::OfRow => version,
                    Versions::OfInvalidations => known,
                },
                bytes: (work.facts.encode)(&*value).map_or(0, |body| body.len()),
                value: Some(value),
            },
            None => Found {
                version: known,
                value: None,
                bytes: 0,
            },
        };
        self.keep_local(work, &found, asked, work.facts.local_life)
            .await;
        Ok(found)
    }

    /// The floor rises first: what is told from here on is never older.
    async fn keep_local(&self, work: &Work, found: &Found, asked: Asked, life: Duration) {
        self.inner.floors.raise(&work.place.key, found.version);
        let life = life.mul_f64(1.0 - rand::random::<f64>() / 5.0);
        let local = &self.inner.local;
        local.put(&work.place.key, found.clone(), asked, life).await;
    }

    /// Loads an old value anew, unless somebody is at it already, here or on another node.
    fn rebuild_behind(&self, work: &Work) {
        if !self.inner.rebuilding.lock().insert(work.place.key.clone()) {
            return;
        }
        let (cache, work) = (self.clone(), work.clone());
        let at_it = AtIt {
            cache: self.clone(),
            key: work.place.key.clone(),
        };
        tokio::spawn(async move {
            let _at_it = at_it;
            let (locks, owner) = (&cache.inner.locks, Owner::default());
            let taken = locks.acquire(&work.place.key, &owner, LOCK_LEASE, Duration::ZERO);
            if let Ok(Some(lock)) = taken.await {
                if let Err(e) = cache.look_again_and_load(&work, Reach::Any, 0).await {
                    tracing::debug!(error = %e, "an old value stays a little longer");
                }
                let _ = lock.release().await;
            }
        });
    }
}

/// This process loads an old value anew; over when this goes, also by a panic.
struct AtIt {
    cache: Cache,
    key: String,
}

impl Drop for AtIt {
    fn drop(&mut self) {
        self.cache.inner.rebuilding.lock().remove(&self.key);
    }
}

/// Nothing that is at hand will do.
fn too_new(facts: &Facts) -> Error {
    metrics::counter!("lifemate_cache_try_later_total", "kind" => facts.name).increment(1);
    Error::TryLater
}
