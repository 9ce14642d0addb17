//! Money that goes back, and money that waits for its order. Steps may run anywhere, twice: the provider knows a
//! refund by its idempotency key.

use entity::refund;

use super::Provider;
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
        Ok(self.judge_orphans().await? + self.send_refunds().await?)
    }

    async fn judge_orphans(&self) -> Result<usize, Error> {
        let wait_ms =
            i64::try_from(self.inner.settings.sale.orphan_wait.as_millis()).unwrap_or(i64::MAX / 4);
        let give_up_before = self.inner.infra.clock.now_ms() - wait_ms;
        let mut judged = 0;
        for orphan in self.inner.store.orphans(BATCH).await? {
            let order = OrderId(orphan.order_id);
            let known = self.write_paid_order(order).await?;
            if !known && orphan.received_at > give_up_before {
                continue;
            }
            let recorded = self
                .inner
                .store
                .judge_orphan(&orphan, give_up_before)
                .await?;
            if matches!(recorded, Recorded::Paid | Recorded::ToRefund(_)) {
                judged += 1;
            }
            self.tell_money_again(order, recorded).await?;
        }
        Ok(judged)
    }

    async fn tell_money_again(&self, order: OrderId, recorded: Recorded) -> Result<(), Error> {
        match recorded {
            Recorded::Orphan | Recorded::Repeated => Ok(()),
            decided => self.tell_money(order, decided).await,
        }
    }

    async fn send_refunds(&self) -> Result<usize, Error> {
        let now = self.inner.infra.clock.now_ms();
        let mut sent = 0;
        for refund in self.inner.store.due_refunds(now, BATCH).await? {
            match send(&refund) {
                Ok(()) => {
                    if self.inner.store.refund_done(&refund).await? {
                        sent += 1;
                        metrics::counter!("lifemate_payments_refunded_total").increment(1);
                        self.tell_present(OrderId(refund.order_id)).await?;
                    }
                }
                Err(reason) => {
                    tracing::error!(
                        order.id = refund.order_id,
                        reason,
                        "a refund was not taken by its provider; trying again"
                    );
                    let doublings = u32::try_from(refund.attempts).unwrap_or(0).min(16);
                    let next_at = now + (RETRY_MS << doublings).min(RETRY_MOST_MS);
                    self.inner.store.refund_later(&refund, next_at).await?;
                }
            }
        }
        Ok(sent)
    }
}

/// Hands a refund to its provider. The sandbox took no money, so it gives back at once.
fn send(refund: &refund::Model) -> Result<(), &'static str> {
    match Provider::named(&refund.provider) {
        Some(Provider::Sandbox) => Ok(()),
        None => Err("this program does not know the provider"),
    }
}
