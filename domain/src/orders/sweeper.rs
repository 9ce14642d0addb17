//! Applies outbox entries that the bus has not brought: the whole path while Kafka is down, and the net under
//! everything else. One sweeper a voucher at a time; two would only do double work.

use std::time::Duration;

use deadpool_redis::redis::{cmd, pipe};
use entity::dead_letter::DeadLetterSource;
use entity::writer_progress;
use sea_orm::EntityTrait;

use super::queued::{BadPayload, QueuedOrderV1};
use super::rounds::Round;
use super::writer::BATCH;
use super::{Error, OrderId, OrderKey, Orders, money};
use crate::infra::bus::Bus;
use crate::infra::ids::made_at_ms;
use crate::users::UserId;
use crate::vouchers::{Sale, VoucherId};

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
        let mut round = Round::of("sweeping outboxes");
        for sale in self.inner.store.open_sales().await? {
            round.note(sale.voucher_id, self.sweep_sale(&sale).await)?;
        }
        round.end()
    }

    async fn sweep_sale(&self, sale: &Sale) -> Result<usize, Error> {
        let voucher = VoucherId(sale.voucher_id);
        let outbox = self.keys(voucher).outbox();
        let kind: String = self
            .inner
            .infra
            .redis
            .query(cmd("TYPE").arg(&outbox))
            .await?;
        // Of another kind it is damaged, and the gauge sees that too.
        if kind != "hash" {
            return Ok(0);
        }
        let size = cmd("HLEN").arg(outbox).to_owned();
        if self.inner.infra.redis.query::<i64>(&size).await? <= 1 {
            return Ok(0);
        }
        let oldest = self.redis_ms().await? - self.threshold_ms(voucher).await?;
        let mut conn = self.inner.infra.redis.line().await?.conn;
        let mut late = Vec::new();
        for (order, payload) in self.scan_outbox(&mut conn, voucher).await? {
            match QueuedOrderV1::parse(&payload) {
                Ok(item) if item.reserved_at <= oldest => late.push(item),
                // Whoever wrote a later version reads it too.
                Ok(_) | Err(BadPayload::Version(_)) => {}
                Err(_) if made_at(&order).is_some_and(|at| at > oldest) => {}
                Err(e) => {
                    self.bury_entry(sale, &order, &e.to_string(), &payload)
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
        let db = self.inner.infra.db.clone();
        let progress = writer_progress::Entity::find_by_id(partition);
        let progress = self
            .inner
            .infra
            .db
            .run(async move { progress.one(db.conn()).await })
            .await?;
        let now = self.inner.infra.clock.now_ms();
        let moves = progress.is_some_and(|p| now - p.committed_at < WRITER_STANDS_MS);
        Ok(if moves {
            WRITER_MOVES_MS
        } else {
            WRITER_STANDS_MS
        })
    }

    /// An entry that cannot be decoded is kept as a dead letter, and its order is rejected: the database says so first,
    /// for it may know the order. The entry goes last, so that a step which failed is made again.
    async fn bury_entry(
        &self,
        sale: &Sale,
        field: &str,
        reason: &str,
        payload: &[u8],
    ) -> Result<(), Error> {
        self.bury(DeadLetterSource::Outbox, field, reason, payload)
            .await?;
        let voucher = VoucherId(sale.voucher_id);
        match field.parse::<OrderId>() {
            Ok(order) => {
                if self.reject_unreadable(sale, order).await? {
                    self.settle(voucher, &[order]).await?;
                }
            }
            Err(_) => {
                let drop = cmd("HDEL")
                    .arg(self.keys(voucher).outbox())
                    .arg(field)
                    .to_owned();
                self.inner.infra.redis.query::<i64>(&drop).await?;
            }
        }
        Ok(())
    }

    /// Rejects an order of which only its unit is known; `false` when that cannot be told now.
    async fn reject_unreadable(&self, sale: &Sale, order: OrderId) -> Result<bool, Error> {
        let voucher = VoucherId(sale.voucher_id);
        let keys = self.keys(voucher);
        let mut look = pipe();
        look.hget(keys.meta(), "epoch").hget(keys.orders(), order.0);
        let (epoch, unit): (Option<i64>, Option<String>) =
            self.inner.infra.redis.query_pipe(&look).await?;
        let Some(epoch) = epoch else { return Ok(false) };
        let buyer = unit.and_then(|unit| unit.split(':').next()?.parse::<UserId>().ok());
        // Without a unit there is nothing to give back, and nobody to tell.
        let Some(buyer) = buyer else { return Ok(true) };
        let key = OrderKey {
            order,
            voucher,
            buyer,
        };
        let price = money(sale.price_minor, &sale.currency)?;
        Ok(self.bar(key, &price, epoch).await?.is_some())
    }
}

fn made_at(order: &str) -> Option<i64> {
    order.parse::<OrderId>().ok().map(|o| made_at_ms(o.0))
}

/// How often the outboxes are looked at: often when they are the queue, rarely when Kafka is.
pub(crate) fn period(bus: &Bus) -> Duration {
    match bus {
        Bus::Kafka(_) => Duration::from_secs(1),
        Bus::InProcess(_) => Duration::from_millis(250),
    }
}
