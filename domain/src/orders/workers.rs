//! What runs beside the requests. The steps are elsewhere; here is only when they run, and how they stop.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::writer::{BATCH, pause};
use super::{Error, Orders, sweeper};
use crate::infra::bus::Delivery;
use crate::infra::events::PushEvent;
use crate::vouchers::VoucherId;

/// The deadline scan; orders close within a second of their deadline.
const CLOSE_EVERY: Duration = Duration::from_millis(500);
const GIVE_BACK_EVERY: Duration = Duration::from_millis(250);
const GAUGE_EVERY: Duration = Duration::from_secs(1);
/// The least time between two looks of the gauge, however often it is woken.
const GAUGE_RESTS: Duration = Duration::from_millis(150);
/// As often as metrics are usually read.
const MEASURE_EVERY: Duration = Duration::from_secs(5);
/// Nobody waits for it.
const SETTLE_EVERY: Duration = Duration::from_secs(5);
/// A unit that came back waits at most this long for the first of its waiters.
const CALL_EVERY: Duration = Duration::from_millis(250);
const PAYMENTS_EVERY: Duration = Duration::from_millis(500);
/// Lists sorted by what was sold are this far behind.
const COUNT_SOLD_EVERY: Duration = Duration::from_secs(1);
/// After an error a worker rests a little longer.
const AFTER_ERROR: Duration = Duration::from_secs(1);

impl Orders {
    /// What every process runs, with workers or without: hears other nodes, and writes what it failed to send.
    /// Returns when `stop` is cancelled and the work in hand is done.
    pub async fn run_node(&self, stop: CancellationToken) {
        let tasks = TaskTracker::new();
        let orders = self.clone();
        tasks.spawn(keep_running("hear_sales", stop.clone(), move |stop| {
            orders.clone().hear_sales(stop)
        }));
        let orders = self.clone();
        tasks.spawn(keep_running("write_unsent", stop.clone(), move |stop| {
            orders.clone().write_unsent(stop)
        }));
        let orders = self.clone();
        tasks.spawn(keep_running("live", stop.clone(), move |stop| {
            let orders = orders.clone();
            async move { orders.run_live(stop).await }
        }));
        tasks.close();
        tasks.wait().await;
    }

    /// Writer, sweeper, closer, give-back, payments and the gauge, until `stop`; each finishes the step in hand.
    pub async fn run_workers(&self, stop: CancellationToken) {
        let tasks = TaskTracker::new();
        let orders = self.clone();
        tasks.spawn(keep_running("writer", stop.clone(), move |stop| {
            let orders = orders.clone();
            async move { orders.run_writer(stop).await }
        }));
        tasks.spawn(
            self.clone()
                .repeat("gauge", GAUGE_EVERY, stop.clone(), |o| async move {
                    let installed = o.look_after_sales().await;
                    let amended = o.repeat_amendments().await;
                    let adjusted = o.repeat_adjustments().await;
                    amended.and(adjusted).and(installed)
                }),
        );
        let sweep_every = sweeper::period(&self.inner.infra.bus);
        tasks.spawn(
            self.clone()
                .repeat("sweeper", sweep_every, stop.clone(), |o| async move {
                    o.sweep().await
                }),
        );
        tasks.spawn(
            self.clone()
                .repeat("closer", CLOSE_EVERY, stop.clone(), |o| async move {
                    o.close_due().await
                }),
        );
        tasks.spawn(self.clone().repeat(
            "giveback",
            GIVE_BACK_EVERY,
            stop.clone(),
            |o| async move { o.give_back_due().await },
        ));
        tasks.spawn(
            self.clone()
                .repeat("waitlists", CALL_EVERY, stop.clone(), |o| async move {
                    o.call_waiters().await
                }),
        );
        tasks.spawn(self.clone().repeat(
            "payments",
            PAYMENTS_EVERY,
            stop.clone(),
            |o| async move { o.work_on_payments().await },
        ));
        tasks.spawn(self.clone().repeat(
            "counter",
            COUNT_SOLD_EVERY,
            stop.clone(),
            |o| async move { o.count_sold().await },
        ));
        tasks.spawn(
            self.clone()
                .repeat("settler", SETTLE_EVERY, stop.clone(), |o| async move {
                    let settled = o.settle_sales().await;
                    o.sweep_leftovers().await.and(settled)
                }),
        );
        tasks.spawn(
            self.clone()
                .repeat("measurer", MEASURE_EVERY, stop.clone(), |o| async move {
                    o.measure().await?;
                    Ok(0)
                }),
        );
        tasks.close();
        tasks.wait().await;
    }

    /// Runs a step again and again: at once while it finds work, then each `every`, or when it is woken.
    async fn repeat<F, R>(
        self,
        name: &'static str,
        every: Duration,
        stop: CancellationToken,
        step: F,
    ) where
        F: Fn(Orders) -> R,
        R: Future<Output = Result<usize, Error>> + Send + 'static,
    {
        let mut failing = false;
        while !stop.is_cancelled() {
            let result = one_step(name, step(self.clone())).await;
            let outcome = if result.is_ok() { "ok" } else { "error" };
            metrics::counter!("lifemate_worker_runs_total", "worker" => name, "outcome" => outcome)
                .increment(1);
            match result {
                Ok(done) => {
                    if failing {
                        tracing::info!(worker = name, "the worker goes on");
                    }
                    failing = false;
                    if done == 0 {
                        self.rest(name, every, &stop).await;
                    }
                }
                Err(e) => {
                    // A store that is away fails every run; said once, until it is back.
                    if !failing {
                        tracing::warn!(worker = name, error = %e, "a worker cannot do its work; it goes on trying");
                    }
                    failing = true;
                    pause(AFTER_ERROR, &stop).await;
                }
            }
        }
    }

    async fn rest(&self, name: &str, every: Duration, stop: &CancellationToken) {
        match name {
            "gauge" => {
                // Whoever clicks may wake it, so it rests a moment whatever they do.
                pause(GAUGE_RESTS, stop).await;
                tokio::select! { () = self.inner.recovery_wanted.notified() => {}, () = pause(every, stop) => {} }
            }
            "giveback" => {
                tokio::select! { () = self.inner.giveback_due.notified() => {}, () = pause(every, stop) => {} }
            }
            _ => pause(every, stop).await,
        }
    }

    async fn hear_sales(self, stop: CancellationToken) {
        let mut events = self.inner.infra.redis.subscribe("sales");
        loop {
            let event = tokio::select! {
                () = stop.cancelled() => return,
                event = events.recv() => event,
            };
            if let Ok(PushEvent::Message(voucher)) = event
                && let Ok(voucher) = voucher.parse::<VoucherId>()
            {
                self.see_reopened(voucher);
            }
        }
    }

    /// Writes the orders whose send failed; what cannot be written now is left to the sweeper.
    async fn write_unsent(self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            let batch: Vec<Delivery> = tokio::select! {
                () = stop.cancelled() => self.inner.unsent.rest(BATCH).await,
                batch = self.inner.unsent.next_batch(BATCH) => batch,
            };
            if let Err(e) = self.write(&batch).await {
                tracing::debug!(error = %e, orders = batch.len(), "unsent orders are left to the sweeper");
            }
        }
    }
}

/// Runs one step in a task of its own: should it panic, the step has failed and its worker goes on.
async fn one_step<R>(worker: &'static str, step: R) -> Result<usize, Error>
where
    R: Future<Output = Result<usize, Error>> + Send + 'static,
{
    tokio::spawn(step).await.unwrap_or_else(|e| {
        tracing::error!(worker, error = %e, "a worker's step ended early");
        Err(Error::TryLater(e.to_string()))
    })
}

/// Runs what lasts until `stop`, and again should it panic.
async fn keep_running<F, R>(worker: &'static str, stop: CancellationToken, run: F)
where
    F: Fn(CancellationToken) -> R,
    R: Future<Output = ()> + Send + 'static,
{
    while let Err(e) = tokio::spawn(run(stop.clone())).await {
        tracing::error!(worker, error = %e, "a worker ended early; it begins again");
        if stop.is_cancelled() {
            return;
        }
        pause(AFTER_ERROR, &stop).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test]
    async fn a_step_that_panics_has_failed_and_no_more() {
        let broken = one_step("test", async { panic!("a bug") }).await;
        assert!(matches!(broken, Err(Error::TryLater(_))));
        assert_eq!(one_step("test", async { Ok(3) }).await.unwrap(), 3);
    }

    #[tokio::test]
    async fn a_worker_that_panics_begins_again() {
        let (begun, stop) = (Arc::new(AtomicU32::new(0)), CancellationToken::new());
        let count = Arc::clone(&begun);
        let run = move |stop: CancellationToken| {
            let count = Arc::clone(&count);
            async move {
                assert!(count.fetch_add(1, Ordering::SeqCst) > 0, "a bug");
                stop.cancelled().await;
            }
        };
        let worker = tokio::spawn(keep_running("test", stop.clone(), run));
        while begun.load(Ordering::SeqCst) < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        stop.cancel();
        worker.await.unwrap();
        assert_eq!(begun.load(Ordering::SeqCst), 2);
    }
}
