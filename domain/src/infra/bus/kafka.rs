//! The Kafka bus: an idempotent producer that waits for all replicas, and a reader that stores offsets only when
//! told. Blocking calls of librdkafka run on threads of their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::{ClientContext, DefaultClientContext};
use rdkafka::consumer::{
    BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance, StreamConsumer,
};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::producer::{FutureProducer, FutureRecord, Producer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use super::{Delivery, Position, ReadError, SendError};
use crate::settings::{GroupProtocol, KafkaSettings};

/// A send that is not acknowledged by then is unknown.
const MESSAGE_TIMEOUT_MS: &str = "3000";
/// How long metadata, watermarks and committed offsets may take.
const ASK_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a send may wait for room in the local queue: not at all, the sweeper has it.
const NO_WAIT: Duration = Duration::ZERO;

/// A Kafka cluster as one deployment uses it. Cheap to clone.
#[derive(Clone)]
pub struct KafkaBus {
    settings: Arc<KafkaSettings>,
    topic: Arc<str>,
    group: Arc<str>,
    producer: FutureProducer,
    /// 0 until the topic's metadata has been read.
    partitions: Arc<AtomicI32>,
}

impl std::fmt::Debug for KafkaBus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KafkaBus")
            .field("topic", &self.topic)
            .finish_non_exhaustive()
    }
}

impl KafkaBus {
    /// Prepares the producer; nothing is sent yet.
    ///
    /// # Errors
    /// When librdkafka refuses the configuration.
    pub fn new(settings: KafkaSettings, topic: String, group: String) -> Result<Self, KafkaError> {
        let producer = client(&settings)
            .set("acks", "all")
            .set("enable.idempotence", "true")
            .set("linger.ms", "2")
            .set("compression.type", "lz4")
            .set("message.timeout.ms", MESSAGE_TIMEOUT_MS)
            .set("request.timeout.ms", "2000")
            .create()?;
        Ok(Self {
            settings: Arc::new(settings),
            topic: topic.into(),
            group: group.into(),
            producer,
            partitions: Arc::new(AtomicI32::new(0)),
        })
    }

    /// Creates the topic if it is missing, and learns how many partitions it has.
    ///
    /// # Errors
    /// When the cluster cannot be asked or does not let this program create the topic.
    pub async fn prepare(&self) -> Result<(), ReadError> {
        if self.partitions.load(Ordering::Relaxed) > 0 {
            return Ok(());
        }
        if self.read_partitions().await? == 0 {
            self.create_topic().await?;
            self.read_partitions().await?;
        }
        Ok(())
    }

    /// The partition that carries a key, once the topic's size is known.
    pub fn partition_of(&self, key: i64) -> Option<i32> {
        let partitions = self.partitions.load(Ordering::Relaxed);
        (partitions > 0).then(|| i32::try_from(key.rem_euclid(i64::from(partitions))).unwrap_or(0))
    }

    pub(super) async fn send(&self, key: i64, payload: &[u8]) -> Result<(), SendError> {
        let name = key.to_string();
        let mut record = FutureRecord::to(&self.topic).key(&name).payload(payload);
        record.partition = self.partition_of(key);
        match self.producer.send(record, NO_WAIT).await {
            Ok(_) => Ok(()),
            Err((e, _)) => Err(e.into()),
        }
    }

    pub(super) async fn flush(&self, limit: Duration) {
        let producer = self.producer.clone();
        let flushed = tokio::task::spawn_blocking(move || producer.flush(limit)).await;
        if !matches!(flushed, Ok(Ok(()))) {
            tracing::warn!("orders were left unsent to kafka; their outbox entries remain");
        }
    }

    pub(super) async fn is_up(&self) -> bool {
        self.prepare().await.is_ok() && self.read_partitions().await.is_ok_and(|n| n > 0)
    }

    /// A reader in the writers' group.
    ///
    /// # Errors
    /// When librdkafka refuses the configuration.
    pub fn reader(&self, protocol: GroupProtocol) -> Result<KafkaReader, ReadError> {
        let mut config = client(&self.settings);
        config
            .set("group.id", &*self.group)
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("auto.offset.reset", "earliest")
            .set("fetch.wait.max.ms", "20");
        if protocol == GroupProtocol::Classic {
            config
                .set("session.timeout.ms", "6000")
                .set("partition.assignment.strategy", "cooperative-sticky");
        } else {
            config.set("group.protocol", "consumer");
        }
        let consumer: StreamConsumer<CommitOnRevoke> =
            config.create_with_context(CommitOnRevoke)?;
        consumer.subscribe(&[&self.topic])?;
        Ok(KafkaReader {
            consumer: Arc::new(consumer),
            topic: Arc::clone(&self.topic),
        })
    }

    /// The group protocol that the configuration asks for.
    pub fn group_protocol(&self) -> GroupProtocol {
        self.settings.group_protocol
    }

    /// How far the writers' group is behind the end of the topic, over all partitions, in messages.
    ///
    /// # Errors
    /// When the cluster cannot be asked.
    pub async fn lag(&self) -> Result<i64, ReadError> {
        let (settings, topic, group) = (
            Arc::clone(&self.settings),
            Arc::clone(&self.topic),
            Arc::clone(&self.group),
        );
        let partitions = self.read_partitions().await?;
        blocking(move || {
            let asker: BaseConsumer = client(&settings).set("group.id", &*group).create()?;
            let mut list = TopicPartitionList::new();
            list.add_partition_range(&topic, 0, partitions - 1);
            let committed = asker.committed_offsets(list, ASK_TIMEOUT)?;
            let mut behind = 0;
            for partition in 0..partitions {
                let (low, high) = asker.fetch_watermarks(&topic, partition, ASK_TIMEOUT)?;
                let done = match committed
                    .find_partition(&topic, partition)
                    .map(|p| p.offset())
                {
                    Some(Offset::Offset(offset)) => offset,
                    _ => low,
                };
                behind += (high - done).max(0);
            }
            Ok(behind)
        })
        .await
    }

    async fn read_partitions(&self) -> Result<i32, ReadError> {
        let (producer, topic) = (self.producer.clone(), Arc::clone(&self.topic));
        let count = blocking(move || {
            let metadata = producer
                .client()
                .fetch_metadata(Some(&topic), ASK_TIMEOUT)?;
            Ok(metadata
                .topics()
                .iter()
                .find(|t| t.name() == &*topic && t.error().is_none())
                .map_or(0, |t| t.partitions().len()))
        })
        .await?;
        let count = i32::try_from(count).unwrap_or(0);
        if count > 0 {
            self.partitions.store(count, Ordering::Relaxed);
        }
        Ok(count)
    }

    async fn create_topic(&self) -> Result<(), ReadError> {
        let admin: AdminClient<DefaultClientContext> = client(&self.settings).create()?;
        let topic = NewTopic::new(
            &self.topic,
            self.settings.partitions,
            TopicReplication::Fixed(self.settings.replication),
        );
        let options = AdminOptions::new()
            .operation_timeout(Some(ASK_TIMEOUT))
            .request_timeout(Some(ASK_TIMEOUT));
        for result in admin.create_topics(&[topic], &options).await? {
            match result {
                Ok(name) => tracing::info!(kafka.topic = %name, "created the topic"),
                Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
                Err((name, code)) => {
                    tracing::error!(kafka.topic = %name, %code, "the topic is missing and this program may not create it");
                    return Err(KafkaError::AdminOp(code).into());
                }
            }
        }
        Ok(())
    }
}

/// Commits what is stored before partitions go to another member.
struct CommitOnRevoke;

impl ClientContext for CommitOnRevoke {}

impl ConsumerContext for CommitOnRevoke {
    fn pre_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        if matches!(rebalance, Rebalance::Revoke(_)) {
            // Nothing stored is no trouble; a failed commit only repeats messages.
            let _ = consumer.commit_consumer_state(CommitMode::Sync);
        }
    }
}

/// A member of the writers' group.
pub struct KafkaReader {
    consumer: Arc<StreamConsumer<CommitOnRevoke>>,
    topic: Arc<str>,
}

impl KafkaReader {
    /// Up to `most` payloads: waits for the first, then collects for at most `linger`. Safe to drop while waiting
    /// for the first only.
    ///
    /// # Errors
    /// Kafka's own; `is_unsupported` tells whether another group protocol would help.
    pub async fn next_batch(
        &self,
        most: usize,
        linger: Duration,
    ) -> Result<Vec<Delivery>, ReadError> {
        let mut batch = vec![self.next().await?];
        let deadline = tokio::time::Instant::now() + linger;
        while batch.len() < most {
            match tokio::time::timeout_at(deadline, self.next()).await {
                Ok(Ok(delivery)) => batch.push(delivery),
                // What was read is worth writing; the error will come again.
                Ok(Err(_)) | Err(_) => break,
            }
        }
        Ok(batch)
    }

    /// Marks a batch as done and commits without waiting; a lost commit only repeats messages.
    ///
    /// # Errors
    /// The first one, when a partition went to another member meanwhile: its messages come again there. Those of the
    /// other partitions are done all the same.
    pub fn done(&self, batch: &[Delivery]) -> Result<(), ReadError> {
        let stored = store_each(batch, |p| {
            self.consumer
                .store_offset(&self.topic, p.partition, p.offset)
        });
        let committed = self.consumer.commit_consumer_state(CommitMode::Async);
        Ok(stored.and(committed)?)
    }

    /// Commits for good and leaves the group.
    pub async fn close(self) {
        let closed = blocking(move || {
            let committed = self.consumer.commit_consumer_state(CommitMode::Sync);
            drop(self);
            match committed {
                Err(KafkaError::ConsumerCommit(RDKafkaErrorCode::NoOffset)) | Ok(()) => Ok(()),
                Err(e) => Err(e),
            }
        });
        if let Err(e) = closed.await {
            tracing::debug!(error = %e, "the last offsets were not committed; their messages will be read again");
        }
    }

    async fn next(&self) -> Result<Delivery, ReadError> {
        let message = self.consumer.recv().await?;
        let position = Position {
            partition: message.partition(),
            offset: message.offset(),
        };
        Ok(Delivery {
            payload: message.payload().unwrap_or_default().to_vec(),
            position: Some(position),
        })
    }
}

/// Stores the offset of every delivery, whatever becomes of the others; the first error is returned.
fn store_each<E>(batch: &[Delivery], store: impl Fn(Position) -> Result<(), E>) -> Result<(), E> {
    let mut result = Ok(());
    for position in batch.iter().filter_map(|d| d.position) {
        result = result.and(store(position));
    }
    result
}

/// Whether the broker does not know the group protocol that was tried.
pub fn is_unsupported(error: &ReadError) -> bool {
    let ReadError::Kafka(e) = error else {
        return false;
    };
    matches!(
        e.rdkafka_error_code(),
        Some(RDKafkaErrorCode::UnsupportedVersion | RDKafkaErrorCode::UnsupportedFeature)
    )
}

fn client(settings: &KafkaSettings) -> ClientConfig {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", &settings.brokers)
        .set("reconnect.backoff.ms", "50")
        .set("reconnect.backoff.max.ms", "500");
    config
}

async fn blocking<T, F>(call: F) -> Result<T, ReadError>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T, KafkaError> + Send + 'static,
{
    match tokio::task::spawn_blocking(call).await {
        Ok(result) => result.map_err(ReadError::from),
        Err(e) => Err(ReadError::Task(e.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_that_went_elsewhere_does_not_keep_the_others_from_being_done() {
        let delivery = |partition, offset| Delivery {
            payload: Vec::new(),
            position: Some(Position { partition, offset }),
        };
        let batch = [
            delivery(0, 5),
            delivery(1, 6),
            delivery(2, 7),
            delivery(0, 8),
        ];
        let stored = std::cell::RefCell::new(Vec::new());
        let result = store_each(&batch, |p| {
            if p.partition == 1 {
                return Err(p.offset);
            }
            stored.borrow_mut().push(p.offset);
            Ok(())
        });
        assert_eq!(result, Err(6));
        assert_eq!(stored.into_inner(), [5, 7, 8]);
    }
}
