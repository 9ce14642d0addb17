//! The tier in Redis: shared by all nodes, ordered by versions. When Redis does not answer, it is left alone for a
//! moment.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use deadpool_redis::redis::{RedisError, cmd, pipe};
use parking_lot::Mutex;
use tokio::time::Instant;
use uuid::Uuid;

use super::kinds::{Facts, Found};
use super::{Place, Versions, jittered, time};
use crate::infra::redis::Redis;

/// Past so many ticks, half a second, the database is the quicker way.
const TICKS: u32 = 10;
/// Counted one by one: when this process itself gets no processor, late ticks do not make Redis a slow one, and a crowd
/// of readers does not turn to the database just when they are most. The connection's own limit is 1.5 s.
const TICK: Duration = Duration::from_millis(50);
/// After a failure Redis is not asked for so long, so that not every reader waits for it.
const REST: Duration = Duration::from_millis(500);
/// How long the version of a write is remembered: longer than a read of the database can be on its way.
pub(super) const TOMBSTONE_LIFE: Duration = Duration::from_secs(60);
/// How long it is remembered that there is no such row.
const ABSENT_LIFE: Duration = Duration::from_secs(30);
/// The channel that tells of writes.
pub(super) const CHANNEL: &str = "cache";

/// Redis did not answer, or is left alone for the moment.
#[derive(Debug)]
pub(super) struct Away;

/// What Redis has of a row.
pub(super) struct Kept {
    /// 0 when it has nothing.
    pub(super) version: i64,
    /// `None` when there is only a version, or a text that is not understood.
    pub(super) found: Option<Found>,
    /// Whether it should be loaded again.
    pub(super) is_old: bool,
}

pub(super) struct Remote {
    redis: Redis,
    rests_until: Mutex<Option<Instant>>,
    is_away: AtomicBool,
}

impl Remote {
    pub(super) fn new(redis: Redis) -> Self {
        Self {
            redis,
            rests_until: Mutex::new(None),
            is_away: AtomicBool::new(false),
        }
    }

    pub(super) async fn read(&self, place: &Place, facts: &Facts) -> Result<Kept, Away> {
        let key = self.key(place);
        let mut read = pipe();
        read.cmd("HMGET").arg(&key).arg("version").arg("body");
        read.cmd("PTTL").arg(&key);
        let began = Instant::now();
        let ((version, body), left_ms): ((Option<i64>, Option<String>), i64) =
            self.limited(self.redis.query_pipe(&read)).await?;
        time(facts, "redis", began);
        let version = version.unwrap_or(0);
        let value = match body.as_deref() {
            None => None,
            Some("") => Some(None),
            Some(body) => (facts.decode)(body).map(Some),
        };
        let is_value = matches!(value, Some(Some(_)));
        let left = Duration::from_millis(u64::try_from(left_ms).unwrap_or(0));
        Ok(Kept {
            version,
            found: value.map(|value| Found {
                version,
                value,
                bytes: body.map_or(0, |body| body.len()),
            }),
            is_old: is_value && !facts.stale_for.is_zero() && left <= facts.stale_for,
        })
    }

    /// Keeps what was read, unless something newer is known; answers the newest version known.
    pub(super) async fn put(
        &self,
        place: &Place,
        facts: &Facts,
        found: &Found,
    ) -> Result<i64, Away> {
        let (body, life) = match &found.value {
            None => (String::new(), jittered(ABSENT_LIFE)),
            Some(value) => match (facts.encode)(&**value) {
                Some(body) => (body, jittered(facts.redis_life) + facts.stale_for),
                None => return Ok(found.version),
            },
        };
        let args = [
            found.version.to_string(),
            body,
            life.as_millis().to_string(),
        ];
        let put = &self.redis.scripts().cache_put;
        self.limited(self.redis.run(put, &[self.key(place)], &args))
            .await
    }

    /// Notes that the row is about to be written: nothing of it is kept until `drop` takes that back, or for `life`.
    pub(super) async fn mark(
        &self,
        place: &Place,
        writer: &Uuid,
        life: Duration,
    ) -> Result<i64, Away> {
        let mark = &self.redis.scripts().cache_mark;
        let args = [life.as_millis().to_string(), writer.simple().to_string()];
        self.limited(self.redis.run(mark, &[self.key(place)], &args))
            .await
    }

    /// Whether the last question got no answer.
    pub(super) fn is_away(&self) -> bool {
        self.is_away.load(Ordering::Relaxed)
    }

    /// Drops what is kept and tells every node. Asked also while Redis is left alone: a write may not be forgotten.
    ///
    /// # Errors
    /// Redis' own: then nobody knows of the write yet.
    pub(super) async fn drop(
        &self,
        place: &Place,
        version: i64,
        writers: &[Uuid],
    ) -> Result<i64, RedisError> {
        let version = match place.versions {
            Versions::OfRow => version.to_string(),
            Versions::OfInvalidations => "next".to_owned(),
        };
        let mut args = vec![
            version,
            TOMBSTONE_LIFE.as_millis().to_string(),
            self.redis.key(format!("events:{CHANNEL}")),
            place.key.clone(),
        ];
        args.extend(writers.iter().map(|writer| writer.simple().to_string()));
        let script = &self.redis.scripts().cache_drop;
        self.redis.run(script, &[self.key(place)], &args).await
    }

    /// Whether Redis answers.
    pub(super) async fn is_up(&self) -> bool {
        self.redis.query::<String>(&cmd("PING")).await.is_ok()
    }

    /// Leaves Redis alone for a moment.
    pub(super) fn rest(&self) {
        self.is_away.store(true, Ordering::Relaxed);
        *self.rests_until.lock() = Some(Instant::now() + REST);
    }

    async fn limited<T>(
        &self,
        call: impl Future<Output = Result<T, RedisError>>,
    ) -> Result<T, Away> {
        if self.rests_until.lock().is_some_and(|u| Instant::now() < u) {
            return Err(Away);
        }
        let mut call = pin!(call);
        for _ in 0..TICKS {
            match tokio::time::timeout(TICK, &mut call).await {
                Ok(Ok(answer)) => {
                    self.is_away.store(false, Ordering::Relaxed);
                    return Ok(answer);
                }
                Ok(Err(e)) => {
                    tracing::debug!(error = %e, "the cache's redis failed; the database is asked");
                    break;
                }
                Err(_) => {}
            }
        }
        self.rest();
        Err(Away)
    }

    /// Hash of what is kept of one row; lives minutes. Owner: this module.
    fn key(&self, place: &Place) -> String {
        self.redis.key(format!("cache:{}", place.key))
    }
}
