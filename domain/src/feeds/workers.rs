//! What runs beside the requests: carrying notes to followers, and telling subscribers. The steps are elsewhere.

use std::time::Duration;

use sea_orm::DbErr;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Error, Feeds};
use crate::blogs;
use crate::infra::events::PushEvent;

/// How often workers look for notes that nobody told them of.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How often the gauges are set, and how long a worker rests after an error.
const MEASURE_EVERY: Duration = Duration::from_secs(5);
const AFTER_ERROR: Duration = Duration::from_secs(1);
/// Far more than a step takes: a connection whose other end is gone tells nobody.
const STEP_LIMIT: Duration = Duration::from_secs(60);

impl Feeds {
    /// Carries notes to followers, until `stop`; the batch in hand is finished.
    pub async fn run_workers(&self, stop: CancellationToken) {
        let mut news = self.infra.redis.subscribe(blogs::CHANNEL);
        let (mut is_failing, mut measured) = (false, None::<Instant>);
        while !stop.is_cancelled() {
            if measured.is_none_or(|at| at.elapsed() >= MEASURE_EVERY) {
                measured = Some(Instant::now());
                let feeds = self.clone();
                let _ = in_a_task(async move { feeds.measure().await }).await;
            }
            let feeds = self.clone();
            let done = in_a_task(async move { feeds.fan_out_due().await }).await;
            let outcome = if done.is_ok() { "ok" } else { "error" };
            metrics::counter!("lifemate_worker_runs_total", "worker" => "feeds", "outcome" => outcome)
                .increment(1);
            let rest = match done {
                Ok(0) => LOOK_EVERY,
                Ok(_) => Duration::ZERO,
                Err(e) => {
                    // A store that is away fails every run; said once, until it is back.
                    if !is_failing {
                        tracing::warn!(worker = "feeds", error = %e, "a worker cannot do its work; it goes on trying");
                    }
                    is_failing = true;
                    AFTER_ERROR
                }
            };
            if rest < AFTER_ERROR && std::mem::take(&mut is_failing) {
                tracing::info!(worker = "feeds", "the worker goes on");
            }
            if rest.is_zero() {
                continue;
            }
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(rest) => {}
                heard = news.recv(), if rest == LOOK_EVERY => {
                    if matches!(heard, Err(RecvError::Closed)) {
                        tokio::time::sleep(rest).await;
                    }
                }
            }
        }
    }

    /// Tells the subscribers of this process, until `stop`.
    pub async fn run_node(&self, stop: CancellationToken) {
        let mut news = self.infra.redis.subscribe(blogs::CHANNEL);
        let mut look = tokio::time::interval(super::live::LOOK_EVERY);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let heard = tokio::select! {
                () = stop.cancelled() => return,
                _ = look.tick() => None,
                heard = news.recv() => Some(heard),
            };
            let feeds = self.clone();
            let told = match heard {
                Some(Ok(PushEvent::Message(note))) => {
                    in_a_task(async move { feeds.hear(&note).await }).await
                }
                // A gap, or the regular look: whatever was missed is in the database.
                Some(Ok(PushEvent::Resync) | Err(RecvError::Lagged(_))) | None => {
                    in_a_task(async move { feeds.look_for_news().await }).await
                }
                Some(Err(RecvError::Closed)) => return,
            };
            if let Err(e) = told {
                tracing::debug!(error = %e, "subscribers are told at the next look");
            }
        }
    }
}

/// Runs a step in a task of its own: should it panic, or wait for ever, the step has failed and its worker goes on.
async fn in_a_task<T: Send + 'static>(
    step: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Result<T, Error> {
    let ended_early = |why: String| {
        tracing::error!(worker = "feeds", error = %why, "a worker's step ended early");
        Err(Error::Database(DbErr::Custom(why)))
    };
    match tokio::time::timeout(STEP_LIMIT, tokio::spawn(step)).await {
        Ok(Ok(done)) => done,
        Ok(Err(e)) => ended_early(e.to_string()),
        Err(_) => ended_early(format!("no end in {STEP_LIMIT:?}")),
    }
}
