//! Writing: the database first, then what is kept of the row goes, here at once and everywhere by a broadcast. A write
//! that Redis could not be told of is told again until it is.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::remote::CHANNEL;
use super::{Cache, Kind, Place, Versions};
use crate::infra::events::PushEvent;

/// How often writes that Redis has not heard of are told again.
const TELL_EVERY: Duration = Duration::from_millis(200);
/// How long telling Redis may take before it goes on behind the writer's back.
const TELL_LIMIT: Duration = Duration::from_millis(500);

/// How long a write may take, before its mark is given up: six transactions of ten seconds.
const WRITE_LIFE: Duration = Duration::from_secs(60);

/// What Redis must be told of a write.
#[derive(Clone, Debug)]
pub(super) struct Word {
    place: Place,
    /// 0 when it is not known.
    version: i64,
    /// Whose marks it takes back.
    writers: Vec<Uuid>,
    /// One word is not another, though they say the same.
    number: u64,
}

impl Cache {
    /// Writes a row, then drops what is kept of it under the version that the write answers. Both happen in a task of
    /// their own, so that a caller who goes away leaves nothing half-done. A mark in Redis goes before them, so that a
    /// process that goes away does not either.
    ///
    /// # Errors
    /// The write's. What is kept is dropped then too: whether the write came through may not be known.
    pub async fn write_then_invalidate<K, F, T, E>(
        &self,
        _kind: K,
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
        let (cache, place) = (self.clone(), Place::of::<K>(&id));
        let task = tokio::spawn(async move {
            let writer = Uuid::new_v4();
            // One that Redis did not answer to may stand there all the same.
            let _ = cache.inner.remote.mark(&place, &writer, WRITE_LIFE).await;
            let (version, answer) = match write.await {
                Ok((version, answer)) => (version, Ok(answer)),
                Err(e) => (0, Err(e)),
            };
            cache.drop_everywhere(place, version, vec![writer]).await;
            answer
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

    /// Drops what is kept of a row that somebody else has written and committed under this version (0: not known, or
    /// the kind has none).
    pub async fn invalidate<K: Kind>(&self, _kind: K, id: &K::Key, version: i64) {
        self.drop_everywhere(Place::of::<K>(id), version, Vec::new())
            .await;
    }

    async fn drop_everywhere(&self, place: Place, version: i64, writers: Vec<Uuid>) {
        metrics::counter!("lifemate_cache_invalidations_total", "kind" => place.kind, "source" => "own").increment(1);
        let least = match place.versions {
            Versions::OfRow => version,
            Versions::OfInvalidations => self.inner.floors.get(&place.key) + 1,
        };
        self.forget(&place.key, least).await;
        let word = self.note(place, version, writers);
        if tokio::time::timeout(TELL_LIMIT, self.tell(&word))
            .await
            .is_err()
        {
            tracing::debug!(kind = word.place.kind, "redis is told of a write later");
        }
    }

    /// Keeps a word until it is said, with what is still unsaid of the same row.
    fn note(&self, place: Place, version: i64, mut writers: Vec<Uuid>) -> Word {
        let number = self.inner.next_flight.fetch_add(1, Ordering::Relaxed);
        let mut unsaid = self.inner.unsaid.lock();
        let before = unsaid.get(&place.key);
        writers.extend(before.iter().flat_map(|word| &word.writers));
        let word = Word {
            version: version.max(before.map_or(0, |word| word.version)),
            writers,
            number,
            place,
        };
        unsaid.insert(word.place.key.clone(), word.clone());
        word
    }

    /// Says what is unsaid, for a process that ends; answers how much nobody heard.
    pub async fn settle(&self, limit: Duration) -> usize {
        let said = async {
            while self.say_unsaid().await > 0 {
                tokio::time::sleep(TELL_EVERY).await;
            }
        };
        let _ = tokio::time::timeout(limit, said).await;
        self.inner.unsaid.lock().len()
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

    async fn tell(&self, word: &Word) {
        let (place, remote) = (&word.place, &self.inner.remote);
        match remote.drop(place, word.version, &word.writers).await {
            Ok(version) => {
                self.note_said(word);
                if place.versions == Versions::OfInvalidations {
                    self.forget(&place.key, version).await;
                }
            }
            Err(e) => {
                tracing::debug!(error = %e, kind = place.kind, "redis is told of a write later");
            }
        }
    }

    /// A later write of the same row may wait there by now.
    fn note_said(&self, word: &Word) {
        let mut unsaid = self.inner.unsaid.lock();
        let key = &word.place.key;
        if unsaid.get(key).is_some_and(|w| w.number == word.number) {
            unsaid.remove(key);
        }
    }

    async fn tell_again(&self, stop: &CancellationToken) {
        let waiting = || tokio::time::sleep(TELL_EVERY);
        while stop.run_until_cancelled(waiting()).await.is_some() {
            self.say_unsaid().await;
            metrics::gauge!("lifemate_cache_local_entries").set(self.local_len() as f64);
            metrics::gauge!("lifemate_cache_local_bytes").set(self.local_bytes() as f64);
        }
    }

    /// Answers how much is still unsaid.
    async fn say_unsaid(&self) -> usize {
        let words: Vec<Word> = self.inner.unsaid.lock().values().cloned().collect();
        if words.is_empty() || !self.inner.remote.is_up().await {
            return words.len();
        }
        for word in &words {
            self.tell(word).await;
        }
        self.inner.unsaid.lock().len()
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
