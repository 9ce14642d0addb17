//! Whether the values make sense, each for itself and together. Not for reaching the stores: that is the start.

use std::fmt::Display;
use std::ops::RangeInclusive;

use domain::settings::{AnswerMode, Secret};
use reqwest::Url;
use tracing_subscriber::EnvFilter;

use super::secrets::{PLACEHOLDER_ID_SECRET, PLACEHOLDER_WEBHOOK_SECRET};
use super::{CodeSender, Config, ConfigError};

/// Seconds: below a second nothing can be paid, above a week stock would be locked up by nobody.
const WEEK_SECS: u64 = 7 * 24 * 3600;
/// Bytes: 128 bits in hexadecimal.
const SHORTEST_SECRET: usize = 16;
/// Bytes: 128 bits even when a person typed letters.
const SHORTEST_PRODUCTION_SECRET: usize = 32;

/// Each value for itself.
pub(super) fn values(config: &Config) -> Result<(), ConfigError> {
    address("http_addr", &config.http_addr)?;
    for origin in &config.allowed_origins {
        web_origin(origin)?;
    }
    if let Some(url) = &config.public_url {
        web_url("public_url", url)?;
    }
    if config.data_dir.as_os_str().is_empty() {
        return wrong("data_dir", "must name a folder");
    }
    deployment(&config.deployment)?;
    stores(config)?;
    within("kafka_partitions", config.kafka_partitions, 1..=1000)?;
    within("kafka_replication", config.kafka_replication, 1..=15)?;
    within(
        "reminder_lead_secs",
        config.reminder_lead_secs,
        60..=WEEK_SECS,
    )?;
    within("pay_window_secs", config.pay_window_secs, 1..=WEEK_SECS)?;
    within("orphan_wait_secs", config.orphan_wait_secs, 1..=WEEK_SECS)?;
    within("clicks_per_second", config.clicks_per_second, 1..=10_000)?;
    within(
        "feed_push_max_followers",
        config.feed_push_max_followers,
        0..=1_000_000,
    )?;
    within("code_resend_secs", config.code_resend_secs, 1..=3600)?;
    for (key, secret) in secrets(config) {
        if secret.expose().len() < SHORTEST_SECRET {
            return wrong(
                key,
                format!("must have at least {SHORTEST_SECRET} characters"),
            );
        }
    }
    match EnvFilter::try_new(&config.log) {
        Ok(_) => Ok(()),
        Err(e) => wrong("log", format!("is no log filter: {e}")),
    }
}

/// Values that depend on each other.
pub(super) fn related(config: &Config) -> Result<(), ConfigError> {
    if config.answer_mode == AnswerMode::RedisAndKafka {
        let why = if config.kafka_brokers.is_none() {
            "needs kafka_brokers"
        } else {
            "redis_and_kafka is not available yet"
        };
        return wrong("answer_mode", why);
    }
    if config.webhook_secret_previous.is_some() && config.webhook_secret.is_none() {
        return wrong(
            "webhook_secret_previous",
            "is of no use without webhook_secret",
        );
    }
    pictures(config)?;
    if config.code_sender == CodeSender::Webhook {
        if config.code_webhook_url.is_none() {
            return wrong(
                "code_webhook_url",
                "is needed with code_sender = \"webhook\"",
            );
        }
        if config.code_webhook_secret.is_none() {
            return wrong(
                "code_webhook_secret",
                "is needed with code_sender = \"webhook\"",
            );
        }
    }
    Ok(())
}

/// Pictures lie in a folder or in a bucket, and a bucket needs its key.
fn pictures(config: &Config) -> Result<(), ConfigError> {
    if config.s3_bucket.is_some() {
        if config.uploads_dir.is_some() {
            return wrong("uploads_dir", "is of no use with s3_bucket");
        }
        if config.s3_access_key.is_none() {
            return wrong("s3_access_key", "is needed with s3_bucket");
        }
        if config.s3_secret_key.is_none() {
            return wrong("s3_secret_key", "is needed with s3_bucket");
        }
        return Ok(());
    }
    let lone = [
        ("s3_endpoint", config.s3_endpoint.is_some()),
        ("s3_access_key", config.s3_access_key.is_some()),
        ("s3_secret_key", config.s3_secret_key.is_some()),
        ("s3_public_url", config.s3_public_url.is_some()),
    ];
    match lone.into_iter().find(|(_, is_set)| *is_set) {
        Some((key, _)) => wrong(key, "is of no use without s3_bucket"),
        None => Ok(()),
    }
}

/// What the production profile refuses.
pub(super) fn production(config: &Config) -> Result<(), ConfigError> {
    if config.unsafe_redis {
        return wrong("unsafe_redis", "must be false in the production profile");
    }
    if config.code_sender == CodeSender::Console {
        return wrong(
            "code_sender",
            "must be webhook in the production profile: login codes do not belong on standard output",
        );
    }
    for (key, secret) in [
        ("id_secret", &config.id_secret),
        ("webhook_secret", &config.webhook_secret),
    ] {
        if secret.is_none() {
            return wrong(key, "must be set in the production profile");
        }
    }
    for (key, secret) in secrets(config) {
        if is_placeholder(secret) {
            return wrong(
                key,
                "is a placeholder; the production profile needs a secret of your own, for example from `openssl rand -hex 32`",
            );
        }
        if secret.expose().len() < SHORTEST_PRODUCTION_SECRET {
            return wrong(
                key,
                format!(
                    "must have at least {SHORTEST_PRODUCTION_SECRET} characters in the production profile"
                ),
            );
        }
    }
    let set = secrets(config);
    let repeated = set
        .iter()
        .enumerate()
        .find(|(i, (_, secret))| set[..*i].iter().any(|(_, other)| other == secret));
    match repeated {
        Some((_, (key, _))) => wrong(
            key,
            "must differ from the other secrets in the production profile",
        ),
        None => Ok(()),
    }
}

fn stores(config: &Config) -> Result<(), ConfigError> {
    within(
        "database_max_connections",
        config.database_max_connections,
        2..=1000,
    )?;
    if let Some(url) = &config.database_url {
        database_url(url)?;
    }
    for (key, url) in [
        ("redis_url", &config.redis_url),
        ("cache_redis_url", &config.cache_redis_url),
    ] {
        if let Some(url) = url {
            redis_url(key, url)?;
        }
    }
    if let Some(url) = &config.code_webhook_url {
        web_url("code_webhook_url", url)?;
    }
    bucket(config)?;
    for broker in config
        .kafka_brokers
        .iter()
        .flat_map(|brokers| brokers.split(','))
    {
        address("kafka_brokers", broker.trim())?;
    }
    Ok(())
}

fn bucket(config: &Config) -> Result<(), ConfigError> {
    for (key, url) in [
        ("s3_endpoint", &config.s3_endpoint),
        ("s3_public_url", &config.s3_public_url),
    ] {
        if let Some(url) = url {
            web_url(key, url)?;
        }
    }
    let names = [
        ("s3_bucket", config.s3_bucket.as_ref()),
        ("s3_region", Some(&config.s3_region)),
        ("s3_access_key", config.s3_access_key.as_ref()),
    ];
    for (key, name) in names {
        if name
            .is_some_and(|name| !name.bytes().all(|b| b.is_ascii_graphic()) || name.contains('/'))
        {
            return wrong(key, "must be a name without blanks and slashes");
        }
    }
    if config
        .uploads_dir
        .as_ref()
        .is_some_and(|folder| folder.as_os_str().is_empty())
    {
        return wrong("uploads_dir", "must name a folder");
    }
    Ok(())
}

/// Those that the operator makes himself. The key to a bucket comes from whoever runs the bucket.
fn secrets(config: &Config) -> Vec<(&'static str, &Secret)> {
    let all = [
        ("id_secret", &config.id_secret),
        ("webhook_secret", &config.webhook_secret),
        ("webhook_secret_previous", &config.webhook_secret_previous),
        ("code_webhook_secret", &config.code_webhook_secret),
    ];
    all.into_iter()
        .filter_map(|(key, secret)| Some((key, secret.as_ref()?)))
        .collect()
}

/// Our own placeholders, the usual words of examples, and text without any variety.
fn is_placeholder(secret: &Secret) -> bool {
    let text = secret.expose().to_ascii_lowercase();
    let known = [PLACEHOLDER_ID_SECRET, PLACEHOLDER_WEBHOOK_SECRET].contains(&text.as_str());
    let words = [
        "placeholder",
        "development",
        "change-me",
        "changeme",
        "change_me",
        "example",
        "your-",
        "secret",
        "password",
    ];
    let mut letters: Vec<char> = text.chars().collect();
    letters.sort_unstable();
    letters.dedup();
    known || words.iter().any(|word| text.contains(word)) || letters.len() < 6
}

/// `host:port`; the host may be a name or an address, IPv6 in brackets.
fn address(key: &str, text: &str) -> Result<(), ConfigError> {
    let fits = text.rsplit_once(':').is_some_and(|(host, port)| {
        let bracketed = host.starts_with('[') && host.ends_with(']');
        let host_fits = !host.is_empty()
            && !host.contains(['/', ' ', '@'])
            && (bracketed || !host.contains(':'));
        host_fits && port.parse::<u16>().is_ok()
    });
    if fits {
        Ok(())
    } else {
        wrong(key, "must be host:port, for example 127.0.0.1:8000")
    }
}

/// The value is never quoted: it may hold a password.
fn database_url(text: &str) -> Result<(), ConfigError> {
    let key = "database_url";
    let Ok(url) = Url::parse(text) else {
        return wrong(
            key,
            "is not a URL such as mysql://user:password@host:3306/database",
        );
    };
    match url.scheme() {
        "sqlite" => Ok(()),
        "mysql" | "postgres" | "postgresql" if url.host_str().is_none_or(str::is_empty) => {
            wrong(key, "names no host")
        }
        "mysql" | "postgres" | "postgresql" if url.path().trim_start_matches('/').is_empty() => {
            wrong(key, "names no database")
        }
        "mysql" | "postgres" | "postgresql" => Ok(()),
        _ => wrong(key, "must start with sqlite://, mysql:// or postgres://"),
    }
}

fn redis_url(key: &str, text: &str) -> Result<(), ConfigError> {
    let Ok(url) = Url::parse(text) else {
        return wrong(key, "is not a URL such as redis://:password@host:6379");
    };
    match url.scheme() {
        "redis" | "rediss" if url.host_str().is_none_or(str::is_empty) => {
            wrong(key, "names no host")
        }
        "redis+unix" | "unix" if url.path().is_empty() => wrong(key, "names no socket"),
        "redis" | "rediss" | "redis+unix" | "unix" => Ok(()),
        _ => wrong(key, "must start with redis://, rediss:// or redis+unix://"),
    }
}

fn web_url(key: &str, text: &str) -> Result<(), ConfigError> {
    let fits = Url::parse(text).is_ok_and(|url| {
        matches!(url.scheme(), "http" | "https")
            && url.host_str().is_some()
            && url.fragment().is_none()
    });
    if fits {
        Ok(())
    } else {
        wrong(key, "must be an http:// or https:// address")
    }
}

/// An origin as browsers send it: scheme, host, port unless it is the scheme's own, and nothing after it.
fn web_origin(text: &str) -> Result<(), ConfigError> {
    let fits = Url::parse(text).is_ok_and(|url| {
        matches!(url.scheme(), "http" | "https") && url.origin().ascii_serialization() == text
    });
    if fits {
        Ok(())
    } else {
        wrong(
            "allowed_origins",
            format!("{text:?} is no origin such as https://app.example.org"),
        )
    }
}

/// Fits Redis keys with hash tags, Kafka topic names and file names.
fn deployment(name: &str) -> Result<(), ConfigError> {
    let fits = (1..=64).contains(&name.len())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
    if fits {
        Ok(())
    } else {
        wrong(
            "deployment",
            "must be 1 to 64 letters, digits, `-`, `_` or `.`",
        )
    }
}

fn within<T: PartialOrd + Display>(
    key: &str,
    value: T,
    range: RangeInclusive<T>,
) -> Result<(), ConfigError> {
    if range.contains(&value) {
        Ok(())
    } else {
        wrong(
            key,
            format!(
                "must be between {} and {}, not {value}",
                range.start(),
                range.end()
            ),
        )
    }
}

fn wrong<T>(key: &str, problem: impl Into<String>) -> Result<T, ConfigError> {
    Err(ConfigError::new(key, problem))
}
