//! The end of a sale's books: when nothing can change any more, they are checked, closed in the database, and then
//! Redis is swept.

use deadpool_redis::redis::cmd;
use uuid::Uuid;

use super::recovery::LEASE_MS;
use super::{Error, Orders};
use crate::infra::ids::made_at_ms;
use crate::vouchers::{Sale, VoucherId};

/// A sale rests this long after its end: a click of the last moment may still be on its way to the outbox.
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
        let mut settled = 0;
        for sale in self.inner.store.open_sales().await? {
            // The end may have been moved here only a moment ago; nothing is younger than the sale itself.
            let over = sale.end_ms.max(made_at_ms(sale.voucher_id)) + REST_MS <= now;
            if over && self.is_quiet(&sale).await? && self.settle_sale(&sale).await? {
                settled += 1;
            }
        }
        Ok(settled)
    }

    /// Deletes keys of settled sales that came back, for example with a Redis that lost its last writes.
    ///
    /// # Errors
    /// When a store cannot be asked.
    pub async fn sweep_leftovers(&self) -> Result<usize, Error> {
        let since = self.inner.infra.clock.now_ms() - LEFTOVERS_MS;
        let mut swept = 0;
        for sale in self.inner.store.settled_since(since).await? {
            let seen = self.inspect(VoucherId(sale.voucher_id)).await?;
            if seen != super::scripts::Inspection::default() {
                self.drop_keys(VoucherId(sale.voucher_id)).await?;
                swept += 1;
            }
        }
        Ok(swept)
    }

    async fn is_quiet(&self, sale: &Sale) -> Result<bool, Error> {
        let voucher = VoucherId(sale.voucher_id);
        if !self.inner.store.is_quiet(voucher).await? {
            return Ok(false);
        }
        let seen = self.inspect(voucher).await?;
        let in_order = !seen.not_ready() && !seen.is_damaged() && seen.epoch == Some(sale.epoch);
        Ok(in_order
            && seen.queued() == 0
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
            self.drop_keys(voucher).await?;
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
