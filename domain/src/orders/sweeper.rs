//! Applies outbox entries that the bus has not brought: the whole path while Kafka is down, and the net under
//! everything else. One sweeper a voucher at a time; two would only do double work.

use std::time::Duration;

use deadpool_redis::redis::cmd;
use entity::dead_letter::DeadLetterSource;
use entity::writer_progress;
use sea_orm::EntityTrait;

use super::queued::QueuedOrderV1;
use super::writer::BATCH;
use super::{Error, OrderId, Orders};
use crate::infra::bus::Bus;
use crate::users::UserId;
use crate::vouchers::VoucherId;

/// How long the writer has for an order while it moves.
const WRITER_MOVES_MS: i64 = 60_000;
/// How long it has once it stands still, and how long a silence counts as standing still.
const WRITER_STANDS_MS: i64 = 10_000;
/// The in-process channel delivers at once; what is older than this never went through it.
const IN_PROCESS_MS: i64 = 500;
const LEASE_MS: i64 = 10_000;

impl Orders {
    /// Applies what has waited too long in the outboxes; returns how many entries. May run anywhere, twice.
    ///
    /// # Errors
    /// When a store cannot be asked.
    pub async fn sweep(&self) -> Result<usize, Error> {
        let mut swept = 0;
        for sale in self.inner.store.open_sales().await? {
            swept += self.sweep_sale(VoucherId(sale.voucher_id)).await?;
        }
        Ok(swept)
    }

    async fn sweep_sale(&self, voucher: VoucherId) -> Result<usize, Error> {
        let size = cmd("HLEN").arg(self.keys(voucher).outbox()).to_owned();
        if self.inner.infra.redis.query::<i64>(&size).await? <= 1 {
            return Ok(0);
        }
        let (seconds, micros): (i64, i64) = self.inner.infra.redis.query(&cmd("TIME")).await?;
        let oldest = seconds * 1_000 + micros / 1_000 - self.threshold_ms(voucher).await?;
        let mut conn = self.inner.infra.redis.line().await?.conn;
        let mut late = Vec::new();
        for (order, payload) in self.scan_outbox(&mut conn, voucher).await? {
            match QueuedOrderV1::parse(&payload) {
                Ok(item) if item.reserved_at <= oldest => late.push(item),
                Ok(_) => {}
                Err(e) => {
                    self.bury_entry(voucher, &order, &e.to_string(), &payload)
                        .await?
                }
            }
        }
        let name = format!("sweep:{voucher}");
        if late.is_empty() || !self.inner.leases.hold(&name, LEASE_MS).await? {
            return Ok(0);
        }
        late.sort_by_key(|item| item.order_id);
        for batch in late.chunks(BATCH) {
            self.apply_all(batch.to_vec()).await?;
            self.inner.leases.hold(&name, LEASE_MS).await?;
        }
        metrics::counter!("lifemate_seckill_swept_total").increment(late.len() as u64);
        self.inner.leases.release(&name).await?;
        Ok(late.len())
    }

    async fn threshold_ms(&self, voucher: VoucherId) -> Result<i64, Error> {
        let Bus::Kafka(bus) = &self.inner.infra.bus else {
            return Ok(IN_PROCESS_MS);
        };
        let Some(partition) = bus.partition_of(voucher.0) else {
            return Ok(WRITER_STANDS_MS);
        };
        let progress = writer_progress::Entity::find_by_id(partition)
            .one(self.inner.infra.db.conn())
            .await?;
        let now = self.inner.infra.clock.now_ms();
        let moves = progress.is_some_and(|p| now - p.committed_at < WRITER_STANDS_MS);
        Ok(if moves {
            WRITER_MOVES_MS
        } else {
            WRITER_STANDS_MS
        })
    }

    /// An entry that cannot be decoded is kept as a dead letter and its unit goes back; nobody will place it.
    async fn bury_entry(
        &self,
        voucher: VoucherId,
        order: &str,
        reason: &str,
        payload: &[u8],
    ) -> Result<(), Error> {
        self.bury(DeadLetterSource::Outbox, order, reason, payload)
            .await?;
        if let Ok(order) = order.parse::<OrderId>() {
            self.settle(voucher, &[order]).await?;
            // Redis itself knows whose it is.
            self.release(voucher, (order, UserId(0)), true).await?;
        }
        Ok(())
    }
}

/// How often the outboxes are looked at: often when they are the queue, rarely when Kafka is.
pub(crate) fn period(bus: &Bus) -> Duration {
    match bus {
        Bus::Kafka(_) => Duration::from_secs(1),
        Bus::InProcess(_) => Duration::from_millis(250),
    }
}
