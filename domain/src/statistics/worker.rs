//! When days are computed, and by whom: one process at a time, which holds a lease. A process that dies half-way has
//! written nothing of the day in hand; the next holder begins it anew.

use std::ops::ControlFlow;
use std::time::Duration;

use chrono::{Days, NaiveDate};
use deadpool_redis::redis::cmd;
use tokio_util::sync::CancellationToken;

use super::compute::Audience;
use super::{Error, Statistics};

/// The lease's name.
const LEASE: &str = "statistics";
/// A dead holder is succeeded after this long; renewed with every part of a day.
const LEASE_MS: i64 = 60_000;
/// How often somebody looks whether a day is due: one read of a short table.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// A day is computed when the next one is so old: then the fewest people are there.
const OFF_PEAK_MS: i64 = 3 * 3_600_000;
/// Days that are computed afterwards when nobody was there to do it. Visitors of earlier ones may be gone.
const CATCH_UP_DAYS: u64 = 40;
/// How long the progress of a process that died is shown.
const PROGRESS_SECS: u64 = 60;

/// A day that is being computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunningDay {
    /// The day.
    pub day: NaiveDate,
    /// How much is done, 0 to 100.
    pub percent: u32,
}

impl Statistics {
    /// Computes what is due, until `stop`.
    pub async fn run_workers(&self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            let outcome = self.compute_due(&stop).await;
            let label = if outcome.is_ok() { "ok" } else { "error" };
            metrics::counter!("lifemate_worker_runs_total", "worker" => "statistics", "outcome" => label)
                .increment(1);
            match outcome {
                Ok(_) | Err(Error::Stopped) => {}
                Err(e) => tracing::warn!(error = %e, "statistics cannot be computed now"),
            }
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
    }

    /// Computes the days that are due, if no other process does; how many it were.
    ///
    /// # Errors
    /// `Stopped`; trouble of a store. Days before are done then.
    pub async fn compute_due(&self, stop: &CancellationToken) -> Result<u32, Error> {
        if self.due().await?.is_none() || !self.leases.hold(LEASE, LEASE_MS).await? {
            return Ok(0);
        }
        let mut computed = 0;
        let result = loop {
            // Asked again under the lease: another process may just have done it.
            match self.due().await {
                Ok(Some(day)) => match self.compute_as_holder(day, stop).await {
                    Ok(()) => computed += 1,
                    Err(e) => break Err(e),
                },
                Ok(None) => break Ok(computed),
                Err(e) => break Err(e),
            }
        };
        self.leases.release(LEASE).await?;
        result
    }

    /// The day that is being computed by some process, if one is.
    ///
    /// # Errors
    /// Redis' own.
    pub async fn running(&self) -> Result<Option<RunningDay>, Error> {
        let redis = &self.infra.redis;
        let text: Option<String> = redis.query(cmd("GET").arg(self.progress_key())).await?;
        Ok(text.and_then(|text| {
            let (day, percent) = text.split_once(' ')?;
            Some(RunningDay {
                day: day.parse().ok()?,
                percent: percent.parse().ok()?,
            })
        }))
    }

    /// The first day that is over, old enough and not computed.
    async fn due(&self) -> Result<Option<NaiveDate>, Error> {
        let settled = self.zone.day(self.infra.clock.now_ms() - OFF_PEAK_MS);
        let last = settled - Days::new(1);
        let first = match self.computed_until().await? {
            None => last,
            Some(done) => (done + Days::new(1)).max(last - Days::new(CATCH_UP_DAYS - 1)),
        };
        Ok((first <= last).then_some(first))
    }

    async fn compute_as_holder(
        &self,
        day: NaiveDate,
        stop: &CancellationToken,
    ) -> Result<(), Error> {
        let shift = Shift {
            statistics: self,
            day,
            stop,
            told: None,
        };
        let figures = self.compute_for(day, Audience::Worker(shift)).await?;
        tracing::info!(%day, dau = figures.dau, orders = figures.orders, "the statistics of a day were computed");
        let redis = &self.infra.redis;
        if let Err(e) = redis
            .query::<i64>(cmd("DEL").arg(self.progress_key()))
            .await
        {
            tracing::debug!(error = %e, "the progress is shown a little longer");
        }
        Ok(())
    }

    /// For people to see; the computation does not depend on it.
    async fn tell_progress(&self, day: NaiveDate, percent: u64) {
        let mut set = cmd("SET");
        set.arg(self.progress_key())
            .arg(format!("{day} {percent}"))
            .arg("EX")
            .arg(PROGRESS_SECS);
        if let Err(e) = self.infra.redis.query::<()>(&set).await {
            tracing::debug!(error = %e, "progress was not told");
        }
    }

    /// String: the day in hand and its per cent; lives `PROGRESS_SECS`.
    fn progress_key(&self) -> String {
        self.infra.redis.key("statistics:progress")
    }
}

/// A worker at a day: keeps the lease, and tells how far it is.
pub(super) struct Shift<'a> {
    statistics: &'a Statistics,
    day: NaiveDate,
    stop: &'a CancellationToken,
    told: Option<u64>,
}

impl Shift<'_> {
    /// After each part; to be stopped when the process ends or the lease is lost.
    pub(super) async fn hear(&mut self, done: u64, total: u64) -> ControlFlow<()> {
        let percent = done * 100 / total.max(1);
        if self.told != Some(percent) {
            self.told = Some(percent);
            self.statistics.tell_progress(self.day, percent).await;
        }
        let holds = self.statistics.leases.hold(LEASE, LEASE_MS).await;
        if self.stop.is_cancelled() || !matches!(holds, Ok(true)) {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}
