//! Many buyers in one call: a queue a voucher, served by a task that takes whatever waits. What a buyer is told is in
//! `seckill`; what Redis decides is in `lua/reserve.lua`.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use deadpool_redis::redis::ErrorKind;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use super::Orders;
use super::scripts::{Buyer, Reserved, ScriptError};
use crate::vouchers::{Money, VoucherId};

/// Buyers in one script call: a longer script makes others wait, a shorter one wastes round trips.
const BATCH: usize = 64;
/// Buyers that may wait on one node for one voucher; more are told to try later.
const QUEUE: usize = 8_192;
/// How long a call is repeated, and how long a buyer may wait for his turn.
const PATIENCE: Duration = Duration::from_secs(2);
/// An idle voucher's task ends after this long.
const IDLE: Duration = Duration::from_secs(30);
/// Pause before a call that failed is repeated.
const REPEAT_PAUSE: Duration = Duration::from_millis(50);

/// What is known of a call about one buyer.
pub(super) enum Reply {
    /// Redis answered.
    Known(Reserved),
    /// It may or may not have been done.
    Unknown,
    /// It was not done.
    Refused,
    /// It was not done, and Redis has lost its scripts: it can say nothing of the sale.
    Lost,
}

struct Waiting {
    buyer: Buyer,
    since: Instant,
    reply: oneshot::Sender<Reply>,
}

/// The queues of one node, one a voucher, and what it remembers of prices.
#[derive(Default)]
pub(crate) struct Reservations {
    queues: Mutex<HashMap<VoucherId, mpsc::Sender<Waiting>>>,
    pub(super) prices: Mutex<HashMap<VoucherId, Money>>,
}

impl Reservations {
    /// Drops what is kept of a voucher whose queue has ended, unless it has another one already.
    fn forget(&self, voucher: VoucherId) {
        let mut queues = self.queues.lock();
        if queues.get(&voucher).is_some_and(|queue| queue.is_closed()) {
            queues.remove(&voucher);
            self.prices.lock().remove(&voucher);
        }
    }
}

impl Orders {
    /// Puts a buyer into his voucher's queue and waits; `None` when the queue is full.
    pub(super) async fn ask(&self, voucher: VoucherId, buyer: Buyer) -> Option<Reply> {
        let (reply, answered) = oneshot::channel();
        let mut waiting = Waiting {
            buyer,
            since: Instant::now(),
            reply,
        };
        // A queue whose task has just ended is replaced; a second one cannot end at once.
        for _ in 0..2 {
            match self.queue(voucher).try_send(waiting) {
                Ok(()) => return Some(answered.await.unwrap_or(Reply::Unknown)),
                Err(mpsc::error::TrySendError::Full(_)) => return None,
                Err(mpsc::error::TrySendError::Closed(back)) => {
                    self.inner
                        .seckill
                        .queues
                        .lock()
                        .retain(|_, queue| !queue.is_closed());
                    waiting = back;
                }
            }
        }
        None
    }

    /// Whether somebody asked for this voucher lately.
    pub(super) fn has_queue(&self, voucher: VoucherId) -> bool {
        self.inner.seckill.queues.lock().contains_key(&voucher)
    }

    fn queue(&self, voucher: VoucherId) -> mpsc::Sender<Waiting> {
        let mut queues = self.inner.seckill.queues.lock();
        queues
            .entry(voucher)
            .or_insert_with(|| {
                let (sender, receiver) = mpsc::channel(QUEUE);
                tokio::spawn(self.clone().serve_queue(voucher, receiver));
                sender
            })
            .clone()
    }

    /// Takes whatever waits, up to a batch, into one call; an idle queue goes at once.
    async fn serve_queue(self, voucher: VoucherId, mut queue: mpsc::Receiver<Waiting>) {
        loop {
            let Ok(first) = tokio::time::timeout(IDLE, queue.recv()).await else {
                queue.close();
                // Who came between the silence and the closing is still served, and who is just putting himself in.
                while let Some(waiting) = queue.recv().await {
                    self.serve(voucher, vec![waiting]).await;
                }
                self.inner.seckill.forget(voucher);
                return;
            };
            let Some(first) = first else { return };
            let mut batch = vec![first];
            while batch.len() < BATCH
                && let Ok(waiting) = queue.try_recv()
            {
                batch.push(waiting);
            }
            self.serve(voucher, batch).await;
        }
    }

    async fn serve(&self, voucher: VoucherId, batch: Vec<Waiting>) {
        let (batch, late): (Vec<_>, Vec<_>) = batch
            .into_iter()
            .partition(|w| w.since.elapsed() < PATIENCE);
        for waiting in late {
            let _ = waiting.reply.send(Reply::Refused);
        }
        if batch.is_empty() {
            return;
        }
        let (buyers, replies): (Vec<_>, Vec<_>) =
            batch.into_iter().map(|w| (w.buyer, w.reply)).unzip();
        metrics::histogram!("lifemate_seckill_batch_size")
            .record(f64::from(u32::try_from(buyers.len()).unwrap_or(u32::MAX)));
        for (reply, to) in self
            .reserve_for(voucher, &buyers)
            .await
            .into_iter()
            .zip(replies)
        {
            // The buyer's task waits to its end; should it be gone, the order is in the outbox.
            let _ = to.send(reply);
        }
    }

    /// One call, repeated with the same ids while its outcome is unknown. What was once unknown and then refused
    /// stays unknown: the first call may still arrive.
    async fn reserve_for(&self, voucher: VoucherId, buyers: &[Buyer]) -> Vec<Reply> {
        let (began, mut unknown, mut lost) = (Instant::now(), false, false);
        loop {
            match self.reserve_once(voucher, buyers).await {
                Ok(answers) => return answers.into_iter().map(|a| known(a, unknown)).collect(),
                Err(ScriptError::NoScript) => {
                    lost = true;
                    break;
                }
                Err(ScriptError::Redis(e)) if !may_have_run(&e) => {
                    if began.elapsed() > PATIENCE {
                        break;
                    }
                }
                Err(e) => {
                    tracing::debug!(error = %e, "a reservation's outcome is unknown; asking again");
                    unknown = true;
                    if began.elapsed() > PATIENCE {
                        break;
                    }
                }
            }
            tokio::time::sleep(REPEAT_PAUSE).await;
        }
        buyers
            .iter()
            .map(|_| match (unknown, lost) {
                (true, _) => Reply::Unknown,
                (false, true) => Reply::Lost,
                (false, false) => Reply::Refused,
            })
            .collect()
    }
}

fn known(reserved: Reserved, was_unknown: bool) -> Reply {
    match reserved {
        // "Already, by the same request" is this very order, or an earlier one of it.
        Reserved::Ok { .. } | Reserved::Already { .. } => Reply::Known(reserved),
        _ if was_unknown => Reply::Unknown,
        _ => Reply::Known(reserved),
    }
}

/// Whether a call that failed like this may have been executed: an error that Redis itself answered says no.
fn may_have_run(error: &deadpool_redis::redis::RedisError) -> bool {
    !(matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension)
        || error.is_connection_refusal())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_kept_of_a_voucher_whose_queue_has_ended() {
        let kept = Reservations::default();
        let (ended, alive) = (VoucherId(1), VoucherId(2));
        let (sender, _) = mpsc::channel(1);
        kept.queues.lock().insert(ended, sender);
        let (sender, _receiver) = mpsc::channel(1);
        kept.queues.lock().insert(alive, sender);
        kept.forget(ended);
        kept.forget(alive);
        assert_eq!(kept.queues.lock().keys().collect::<Vec<_>>(), [&alive]);
    }
}
