//! The end of a sale's books: when nothing can change any more, they are checked, closed in the database, and then
//! Redis is swept.

use deadpool_redis::redis::cmd;
use uuid::Uuid;

use super::recovery::LEASE_MS;
use super::rounds::Round;
use super::scripts::Inspection;
use super::{Error, Orders};
use crate::infra::ids::made_at_ms;
use crate::vouchers::{Sale, VoucherId};

/// A sale rests this long after its end, by our clock and by that of Redis, which opens and shuts the window: a click
/// of the last moment may still be on its way to the outbox.
const REST_MS: i64 = 10_000;
/// For so long after their end settled sales are looked at for keys that came back.
const LEFTOVERS_MS: i64 = 24 * 3_600 * 1_000;

impl Orders {
    /// Settles the sales that are over and quiet; returns how many. May run anywhere, twice.
    ///
    /// # Errors
    /// When a store cannot be asked.
    pub async fn settle_sales(&self) -> Result<usize, Error> {
        let now = self.inner.infra.clock.now_ms();
        let mut round = Round::of("settling sales");
        for sale in self.inner.store.open_sales().await? {
            // The end may have been moved here only a moment ago; nothing is younger than the sale itself.
            if sale.end_ms.max(made_at_ms(sale.voucher_id)) + REST_MS <= now {
                round.note(sale.voucher_id, self.settle_if_quiet(&sale).await)?;
            }
        }
        round.end()
    }

    /// Deletes keys of settled sales that came back, for example with a Redis that lost its last writes; what their
    /// outboxes hold is written before.
    ///
    /// # Errors
    /// When a store cannot be asked.
    pub async fn sweep_leftovers(&self) -> Result<usize, Error> {
        let since = self.inner.infra.clock.now_ms() - LEFTOVERS_MS;
        let mut round = Round::of("sweeping settled sales");
        for sale in self.inner.store.settled_since(since).await? {
            let swept = self.sweep_leftover(VoucherId(sale.voucher_id)).await;
            round.note(sale.voucher_id, swept)?;
        }
        round.end()
    }

    async fn sweep_leftover(&self, voucher: VoucherId) -> Result<usize, Error> {
        if self.inspect(voucher).await? == Inspection::default() {
            return Ok(0);
        }
        let mut conn = self.inner.infra.redis.line().await?.conn;
        self.apply_survivors(&mut conn, voucher).await?;
        self.drop_keys(voucher).await?;
        Ok(1)
    }

    async fn settle_if_quiet(&self, sale: &Sale) -> Result<usize, Error> {
        Ok(usize::from(
            self.is_quiet(sale).await? && self.settle_sale(sale).await?,
        ))
    }

    async fn is_quiet(&self, sale: &Sale) -> Result<bool, Error> {
        let voucher = VoucherId(sale.voucher_id);
        if !self.inner.store.is_quiet(voucher).await? {
            return Ok(false);
        }
        // Asked before the look: what the outbox does not hold after this moment, no click can put there.
        if self.redis_ms().await? < sale.end_ms + REST_MS {
            return Ok(false);
        }
        let seen = self.inspect(voucher).await?;
        let in_order = !seen.not_ready() && !seen.is_damaged() && seen.epoch == Some(sale.epoch);
        Ok(in_order
            && seen.queued() == 0
            && seen.end_ms == Some(sale.end_ms)
            && seen.orders == sale.sold
            && seen.total == Some(sale.total))
    }

    async fn settle_sale(&self, sale: &Sale) -> Result<bool, Error> {
        let voucher = VoucherId(sale.voucher_id);
        let token = Uuid::new_v4().simple().to_string();
        if !self
            .inner
            .store
            .hold_sale(voucher, &token, LEASE_MS)
            .await?
        {
            return Ok(false);
        }
        // Looked at again under the lease: a recovery may have come in between.
        let again = self.require_sale(voucher).await?;
        let settled =
            self.is_quiet(&again).await? && self.inner.store.settle_sale(voucher, &token).await?;
        self.inner.store.leave_sale(voucher, &token).await?;
        if settled {
            self.drop_card(voucher).await;
            // Anything else is left to the sweep of settled sales, which writes it first.
            if self.inspect(voucher).await?.queued() == 0 {
                self.drop_keys(voucher).await?;
            }
            tracing::info!(
                voucher.id = voucher.0,
                sale.sold = again.sold,
                "the sale is settled"
            );
            self.tell_reopened(voucher).await;
        }
        Ok(settled)
    }

    async fn drop_keys(&self, voucher: VoucherId) -> Result<(), Error> {
        let keys = self.keys(voucher).all();
        self.inner
            .infra
            .redis
            .query::<i64>(cmd("UNLINK").arg(&keys[..]))
            .await?;
        Ok(())
    }
}
