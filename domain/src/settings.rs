//! What the domain needs to be told at start. Reading files and the environment is `src/config.rs`.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::infra::zones::Zone;

/// Everything the domain is configured with; already checked by whoever made it.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Prefix of every Redis key, channel, Kafka topic and group, so that several deployments share servers.
    pub deployment: String,
    /// `sqlite://…`, `mysql://…` (MySQL or MariaDB) or `postgres://…`.
    pub database_url: String,
    /// Upper bound of the database pool, at least 2.
    pub database_max_connections: u32,
    /// The Redis that sells: append-only file at `always`, policy `noeviction`.
    pub redis_url: String,
    /// The Redis that may evict; the same as `redis_url` unless said.
    pub cache_redis_url: String,
    /// `None`: the in-process bus carries the orders.
    pub kafka: Option<KafkaSettings>,
    /// Accounts and login codes.
    pub accounts: AccountSettings,
    /// The flash sale.
    pub sale: SaleSettings,
    /// How long before a sale's beginning those who asked are reminded.
    pub reminder_lead: std::time::Duration,
    /// Payments and their callbacks.
    pub payments: PaymentSettings,
    /// Feeds.
    pub feeds: FeedSettings,
    /// Where uploaded pictures lie.
    pub uploads: UploadStore,
    /// Scheme, host and port under which clients and payment providers reach this server, no slash at the end.
    pub public_url: String,
    /// The zone whose days visits and statistics are counted by.
    pub time_zone: Zone,
    /// Whether the limits of `rate_limits` are kept; the sale's own click limit always is.
    pub rate_limits: bool,
    /// Production profile: nothing for development is offered.
    pub production: bool,
    /// Accept a Redis without append-only file (development and benchmarks only).
    pub unsafe_redis: bool,
}

/// The Kafka cluster that carries the orders.
#[derive(Clone, Debug)]
pub struct KafkaSettings {
    /// Comma-separated `host:port` list.
    pub brokers: String,
    /// Partitions of a topic that this program creates, 1 or more.
    pub partitions: i32,
    /// Replicas of a topic that this program creates, 1 or more.
    pub replication: i32,
    /// Which consumer group protocol the writer speaks.
    pub group_protocol: GroupProtocol,
}

/// The consumer group protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupProtocol {
    /// The new protocol (KIP-848, Kafka 4.0 and later), or the classic one where the broker lacks it.
    Auto,
    /// The classic protocol.
    Classic,
    /// The new protocol only.
    Consumer,
}

/// Accounts and login codes.
#[derive(Clone, Debug)]
pub struct AccountSettings {
    /// Where login codes go.
    pub code_sender: CodeSenderSettings,
    /// The least time between two codes for one phone (60 s by the product's rules).
    pub code_resend_after: Duration,
}

/// Where login codes go.
#[derive(Clone, Debug)]
pub enum CodeSenderSettings {
    /// Standard output of the process; development only.
    Console,
    /// A gateway of the operator, told by signed HTTP POST.
    Webhook {
        /// The gateway's address.
        url: String,
        /// Signs each request.
        secret: Secret,
    },
}

/// The flash sale.
#[derive(Clone, Debug)]
pub struct SaleSettings {
    /// How long an order may stay unpaid, counted from the moment its row is written.
    pub pay_window: Duration,
    /// When a buyer is told "yes".
    pub answer_mode: AnswerMode,
    /// How long money that fits no order waits for its order before it is refunded.
    pub orphan_wait: Duration,
    /// Seals order IDs and cursors.
    pub id_secret: Secret,
    /// Clicks on one sale that a node takes from one user in a second before it answers `RATE_LIMITED`.
    pub clicks_per_second: u32,
}

/// When a buyer is told "yes".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerMode {
    /// As soon as Redis has the order.
    Redis,
    /// When Kafka has acknowledged it too.
    RedisAndKafka,
}

/// Feeds.
#[derive(Clone, Copy, Debug)]
pub struct FeedSettings {
    /// Notes of an author with more followers are pushed only to those who were seen lately; the others fetch them.
    pub push_max_followers: i64,
}

/// Payments and their callbacks.
#[derive(Clone, Debug)]
pub struct PaymentSettings {
    /// Whether the built-in sandbox provider is offered (never in production).
    pub sandbox: bool,
    /// Keys that sign callbacks, the newest first; the second is for rotation.
    pub webhook_secrets: Vec<Secret>,
}

/// Where uploaded pictures lie.
#[derive(Clone, Debug)]
pub enum UploadStore {
    /// A folder; several nodes must see the same one.
    Folder(PathBuf),
    /// A bucket of S3, or of what speaks like it.
    S3(S3Settings),
}

/// A bucket of S3, or of what speaks like it.
#[derive(Clone, Debug)]
pub struct S3Settings {
    /// Scheme, host and port; `None`: Amazon's own.
    pub endpoint: Option<String>,
    /// The bucket.
    pub bucket: String,
    /// The region that requests are signed for.
    pub region: String,
    /// The name of the key.
    pub access_key: String,
    /// The key, which signs requests.
    pub secret_key: Secret,
    /// Where everybody may read the bucket, no slash at the end; `None`: addresses are signed.
    pub public_url: Option<String>,
}

/// A value that never shows in logs.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The secret itself, for whoever signs with it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
