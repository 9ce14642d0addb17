//! What an operator can set: defaults, then `lifemate.toml`, then `LIFEMATE_*`; every value is checked before
//! anything starts. What the values mean to the rules of the product is `domain::settings`, not here.

mod check;
mod keys;
mod layers;
mod network;
mod secrets;

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use domain::infra::zones::{DEFAULT_ZONE, Zone};
use domain::settings::{
    AccountSettings, AnswerMode, CodeSenderSettings, FeedSettings, GroupProtocol, KafkaSettings,
    PaymentSettings, S3Settings, SaleSettings, Secret, Settings, UploadStore,
};

pub use network::Network;

/// Everything that can be set. `Config::default()` is the embedded development profile.
///
/// `Debug` and [`Config::to_toml`] never show a secret.
#[derive(Clone)]
pub struct Config {
    /// `sqlite://`, `mysql://` or `postgres://`; `None`: SQLite in the data folder.
    pub database_url: Option<String>,
    /// Connections in the database pool, 2 to 1000.
    pub database_max_connections: u32,
    /// The Redis that sells; `None`: a private one in the data folder.
    pub redis_url: Option<String>,
    /// The Redis that may evict; `None`: the one that sells.
    pub cache_redis_url: Option<String>,
    /// Take a Redis that can lose orders (never in production).
    pub unsafe_redis: bool,
    /// `host:port,host:port`; `None`: the bus inside the process.
    pub kafka_brokers: Option<String>,
    /// Partitions of a topic this program creates.
    pub kafka_partitions: i32,
    /// Replicas of a topic this program creates.
    pub kafka_replication: i32,
    /// How the writer joins its consumer group.
    pub kafka_group_protocol: GroupProtocol,
    /// Where the server listens, `host:port`; port 0 takes a free one.
    pub http_addr: String,
    /// How clients and payment providers reach the server; `None`: `http://` and the address it listens on.
    pub public_url: Option<String>,
    /// Origins other than the server's own that browsers may call from.
    pub allowed_origins: Vec<String>,
    /// Proxies whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<Network>,
    /// The folder of the embedded stores.
    pub data_dir: PathBuf,
    /// The folder of uploaded pictures; `None`: `uploads` in the data folder.
    pub uploads_dir: Option<PathBuf>,
    /// The bucket of uploaded pictures; `None`: they lie in a folder.
    pub s3_bucket: Option<String>,
    /// Where that bucket's server is; `None`: Amazon's own.
    pub s3_endpoint: Option<String>,
    /// The region that its requests are signed for.
    pub s3_region: String,
    /// The name of the key to that bucket.
    pub s3_access_key: Option<String>,
    /// The key to that bucket.
    pub s3_secret_key: Option<Secret>,
    /// Where everybody may read that bucket; `None`: addresses are signed.
    pub s3_public_url: Option<String>,
    /// Development or production.
    pub profile: Profile,
    /// Prefix of everything this deployment keeps in shared stores.
    pub deployment: String,
    /// When a buyer is told "yes".
    pub answer_mode: AnswerMode,
    /// How long before a sale's beginning those who asked are reminded.
    pub reminder_lead_secs: u64,
    /// How long an order may stay unpaid.
    pub pay_window_secs: u64,
    /// How long money that fits no order waits for it.
    pub orphan_wait_secs: u64,
    /// Clicks on one sale a node takes from one user in a second.
    pub clicks_per_second: u32,
    /// The zone whose days visits and statistics are counted by.
    pub time_zone: Zone,
    /// Followers up to which an author's notes are pushed to all of them.
    pub feed_push_max_followers: u32,
    /// Keep the limits on calls.
    pub rate_limits: bool,
    /// Seals order IDs and cursors.
    pub id_secret: Option<Secret>,
    /// Signs payment callbacks.
    pub webhook_secret: Option<Secret>,
    /// The signing key before the present one, while providers change over.
    pub webhook_secret_previous: Option<Secret>,
    /// Where login codes go.
    pub code_sender: CodeSender,
    /// The gateway that sends login codes, for [`CodeSender::Webhook`].
    pub code_webhook_url: Option<String>,
    /// Signs the requests to that gateway.
    pub code_webhook_secret: Option<Secret>,
    /// The least time between two login codes for one phone.
    pub code_resend_secs: u64,
    /// Which log lines are written, in the syntax of `RUST_LOG`.
    pub log: String,
    /// Text for people or JSON for collectors.
    pub log_format: LogFormat,
}

/// Which promises the program makes about its surroundings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// GraphiQL, introspection, the sandbox provider, codes on standard output.
    Development,
    /// None of that, and no placeholder secret.
    Production,
}

/// Where login codes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeSender {
    /// Standard output.
    Console,
    /// The operator's gateway.
    Webhook,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// A value that cannot be used. Names the key; shows a value only where it cannot be a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The key as it stands in the file, or the variable's name.
    pub key: String,
    /// What is wrong with it.
    pub problem: String,
}

impl ConfigError {
    fn new(key: impl Into<String>, problem: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            problem: problem.into(),
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "configuration: `{}` {}", self.key, self.problem)
    }
}

impl std::error::Error for ConfigError {}

impl Default for Config {
    fn default() -> Self {
        Self {
            database_url: None,
            database_max_connections: 16,
            redis_url: None,
            cache_redis_url: None,
            unsafe_redis: false,
            kafka_brokers: None,
            kafka_partitions: 6,
            kafka_replication: 1,
            kafka_group_protocol: GroupProtocol::Auto,
            http_addr: "127.0.0.1:8000".to_owned(),
            public_url: None,
            allowed_origins: Vec::new(),
            trusted_proxies: Vec::new(),
            data_dir: PathBuf::from("./var"),
            uploads_dir: None,
            s3_bucket: None,
            s3_endpoint: None,
            s3_region: "us-east-1".to_owned(),
            s3_access_key: None,
            s3_secret_key: None,
            s3_public_url: None,
            profile: Profile::Development,
            deployment: "lifemate".to_owned(),
            answer_mode: AnswerMode::Redis,
            reminder_lead_secs: 300,
            pay_window_secs: 900,
            orphan_wait_secs: 600,
            clicks_per_second: 5,
            time_zone: DEFAULT_ZONE,
            feed_push_max_followers: 5_000,
            rate_limits: true,
            id_secret: None,
            webhook_secret: None,
            webhook_secret_previous: None,
            code_sender: CodeSender::Console,
            code_webhook_url: None,
            code_webhook_secret: None,
            code_resend_secs: 60,
            log: "info,sqlx=warn,sea_orm=warn,sea_orm_migration=warn".to_owned(),
            log_format: LogFormat::Text,
        }
    }
}

/// Where the stores are found once the embedded ones run.
#[derive(Clone, Debug)]
pub struct StoreUrls {
    /// The database.
    pub database: String,
    /// The Redis that sells.
    pub redis: String,
}

impl Config {
    /// Checks each value and the related ones together.
    ///
    /// # Errors
    /// The first value that cannot be used.
    pub fn check(&self) -> Result<(), ConfigError> {
        check::values(self)?;
        check::related(self)?;
        if self.is_production() {
            check::production(self)
        } else {
            Ok(())
        }
    }

    /// The whole configuration as a TOML file, secrets and passwords masked.
    pub fn to_toml(&self) -> String {
        let lines = keys::KEYS.iter().map(|key| match (key.show)(self) {
            Some(value) => format!("# {}\n{} = {value}\n", key.help, key.name),
            None => format!("# {}\n# {} is not set\n", key.help, key.name),
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Whether this is the production profile.
    pub fn is_production(&self) -> bool {
        self.profile == Profile::Production
    }

    /// Whether a store of this configuration lives in the data folder.
    pub fn is_embedded(&self) -> bool {
        self.database_url.is_none() || self.redis_url.is_none()
    }

    /// What the domain is told, with the stores and the address that are really used.
    ///
    /// # Errors
    /// When the data folder's own secrets cannot be read or written.
    pub fn settings(&self, stores: &StoreUrls, addr: SocketAddr) -> anyhow::Result<Settings> {
        let secrets = secrets::resolve(self)?;
        Ok(Settings {
            deployment: self.deployment.clone(),
            database_url: stores.database.clone(),
            database_max_connections: self.database_max_connections,
            redis_url: stores.redis.clone(),
            cache_redis_url: self
                .cache_redis_url
                .clone()
                .unwrap_or_else(|| stores.redis.clone()),
            kafka: self.kafka(),
            accounts: AccountSettings {
                code_sender: self.code_sender(),
                code_resend_after: Duration::from_secs(self.code_resend_secs),
            },
            sale: SaleSettings {
                pay_window: Duration::from_secs(self.pay_window_secs),
                answer_mode: self.answer_mode,
                orphan_wait: Duration::from_secs(self.orphan_wait_secs),
                id_secret: secrets.id,
                clicks_per_second: self.clicks_per_second,
            },
            feeds: FeedSettings {
                push_max_followers: i64::from(self.feed_push_max_followers),
            },
            reminder_lead: Duration::from_secs(self.reminder_lead_secs),
            payments: PaymentSettings {
                sandbox: !self.is_production(),
                webhook_secrets: secrets.webhook,
            },
            uploads: self.uploads(),
            public_url: self.public_url(addr),
            time_zone: self.time_zone,
            rate_limits: self.rate_limits,
            production: self.is_production(),
            unsafe_redis: self.unsafe_redis,
        })
    }

    /// The address for links and callbacks, no slash at the end.
    pub fn public_url(&self, addr: SocketAddr) -> String {
        match &self.public_url {
            Some(url) => url.trim_end_matches('/').to_owned(),
            None if addr.ip().is_unspecified() => format!("http://127.0.0.1:{}", addr.port()),
            None => format!("http://{addr}"),
        }
    }

    fn kafka(&self) -> Option<KafkaSettings> {
        let brokers = self.kafka_brokers.clone()?;
        Some(KafkaSettings {
            brokers,
            partitions: self.kafka_partitions,
            replication: self.kafka_replication,
            group_protocol: self.kafka_group_protocol,
        })
    }

    fn uploads(&self) -> UploadStore {
        match (&self.s3_bucket, &self.s3_access_key, &self.s3_secret_key) {
            (Some(bucket), Some(access_key), Some(secret_key)) => UploadStore::S3(S3Settings {
                endpoint: self.s3_endpoint.clone(),
                bucket: bucket.clone(),
                region: self.s3_region.clone(),
                access_key: access_key.clone(),
                secret_key: secret_key.clone(),
                public_url: self
                    .s3_public_url
                    .as_ref()
                    .map(|url| url.trim_end_matches('/').to_owned()),
            }),
            _ => UploadStore::Folder(
                self.uploads_dir
                    .clone()
                    .unwrap_or_else(|| self.data_dir.join("uploads")),
            ),
        }
    }

    fn code_sender(&self) -> CodeSenderSettings {
        match (
            self.code_sender,
            &self.code_webhook_url,
            &self.code_webhook_secret,
        ) {
            (CodeSender::Webhook, Some(url), Some(secret)) => CodeSenderSettings::Webhook {
                url: url.clone(),
                secret: secret.clone(),
            },
            _ => CodeSenderSettings::Console,
        }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_toml())
    }
}
