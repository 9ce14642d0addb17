//! Gives units of closed and rejected orders back to Redis. The record in the database is the work list; the
//! order's presence in Redis is the token, so that a unit comes back once however often this runs.

use std::collections::{BTreeMap, HashMap};

use entity::giveback::{self, GivebackKind};
use entity::sale::SaleStage;

use super::rounds::Round;
use super::scripts::Released;
use super::{Error, OrderId, Orders};
use crate::users::UserId;
use crate::vouchers::VoucherId;

/// Givebacks taken in one run.
const BATCH: u64 = 500;
/// First pause after a refusal; doubled each time.
const RETRY_MS: i64 = 200;
const RETRY_MOST_MS: i64 = 30_000;
/// A giveback refused this often is reported.
const ALARM_AFTER: i32 = 20;

type ByEpoch<'a> = HashMap<i64, Vec<&'a giveback::Model>>;
type ByAttempts = BTreeMap<i32, Vec<OrderId>>;

impl Orders {
    /// Does the givebacks that are due; returns how many were done. May run anywhere, twice.
    ///
    /// # Errors
    /// When the database fails. Redis' refusals only put givebacks off.
    pub async fn give_back_due(&self) -> Result<usize, Error> {
        let now = self.inner.infra.clock.now_ms();
        let due = self.inner.store.due_givebacks(now, BATCH).await?;
        let mut by_voucher: BTreeMap<i64, Vec<giveback::Model>> = BTreeMap::new();
        for giveback in due {
            by_voucher
                .entry(giveback.voucher_id)
                .or_default()
                .push(giveback);
        }
        let mut round = Round::of("giving units back");
        for (voucher, givebacks) in by_voucher {
            let done = self.give_back(VoucherId(voucher), &givebacks).await;
            round.note(voucher, done)?;
        }
        round.end()
    }

    async fn give_back(
        &self,
        voucher: VoucherId,
        givebacks: &[giveback::Model],
    ) -> Result<usize, Error> {
        let settled = self
            .inner
            .store
            .sale(voucher)
            .await?
            .is_none_or(|s| s.stage == SaleStage::Settled);
        if settled {
            let rounds: Vec<_> = givebacks
                .iter()
                .map(|g| (OrderId(g.order_id), g.round))
                .collect();
            let done = self.inner.store.givebacks_done(voucher, &rounds, None);
            return Ok(usize::try_from(done.await?).unwrap_or(0));
        }
        let (released, mut refused) = self.release_each(voucher, givebacks).await;
        let mut done = 0;
        for (epoch, released) in released {
            let rounds: Vec<_> = released
                .iter()
                .map(|g| (OrderId(g.order_id), g.round))
                .collect();
            let taken = self
                .inner
                .store
                .givebacks_done(voucher, &rounds, Some(epoch))
                .await?;
            if taken < rounds.len() as u64 {
                // Redis is in another epoch than the database: they would come again at once, before all others. Those
                // that were taken are not pending any more, and stay as they are.
                for giveback in released {
                    let order = OrderId(giveback.order_id);
                    refused.entry(giveback.attempts).or_default().push(order);
                }
            }
            done += taken;
        }
        self.put_off(&refused).await?;
        if done > 0 {
            metrics::counter!("lifemate_orders_givebacks_total").increment(done);
            self.tell_reopened(voucher).await;
        }
        Ok(usize::try_from(done).unwrap_or(0))
    }

    /// Asks Redis for each of them: those that it gave back by the epoch it did so in, and those it did not, by how
    /// often that happened before.
    async fn release_each<'a>(
        &self,
        voucher: VoucherId,
        givebacks: &'a [giveback::Model],
    ) -> (ByEpoch<'a>, ByAttempts) {
        let mut released = ByEpoch::new();
        let mut refused = ByAttempts::new();
        for giveback in givebacks {
            let order = OrderId(giveback.order_id);
            match self
                .release(
                    voucher,
                    (order, UserId(giveback.user_id)),
                    giveback.kind == GivebackKind::Reject,
                )
                .await
            {
                Ok(Released::Done { epoch, .. }) => {
                    released.entry(epoch).or_default().push(giveback)
                }
                Ok(Released::NotReady) => refused.entry(giveback.attempts).or_default().push(order),
                Err(e) => {
                    tracing::debug!(error = %e, order.id = order.0, "a unit cannot be given back now");
                    refused.entry(giveback.attempts).or_default().push(order);
                }
            }
        }
        (released, refused)
    }

    async fn put_off(&self, refused: &ByAttempts) -> Result<(), Error> {
        for (attempts, orders) in refused {
            if *attempts >= ALARM_AFTER {
                tracing::error!(
                    orders = orders.len(),
                    attempts,
                    "units have not been given back for long"
                );
            }
            let doublings = u32::try_from(*attempts).unwrap_or(0).min(16);
            let wait = (RETRY_MS << doublings).min(RETRY_MOST_MS);
            let next_at = self.inner.infra.clock.now_ms() + wait;
            self.inner.store.givebacks_later(orders, next_at).await?;
        }
        Ok(())
    }
}
