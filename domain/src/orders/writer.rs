//! Writes queued orders into the database: the consumer of the bus, and the step it shares with everybody who
//! finds an order in the outbox. It decides nothing: `apply` does.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use entity::dead_letter::{self, DeadLetterSource};
use entity::writer_progress;
use sea_orm::sea_query::OnConflict;
use sea_orm::{ActiveValue::Set, ColumnTrait, DbErr, EntityTrait, PaginatorTrait, QueryFilter};
use sha1::{Digest, Sha1};
use tokio_util::sync::CancellationToken;

use super::apply::Outcome;
use super::queued::QueuedOrderV1;
use super::{Error, Order, OrderId, Orders};
use crate::infra::bus::{Bus, Delivery, InProcessBus, KafkaBus, KafkaReader};
use crate::infra::db::is_constraint_violation;
use crate::settings::GroupProtocol;
use crate::vouchers::VoucherId;

/// Messages written in one transaction: more hold the sale's lock too long, fewer waste commits.
pub(crate) const BATCH: usize = 500;
/// How long a batch waits for more messages.
const LINGER: Duration = Duration::from_millis(20);
/// Pause before a failed batch is tried again; the messages stay in hand.
const RETRY_PAUSE: Duration = Duration::from_millis(200);
const RETRY_PAUSE_MOST: Duration = Duration::from_secs(2);
/// After this long without success the group is left, so that another member may try; far below the broker's limit
/// for a silent member (5 min).
const GIVE_UP_AFTER: Duration = Duration::from_secs(60);
/// How often a partition's progress is noted at the most.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);
/// Longest part of a dead payload that is kept, in bytes; MariaDB's `text` holds 65,535.
const DEAD_BYTES: usize = 60_000;

/// What one batch came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Rows written now.
    pub inserted: usize,
    /// Orders that had their row before.
    pub repeated: usize,
    /// Orders that could not be placed.
    pub rejected: usize,
    /// Payloads that nobody can use.
    pub dead: usize,
}

impl Orders {
    /// Writes payloads as the bus delivered them. May run twice with the same ones.
    ///
    /// # Errors
    /// When the database fails; then nothing was written and the payloads must come again.
    pub async fn write(&self, deliveries: &[Delivery]) -> Result<Written, Error> {
        let mut items = Vec::with_capacity(deliveries.len());
        let mut dead = Vec::new();
        for delivery in deliveries {
            match QueuedOrderV1::parse(&delivery.payload) {
                Ok(item) => items.push(item),
                Err(e) => dead.push((delivery, e)),
            }
        }
        let outcomes = self.apply_all(items).await?;
        // After their neighbours, which are worth more; a batch that comes again finds what is buried already.
        for (delivery, e) in &dead {
            let (place, payload) = (place_of(delivery), &delivery.payload);
            self.bury(DeadLetterSource::Kafka, &place, &e.to_string(), payload)
                .await?;
        }
        let count = |wanted: fn(&Outcome) -> bool| outcomes.iter().filter(|o| wanted(o)).count();
        Ok(Written {
            inserted: count(|o| matches!(o, Outcome::Inserted(_))),
            repeated: count(|o| matches!(o, Outcome::DoneBefore(_) | Outcome::Closed(_))),
            rejected: count(|o| matches!(o, Outcome::Rejected(_))),
            dead: dead.len() + count(|o| matches!(o, Outcome::NoSale | Outcome::Refused)),
        })
    }

    /// Applies queued orders, drops their outbox entries and tells who watches. May run twice with the same ones.
    ///
    /// # Errors
    /// When the database fails. Trouble of Redis afterwards is not one: the sweeper finds what is left.
    pub async fn apply_all(&self, items: Vec<QueuedOrderV1>) -> Result<Vec<Outcome>, Error> {
        let outcomes = match self.inner.store.apply(&items).await {
            Err(e) if is_constraint_violation(&e) => {
                tracing::error!(error = %e, "a constraint refused orders that the rules let through; they are tried singly");
                self.apply_singly(&items).await?
            }
            result => result?,
        };
        self.note_outcomes(&items, &outcomes).await?;
        self.settle_outbox(&items, &outcomes).await;
        let mut changed = Vec::new();
        for outcome in &outcomes {
            match outcome {
                Outcome::Inserted(row) => changed.push(Order::from_row(row, None)?),
                Outcome::Rejected(row) => changed.push(Order::from_reject(row, None)?),
                _ => {}
            }
        }
        self.publish_changes(&changed).await;
        Ok(outcomes)
    }

    /// Keeps a payload that nobody can use, for a person to look at; once, however often it is found at its place.
    pub(crate) async fn bury(
        &self,
        source: DeadLetterSource,
        place: &str,
        reason: &str,
        payload: &[u8],
    ) -> Result<(), DbErr> {
        let reference: String = place.chars().take(200).collect();
        let row = dead_letter::ActiveModel {
            source: Set(source),
            reference: Set(reference.clone()),
            reason: Set(reason.chars().take(200).collect()),
            payload: Set(kept_of(payload)),
            created_at: Set(self.inner.infra.clock.now_ms()),
            ..Default::default()
        };
        let db = self.inner.infra.db.clone();
        let bury = async move {
            let known = dead_letter::Entity::find()
                .filter(dead_letter::Column::Reference.eq(reference))
                .filter(dead_letter::Column::Source.eq(source))
                .count(db.conn())
                .await?;
            if known == 0 {
                dead_letter::Entity::insert(row)
                    .exec_without_returning(db.conn())
                    .await?;
            }
            Ok(known == 0)
        };
        if self.inner.infra.db.run(bury).await? {
            tracing::error!(%reason, place, "a queued order cannot be used and is kept as a dead letter");
            metrics::counter!("lifemate_seckill_dead_letters_total").increment(1);
        }
        Ok(())
    }

    /// Reads the bus until `stop`, and finishes the batch in hand.
    pub(crate) async fn run_writer(&self, stop: CancellationToken) {
        match &self.inner.infra.bus {
            Bus::Kafka(bus) => self.run_kafka_writer(bus, stop).await,
            Bus::InProcess(bus) => self.run_in_process_writer(bus, stop).await,
        }
    }

    async fn run_in_process_writer(&self, bus: &InProcessBus, stop: CancellationToken) {
        bus.set_read(true);
        loop {
            let batch = tokio::select! {
                () = stop.cancelled() => break,
                batch = bus.next_batch(BATCH) => batch,
            };
            // What cannot be written in a minute is left to the sweeper, which asks the outbox.
            self.write_until_done(&batch, &stop).await;
        }
        bus.set_read(false);
        loop {
            let batch = bus.rest(BATCH).await;
            if batch.is_empty() || !self.write_until_done(&batch, &stop).await {
                return;
            }
        }
    }

    async fn run_kafka_writer(&self, bus: &KafkaBus, stop: CancellationToken) {
        let mut protocol = bus.group_protocol();
        while !stop.is_cancelled() {
            if let Err(e) = bus.prepare().await {
                tracing::debug!(error = %e, "the topic cannot be prepared yet");
                pause(RETRY_PAUSE_MOST, &stop).await;
                continue;
            }
            let reader = match bus.reader(protocol) {
                Ok(reader) => reader,
                Err(e) => {
                    tracing::error!(error = %e, "the kafka reader cannot be made");
                    pause(RETRY_PAUSE_MOST, &stop).await;
                    continue;
                }
            };
            protocol = self.read_kafka(&reader, protocol, &stop).await;
            reader.close().await;
        }
    }

    /// Reads until `stop`, or until the reader must be made anew; returns the protocol to use then.
    async fn read_kafka(
        &self,
        reader: &KafkaReader,
        protocol: GroupProtocol,
        stop: &CancellationToken,
    ) -> GroupProtocol {
        let mut progress = HashMap::new();
        loop {
            let batch = tokio::select! {
                () = stop.cancelled() => return protocol,
                batch = reader.next_batch(BATCH, LINGER) => batch,
            };
            match batch {
                Ok(batch) => {
                    if !self.write_until_done(&batch, stop).await {
                        return protocol;
                    }
                    self.note_progress(&batch, &mut progress).await;
                    if let Err(e) = reader.done(&batch) {
                        tracing::debug!(error = %e, "the offsets were not stored; the messages come again");
                    }
                }
                Err(e)
                    if protocol == GroupProtocol::Auto && crate::infra::bus::is_unsupported(&e) =>
                {
                    tracing::info!(
                        "the broker lacks the new group protocol: using the classic one"
                    );
                    return GroupProtocol::Classic;
                }
                Err(e) => {
                    tracing::warn!(error = %e, "kafka cannot be read");
                    pause(RETRY_PAUSE, stop).await;
                }
            }
        }
    }

    /// Writes a batch, again and again while the database fails; `false` when it gave up.
    async fn write_until_done(&self, batch: &[Delivery], stop: &CancellationToken) -> bool {
        let (began, mut wait) = (Instant::now(), RETRY_PAUSE);
        loop {
            match self.write(batch).await {
                Ok(_) => return true,
                Err(e) => {
                    tracing::warn!(error = %e, orders = batch.len(), "orders could not be written; trying again");
                    metrics::counter!("lifemate_seckill_write_failures_total").increment(1);
                }
            }
            if stop.is_cancelled() || began.elapsed() > GIVE_UP_AFTER {
                return false;
            }
            pause(wait, stop).await;
            wait = (wait * 2).min(RETRY_PAUSE_MOST);
        }
    }

    async fn apply_singly(&self, items: &[QueuedOrderV1]) -> Result<Vec<Outcome>, DbErr> {
        let mut outcomes = Vec::with_capacity(items.len());
        for item in items {
            match self.inner.store.apply(std::slice::from_ref(item)).await {
                Ok(mut one) => outcomes.append(&mut one),
                Err(e) if is_constraint_violation(&e) => {
                    self.bury(
                        DeadLetterSource::Outbox,
                        &item.order_id.to_string(),
                        &e.to_string(),
                        &item.to_bytes(),
                    )
                    .await?;
                    outcomes.push(Outcome::Refused);
                }
                Err(e) => return Err(e),
            }
        }
        Ok(outcomes)
    }

    async fn note_outcomes(
        &self,
        items: &[QueuedOrderV1],
        outcomes: &[Outcome],
    ) -> Result<(), DbErr> {
        for (item, outcome) in items.iter().zip(outcomes) {
            let label = match outcome {
                Outcome::Inserted(_) => "inserted",
                Outcome::DoneBefore(_) => "done_before",
                Outcome::Closed(_) => "closed_before",
                Outcome::Rejected(_) => "rejected",
                Outcome::Foreign => "foreign",
                Outcome::NoSale => "no_sale",
                Outcome::Refused => "refused",
            };
            metrics::counter!("lifemate_seckill_applied_total", "outcome" => label).increment(1);
            match outcome {
                Outcome::NoSale => {
                    self.bury(
                        DeadLetterSource::Kafka,
                        &item.order_id.to_string(),
                        "there is no such sale",
                        &item.to_bytes(),
                    )
                    .await?;
                }
                Outcome::Foreign => tracing::error!(
                    order.id = item.order_id,
                    "an order id belongs to another user: nothing was written"
                ),
                Outcome::Rejected(row) => {
                    tracing::warn!(order.id = item.order_id, reason = ?row.reason, "a queued order could not be placed");
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Drops the outbox entries of decided orders, one call a voucher: also of those that nobody can use, for they are
    /// kept as dead letters and would come again for ever. One that a constraint refused stays: it has neither row nor
    /// reject, so its unit would be lost, and a program without that bug may write it yet.
    async fn settle_outbox(&self, items: &[QueuedOrderV1], outcomes: &[Outcome]) {
        let mut settled: HashMap<VoucherId, Vec<OrderId>> = HashMap::new();
        let decided = items
            .iter()
            .zip(outcomes)
            .filter(|(_, outcome)| !matches!(outcome, Outcome::Refused));
        for (item, _) in decided {
            settled
                .entry(VoucherId(item.voucher_id))
                .or_default()
                .push(OrderId(item.order_id));
        }
        for (voucher, orders) in settled {
            if let Err(e) = self.settle(voucher, &orders).await {
                tracing::debug!(error = %e, "outbox entries of written orders stay for the sweeper");
            }
        }
    }

    async fn note_progress(&self, batch: &[Delivery], noted: &mut HashMap<i32, Instant>) {
        let now = self.inner.infra.clock.now_ms();
        for partition in batch.iter().filter_map(|d| d.position.map(|p| p.partition)) {
            if noted
                .get(&partition)
                .is_some_and(|at| at.elapsed() < PROGRESS_EVERY)
            {
                continue;
            }
            noted.insert(partition, Instant::now());
            let row = writer_progress::ActiveModel {
                partition_id: Set(partition),
                committed_at: Set(now),
            };
            let upsert = OnConflict::column(writer_progress::Column::PartitionId)
                .update_column(writer_progress::Column::CommittedAt)
                .to_owned();
            let db = self.inner.infra.db.clone();
            let insert = writer_progress::Entity::insert(row).on_conflict(upsert);
            let noted = self
                .inner
                .infra
                .db
                .run(async move { insert.exec_without_returning(db.conn()).await.map(|_| ()) })
                .await;
            if let Err(e) = noted {
                tracing::debug!(error = %e, "the writer's progress was not noted");
            }
        }
    }
}

/// Where a delivery is found again: in Kafka by its position, else by what it holds.
fn place_of(delivery: &Delivery) -> String {
    match delivery.position {
        Some(p) => format!("{}/{}", p.partition, p.offset),
        None => format!("bus:{}", hex::encode(Sha1::digest(&delivery.payload))),
    }
}

/// The part of a dead payload that is kept: text that every database takes, of at most `DEAD_BYTES` bytes.
fn kept_of(payload: &[u8]) -> String {
    let start = &payload[..payload.len().min(DEAD_BYTES)];
    // What is no text becomes longer by the conversion, so that the cut comes after it.
    let mut kept = String::from_utf8_lossy(start).replace('\0', "\u{fffd}");
    kept.truncate(kept.floor_char_boundary(DEAD_BYTES));
    kept
}

pub(crate) async fn pause(time: Duration, stop: &CancellationToken) {
    tokio::select! {
        () = tokio::time::sleep(time) => {}
        () = stop.cancelled() => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_of_a_dead_payload_fits_every_database() {
        assert_eq!(kept_of(b"{\"v\":1}"), "{\"v\":1}");
        assert_eq!(kept_of(b"a\0b"), "a\u{fffd}b");
        for payload in [vec![0xff; 100_000], vec![0; 100_000], vec![b'x'; 100_000]] {
            let kept = kept_of(&payload);
            assert!(kept.len() <= DEAD_BYTES && kept.len() > DEAD_BYTES - 4);
        }
    }
}
