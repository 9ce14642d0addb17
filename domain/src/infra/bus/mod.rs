//! What carries payloads to the writer: Kafka, or a channel inside the process. It may lose, repeat, delay and
//! reorder; what must not be lost is remembered elsewhere.

mod in_process;
mod kafka;

use std::time::Duration;

pub use in_process::InProcessBus;
pub use kafka::{KafkaBus, KafkaReader, is_unsupported};

/// Why a payload may not have arrived. It may also have: a send that failed is unknown, never undone.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// No writer listens in this process, or it is far behind.
    #[error("no room on the in-process bus")]
    Full,
    /// Kafka did not acknowledge.
    #[error("kafka did not acknowledge: {0}")]
    Kafka(#[from] rdkafka::error::KafkaError),
}

/// Why payloads cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Kafka's own.
    #[error("kafka cannot be read: {0}")]
    Kafka(#[from] rdkafka::error::KafkaError),
    /// The reader's thread ended early.
    #[error("a kafka call ended early: {0}")]
    Task(String),
}

/// One payload as it came.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The payload's bytes.
    pub payload: Vec<u8>,
    /// Where it stands in Kafka; `None` from the in-process bus.
    pub position: Option<Position>,
}

/// A place in Kafka.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The partition.
    pub partition: i32,
    /// The offset.
    pub offset: i64,
}

/// What carries payloads. Cheap to clone.
#[derive(Clone, Debug)]
pub enum Bus {
    /// A Kafka cluster.
    Kafka(KafkaBus),
    /// A channel in this process.
    InProcess(InProcessBus),
}

impl Bus {
    /// Sends one payload; with Kafka returns when it is acknowledged by all replicas, at most 3 s later.
    ///
    /// # Errors
    /// When it is not known to have arrived.
    pub async fn send(&self, key: i64, payload: Vec<u8>) -> Result<(), SendError> {
        match self {
            Self::Kafka(bus) => bus.send(key, &payload).await,
            Self::InProcess(bus) => bus.send(payload),
        }
    }

    /// Sends what is still queued in this process, for at most `limit`.
    pub async fn flush(&self, limit: Duration) {
        if let Self::Kafka(bus) = self {
            bus.flush(limit).await;
        }
    }

    /// Whether the bus can carry now.
    pub async fn is_up(&self) -> bool {
        match self {
            Self::Kafka(bus) => bus.is_up().await,
            Self::InProcess(_) => true,
        }
    }
}
