//! Writing: the database first, then what is kept of the row goes, here at once and everywhere by a broadcast. A write
//! that Redis could not be told of is told again until it is.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::remote::CHANNEL;
use super::{Cache, Kind, Place};
use crate::infra::events::PushEvent;

/// How often writes that Redis has not heard of are told again.
const TELL_EVERY: Duration = Duration::from_millis(200);
/// How long telling Redis may take before it goes on behind the writer's back.
const TELL_LIMIT: Duration = Duration::from_millis(500);

impl Cache {
    /// Writes a row, then drops what is kept of it under the version that the write answers. Both happen in a task of
    /// their own, so that a caller who goes away leaves nothing half-done.
    ///
    /// # Errors
    /// The write's. What is kept is dropped then too: whether the write came through may not be known.
    pub async fn write_then_invalidate<K, F, T, E>(
        &self,
        kind: K,
        id: K::Key,
        write: F,
    ) -> Result<T, E>
    where
        K: Kind,
        K::Key: 'static,
        F: Future<Output = Result<(i64, T), E>> + Send + 'static,
        T: Send + 'static,
        E: Send + 'static,
    {
        let cache = self.clone();
        let task = tokio::spawn(async move {
            match write.await {
                Ok((version, answer)) => {
                    cache.invalidate(kind, &id, version).await;
                    Ok(answer)
                }
                Err(e) => {
                    cache.invalidate(kind, &id, 0).await;
                    Err(e)
                }
            }
        });
        match task.await {
            Ok(result) => result,
            Err(e) => match e.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // Only at the end of the process, when nobody waits any more.
                Err(_) => std::future::pending().await,
            },
        }
    }

    /// Drops what is kept of a row that somebody else has written and committed under this version (0: not known).
    pub async fn invalidate<K: Kind>(&self, _kind: K, id: &K::Key, version: i64) {
        let place = Place::of::<K>(id);
        metrics::counter!("lifemate_cache_invalidations_total", "kind" => K::NAME, "source" => "own").increment(1);
        self.forget(&place.key, version).await;
        self.inner
            .unsaid
            .lock()
            .insert(place.key.clone(), (place.clone(), version));
        if tokio::time::timeout(TELL_LIMIT, self.tell(&place, version))
            .await
            .is_err()
        {
            tracing::debug!(kind = place.kind, "redis is told of a write later");
        }
    }

    /// Hears what other nodes write, tells again what did not arrive, and follows which ids there are, until `stop`.
    pub async fn run(&self, stop: CancellationToken) {
        let known: Vec<_> = self.inner.known.read().values().cloned().collect();
        let follow = known.iter().map(|ids| ids.follow(stop.clone()));
        tokio::join!(
            self.hear(&stop),
            self.tell_again(&stop),
            futures_util::future::join_all(follow)
        );
    }

    async fn tell(&self, place: &Place, version: i64) {
        match self.inner.remote.drop(place, version).await {
            Ok(_) => {
                let mut unsaid = self.inner.unsaid.lock();
                // A later write of the same row may wait there by now.
                if unsaid.get(&place.key).is_some_and(|(_, v)| *v == version) {
                    unsaid.remove(&place.key);
                }
            }
            Err(e) => {
                tracing::debug!(error = %e, kind = place.kind, "redis is told of a write later");
            }
        }
    }

    async fn tell_again(&self, stop: &CancellationToken) {
        let waiting = || tokio::time::sleep(TELL_EVERY);
        while stop.run_until_cancelled(waiting()).await.is_some() {
            let unsaid: Vec<(Place, i64)> = self.inner.unsaid.lock().values().cloned().collect();
            if unsaid.is_empty() || !self.inner.remote.is_up().await {
                continue;
            }
            for (place, version) in unsaid {
                self.tell(&place, version).await;
            }
        }
    }

    async fn hear(&self, stop: &CancellationToken) {
        let mut events = self.inner.redis.subscribe(CHANNEL);
        while let Some(event) = stop.run_until_cancelled(events.recv()).await {
            match event {
                Ok(PushEvent::Message(text)) => {
                    let Some((key, version)) = text.rsplit_once(':') else {
                        continue;
                    };
                    let (kind, version) = (key.split(':').next(), version.parse().unwrap_or(0));
                    metrics::counter!("lifemate_cache_invalidations_total", "kind" => kind.unwrap_or_default().to_owned(), "source" => "broadcast").increment(1);
                    self.forget(key, version).await;
                }
                // Something was missed: nothing here may be trusted.
                _ => self.inner.local.clear(),
            }
        }
    }

    /// The floor rises first, so that nothing older slips in behind the removal.
    async fn forget(&self, key: &str, version: i64) {
        self.inner.floors.raise(key, version);
        self.detach_flights(key);
        self.inner.local.remove(key).await;
    }
}
