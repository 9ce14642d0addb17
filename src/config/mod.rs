//! What an operator can set: defaults, then `lifemate.toml`, then `LIFEMATE_*`; every value is checked before
//! anything starts. What the values mean to the rules of the product is `domain::settings`, not here.

mod check;
mod keys;
mod network;
mod secrets;

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::settings::{
    AccountSettings, AnswerMode, CodeSenderSettings, GroupProtocol, KafkaSettings, PaymentSettings, SaleSettings, Secret, Settings,
};
use figment::Provider;
use figment::providers::{Format, Toml};
use figment::value::Value;

pub use network::Network;

/// The file that is read from the working directory when no other one is named.
const FILE: &str = "lifemate.toml";
/// What the environment's keys start with.
const PREFIX: &str = "LIFEMATE_";

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
    /// Development or production.
    pub profile: Profile,
    /// Prefix of everything this deployment keeps in shared stores.
    pub deployment: String,
    /// When a buyer is told "yes".
    pub answer_mode: AnswerMode,
    /// How long an order may stay unpaid.
    pub pay_window_secs: u64,
    /// How long money that fits no order waits for it.
    pub orphan_wait_secs: u64,
    /// Clicks on one sale a node takes from one user in a second.
    pub clicks_per_second: u32,
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
        Self { key: key.into(), problem: problem.into() }
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
            profile: Profile::Development,
            deployment: "lifemate".to_owned(),
            answer_mode: AnswerMode::Redis,
            pay_window_secs: 900,
            orphan_wait_secs: 600,
            clicks_per_second: 5,
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
    /// Reads the layers and checks them.
    ///
    /// # Errors
    /// When the named file cannot be read, a key is unknown, a value cannot be used or two contradict each other.
    pub fn load(file: Option<&Path>) -> Result<Self, ConfigError> {
        let path = file.unwrap_or(Path::new(FILE));
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound && file.is_none() => String::new(),
            Err(e) => return Err(ConfigError::new(path.display().to_string(), format!("cannot be read: {e}"))),
        };
        Self::from_layers(&text, std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?))))
    }

    /// The defaults, then the text of a file, then environment variables (others than `LIFEMATE_*` are not looked at).
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn from_layers(file: &str, environment: impl IntoIterator<Item = (String, String)>) -> Result<Self, ConfigError> {
        let mut config = Self::default();
        for (name, value) in read_toml(file)? {
            config.set(&name, &name, &value)?;
        }
        for (variable, value) in environment {
            let Some(name) = variable.strip_prefix(PREFIX) else { continue };
            config.set(&variable, &name.to_ascii_lowercase(), &value)?;
        }
        config.check()?;
        Ok(config)
    }

    /// Checks each value and the related ones together.
    ///
    /// # Errors
    /// The first value that cannot be used.
    pub fn check(&self) -> Result<(), ConfigError> {
        check::values(self)?;
        check::related(self)?;
        if self.is_production() { check::production(self) } else { Ok(()) }
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
            cache_redis_url: self.cache_redis_url.clone().unwrap_or_else(|| stores.redis.clone()),
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
            payments: PaymentSettings { sandbox: !self.is_production(), webhook_secrets: secrets.webhook },
            public_url: self.public_url(addr),
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

    fn code_sender(&self) -> CodeSenderSettings {
        match (self.code_sender, &self.code_webhook_url, &self.code_webhook_secret) {
            (CodeSender::Webhook, Some(url), Some(secret)) => {
                CodeSenderSettings::Webhook { url: url.clone(), secret: secret.clone() }
            }
            _ => CodeSenderSettings::Console,
        }
    }

    /// Sets one key; an empty value means "not set here". `source` is what an error calls the key.
    fn set(&mut self, source: &str, name: &str, value: &str) -> Result<(), ConfigError> {
        let Some(key) = keys::KEYS.iter().find(|key| key.name == name) else {
            return Err(ConfigError::new(source, format!("is not a known key{}", keys::suggestion(name))));
        };
        if value.is_empty() {
            return Ok(());
        }
        (key.read)(self, value).map_err(|problem| ConfigError::new(source, problem))
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_toml())
    }
}

/// The file's keys with their values as text; lists become comma lists.
fn read_toml(text: &str) -> Result<Vec<(String, String)>, ConfigError> {
    // The parser's own message would quote the line, and with it perhaps a secret.
    let layers = Toml::string(text)
        .data()
        .map_err(|e| ConfigError::new(FILE, format!("is not valid TOML{}", toml_position(&e.to_string()))))?;
    let mut values = Vec::new();
    for (name, value) in layers.into_values().flatten() {
        let text = scalar(&value).ok_or_else(|| ConfigError::new(&name, "must be text, a number, true, false or a list of texts"))?;
        values.push((name, text));
    }
    Ok(values)
}

/// ` (line 3, column 5)` out of a parser's message, or nothing.
fn toml_position(message: &str) -> String {
    let Some((_, rest)) = message.split_once("at line ") else { return String::new() };
    let line: String = rest.chars().take_while(char::is_ascii_digit).collect();
    format!(" (line {line})")
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(_, text) => Some(text.clone()),
        Value::Bool(_, flag) => Some(flag.to_string()),
        Value::Num(_, number) => number.to_i128().map(|n| n.to_string()),
        Value::Array(_, items) => items.iter().map(|item| item.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>().map(|i| i.join(",")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Config, Profile};

    fn environment(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn the_environment_wins_over_the_file_and_the_file_over_the_defaults() {
        let file = "pay_window_secs = 60\ndeployment = \"from-file\"\nallowed_origins = [\"https://a.example\", \"https://b.example\"]\n";
        let config = Config::from_layers(file, environment(&[("LIFEMATE_PAY_WINDOW_SECS", "30"), ("HOME", "/root")])).unwrap();
        assert_eq!((config.pay_window_secs, config.deployment.as_str()), (30, "from-file"));
        assert_eq!(config.allowed_origins, ["https://a.example", "https://b.example"]);
        assert_eq!(config.orphan_wait_secs, 600);
    }

    #[test]
    fn what_is_printed_can_be_read_back() {
        let config = Config::from_layers("", environment(&[("LIFEMATE_REDIS_URL", "redis://127.0.0.1:6379")])).unwrap();
        let again = Config::from_layers(&config.to_toml(), []).unwrap();
        assert_eq!(again.to_toml(), config.to_toml());
    }

    #[test]
    fn a_broken_file_is_refused_without_quoting_it() {
        let error = Config::from_layers("id_secret = \"hidden-value\nnext", []).unwrap_err().to_string();
        assert!(error.contains("lifemate.toml") && !error.contains("hidden-value"), "{error}");
    }

    #[test]
    fn an_empty_variable_is_no_value() {
        let config = Config::from_layers("profile = \"development\"", environment(&[("LIFEMATE_KAFKA_BROKERS", "")])).unwrap();
        assert_eq!((config.kafka_brokers.is_none(), config.profile), (true, Profile::Development));
    }
}
