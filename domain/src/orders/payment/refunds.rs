//! Money that goes back, and money that waits for its order. Steps may run anywhere, twice: the provider knows a
//! refund by its idempotency key.

use entity::{payment, refund};

use super::Provider;
use crate::orders::rounds::Round;
use crate::orders::store::Recorded;
use crate::orders::{Error, OrderId, Orders};

/// Rows taken in one run.
const BATCH: u64 = 200;
const RETRY_MS: i64 = 1_000;
const RETRY_MOST_MS: i64 = 5 * 60_000;

impl Orders {
    /// Judges orphans again and sends due refunds; returns how much moved.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn work_on_payments(&self) -> Result<usize, Error> {
        let judged = self.judge_orphans().await;
        Ok(self.send_refunds().await? + judged?)
    }

    async fn judge_orphans(&self) -> Result<usize, Error> {
        let wait_ms =
            i64::try_from(self.inner.settings.sale.orphan_wait.as_millis()).unwrap_or(i64::MAX / 4);
        let give_up_before = self.inner.infra.clock.now_ms() - wait_ms;
        let (mut round, mut after) = (Round::of("judging orphans"), None);
        loop {
            // Page by page: those that have to wait must not keep the rest from being looked at.
            let page = self.inner.store.orphans(after, BATCH).await?;
            let Some(last) = page.last() else {
                return round.end();
            };
            after = Some((last.received_at, last.id));
            for orphan in page {
                let judged = self.judge_orphan(&orphan, give_up_before).await;
                round.note(orphan.id, judged)?;
            }
        }
    }

    async fn judge_orphan(
        &self,
        orphan: &payment::Model,
        give_up_before: i64,
    ) -> Result<usize, Error> {
        let order = OrderId(orphan.order_id);
        let known = self.write_paid_order(order).await?;
        if !known && orphan.received_at > give_up_before {
            return Ok(0);
        }
        let recorded = self
            .inner
            .store
            .judge_orphan(orphan, give_up_before)
            .await?;
        self.tell_money_again(order, recorded).await?;
        Ok(usize::from(matches!(
            recorded,
            Recorded::Paid | Recorded::ToRefund(_)
        )))
    }

    async fn tell_money_again(&self, order: OrderId, recorded: Recorded) -> Result<(), Error> {
        match recorded {
            Recorded::Orphan | Recorded::Repeated => Ok(()),
            decided => self.tell_money(order, decided).await,
        }
    }

    async fn send_refunds(&self) -> Result<usize, Error> {
        let now = self.inner.infra.clock.now_ms();
        let mut round = Round::of("sending refunds");
        for refund in self.inner.store.due_refunds(now, BATCH).await? {
            round.note(refund.id, self.send_refund(&refund, now).await)?;
        }
        round.end()
    }

    async fn send_refund(&self, refund: &refund::Model, now: i64) -> Result<usize, Error> {
        if let Err(reason) = send(refund) {
            tracing::error!(
                order.id = refund.order_id,
                reason,
                "a refund was not taken by its provider; trying again"
            );
            let doublings = u32::try_from(refund.attempts).unwrap_or(0).min(16);
            let next_at = now + (RETRY_MS << doublings).min(RETRY_MOST_MS);
            self.inner.store.refund_later(refund, next_at).await?;
            return Ok(0);
        }
        if !self.inner.store.refund_done(refund).await? {
            return Ok(0);
        }
        metrics::counter!("lifemate_payments_refunded_total").increment(1);
        self.tell_present(OrderId(refund.order_id)).await?;
        Ok(1)
    }
}

/// Hands a refund to its provider. The sandbox took no money, so it gives back at once.
fn send(refund: &refund::Model) -> Result<(), &'static str> {
    match Provider::named(&refund.provider) {
        Some(Provider::Sandbox) => Ok(()),
        None => Err("this program does not know the provider"),
    }
}
