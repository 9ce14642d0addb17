//! The table of keys: how each is read from text and shown again. Whether a value makes sense is `check`.

use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;

use domain::infra::zones::NoSuchZone;
use domain::settings::{AnswerMode, GroupProtocol, Secret};
use reqwest::Url;

use super::{CodeSender, Config, LogFormat, Profile};

/// What stands where a secret would.
const MASK: &str = "***";

/// One key.
pub(super) struct Key {
    pub(super) name: &'static str,
    /// One line for people.
    pub(super) help: &'static str,
    /// Sets it from text that is not empty; the error never quotes a value that may be secret.
    pub(super) read: fn(&mut Config, &str) -> Result<(), String>,
    /// Its value as a TOML literal, secrets masked; `None`: not set.
    pub(super) show: fn(&Config) -> Option<String>,
}

pub(super) const KEYS: &[Key] = &[
    Key {
        name: "profile",
        help: "development or production",
        read: |c, v| {
            put(
                &mut c.profile,
                choice(
                    v,
                    &[
                        ("development", Profile::Development),
                        ("production", Profile::Production),
                    ],
                ),
            )
        },
        show: |c| {
            shown(if c.is_production() {
                "production"
            } else {
                "development"
            })
        },
    },
    Key {
        name: "http_addr",
        help: "where the server listens",
        read: |c, v| put(&mut c.http_addr, Ok(v.to_owned())),
        show: |c| shown(&c.http_addr),
    },
    Key {
        name: "public_url",
        help: "how clients and payment providers reach the server; default: http:// and http_addr",
        read: |c, v| put(&mut c.public_url, Ok(Some(v.to_owned()))),
        show: |c| c.public_url.as_ref().and_then(shown),
    },
    Key {
        name: "allowed_origins",
        help: "origins besides the server's own that browsers may call from",
        read: |c, v| {
            put(
                &mut c.allowed_origins,
                Ok(list(v).map(str::to_owned).collect()),
            )
        },
        show: |c| Some(shown_list(&c.allowed_origins)),
    },
    Key {
        name: "trusted_proxies",
        help: "proxies whose X-Forwarded-For is believed, for example 10.0.0.0/8",
        read: |c, v| put(&mut c.trusted_proxies, list(v).map(str::parse).collect()),
        show: |c| Some(shown_list(&c.trusted_proxies)),
    },
    Key {
        name: "data_dir",
        help: "the folder of the embedded stores",
        read: |c, v| put(&mut c.data_dir, Ok(PathBuf::from(v))),
        show: |c| shown(c.data_dir.display()),
    },
    Key {
        name: "uploads_dir",
        help: "the folder of uploaded pictures, the same for all nodes; default: uploads in data_dir",
        read: |c, v| put(&mut c.uploads_dir, Ok(Some(PathBuf::from(v)))),
        show: |c| {
            c.uploads_dir
                .as_ref()
                .and_then(|folder| shown(folder.display()))
        },
    },
    Key {
        name: "s3_bucket",
        help: "the bucket of uploaded pictures; default: they lie in uploads_dir",
        read: |c, v| put(&mut c.s3_bucket, Ok(Some(v.to_owned()))),
        show: |c| c.s3_bucket.as_ref().and_then(shown),
    },
    Key {
        name: "s3_endpoint",
        help: "the server of that bucket; default: the one of Amazon in s3_region",
        read: |c, v| put(&mut c.s3_endpoint, Ok(Some(v.to_owned()))),
        show: |c| shown_url(c.s3_endpoint.as_ref()),
    },
    Key {
        name: "s3_region",
        help: "the region that requests to that bucket are signed for",
        read: |c, v| put(&mut c.s3_region, Ok(v.to_owned())),
        show: |c| shown(&c.s3_region),
    },
    Key {
        name: "s3_access_key",
        help: "the name of the key to that bucket",
        read: |c, v| put(&mut c.s3_access_key, Ok(Some(v.to_owned()))),
        show: |c| c.s3_access_key.as_ref().and_then(shown),
    },
    Key {
        name: "s3_secret_key",
        help: "the key to that bucket",
        read: |c, v| put(&mut c.s3_secret_key, Ok(Some(Secret::new(v)))),
        show: |c| masked(c.s3_secret_key.as_ref()),
    },
    Key {
        name: "s3_public_url",
        help: "where everybody may read that bucket; default: addresses are signed for an hour",
        read: |c, v| put(&mut c.s3_public_url, Ok(Some(v.to_owned()))),
        show: |c| c.s3_public_url.as_ref().and_then(shown),
    },
    Key {
        name: "deployment",
        help: "prefix of all keys, channels and topics, so that several deployments can share stores",
        read: |c, v| put(&mut c.deployment, Ok(v.to_owned())),
        show: |c| shown(&c.deployment),
    },
    Key {
        name: "database_url",
        help: "sqlite://, mysql:// (MySQL, MariaDB) or postgres://; default: SQLite in data_dir",
        read: |c, v| put(&mut c.database_url, Ok(Some(v.to_owned()))),
        show: |c| shown_url(c.database_url.as_ref()),
    },
    Key {
        name: "database_max_connections",
        help: "connections in the database pool",
        read: |c, v| put(&mut c.database_max_connections, number(v)),
        show: |c| Some(c.database_max_connections.to_string()),
    },
    Key {
        name: "redis_url",
        help: "the Redis that sells (AOF always, noeviction); default: a private one in data_dir",
        read: |c, v| put(&mut c.redis_url, Ok(Some(v.to_owned()))),
        show: |c| shown_url(c.redis_url.as_ref()),
    },
    Key {
        name: "cache_redis_url",
        help: "the Redis that may evict; default: redis_url",
        read: |c, v| put(&mut c.cache_redis_url, Ok(Some(v.to_owned()))),
        show: |c| shown_url(c.cache_redis_url.as_ref()),
    },
    Key {
        name: "unsafe_redis",
        help: "sell from a Redis that may lose orders; refused in production",
        read: |c, v| {
            put(
                &mut c.unsafe_redis,
                choice(v, &[("true", true), ("false", false)]),
            )
        },
        show: |c| Some(c.unsafe_redis.to_string()),
    },
    Key {
        name: "time_zone",
        help: "the IANA name of the zone whose days visits and statistics are counted by",
        read: |c, v| {
            put(
                &mut c.time_zone,
                v.parse().map_err(|e: NoSuchZone| e.to_string()),
            )
        },
        show: |c| shown(c.time_zone.name()),
    },
    Key {
        name: "kafka_brokers",
        help: "host:port,host:port; default: a bus inside the process",
        read: |c, v| put(&mut c.kafka_brokers, Ok(Some(v.to_owned()))),
        show: |c| c.kafka_brokers.as_ref().and_then(shown),
    },
    Key {
        name: "kafka_partitions",
        help: "partitions of a topic made by this program",
        read: |c, v| put(&mut c.kafka_partitions, number(v)),
        show: |c| Some(c.kafka_partitions.to_string()),
    },
    Key {
        name: "kafka_replication",
        help: "replicas of a topic made by this program",
        read: |c, v| put(&mut c.kafka_replication, number(v)),
        show: |c| Some(c.kafka_replication.to_string()),
    },
    Key {
        name: "kafka_group_protocol",
        help: "auto, classic or consumer (Kafka 4.0 and later)",
        read: |c, v| put(&mut c.kafka_group_protocol, choice(v, GROUP_PROTOCOLS)),
        show: |c| shown(word(GROUP_PROTOCOLS, c.kafka_group_protocol)),
    },
    Key {
        name: "answer_mode",
        help: "when a buyer is told yes: redis (as soon as Redis has the order)",
        read: |c, v| put(&mut c.answer_mode, choice(v, ANSWER_MODES)),
        show: |c| shown(word(ANSWER_MODES, c.answer_mode)),
    },
    Key {
        name: "reminder_lead_secs",
        help: "how long before a sale begins those who asked are reminded, 60 or more",
        read: |c, v| put(&mut c.reminder_lead_secs, number(v)),
        show: |c| Some(c.reminder_lead_secs.to_string()),
    },
    Key {
        name: "pay_window_secs",
        help: "how long an order may stay unpaid",
        read: |c, v| put(&mut c.pay_window_secs, number(v)),
        show: |c| Some(c.pay_window_secs.to_string()),
    },
    Key {
        name: "orphan_wait_secs",
        help: "how long money that fits no order waits for it before it is refunded",
        read: |c, v| put(&mut c.orphan_wait_secs, number(v)),
        show: |c| Some(c.orphan_wait_secs.to_string()),
    },
    Key {
        name: "clicks_per_second",
        help: "clicks on one sale that a node takes from one user in a second",
        read: |c, v| put(&mut c.clicks_per_second, number(v)),
        show: |c| Some(c.clicks_per_second.to_string()),
    },
    Key {
        name: "feed_push_max_followers",
        help: "notes of authors with more followers are pushed only to those seen in 7 days",
        read: |c, v| put(&mut c.feed_push_max_followers, number(v)),
        show: |c| Some(c.feed_push_max_followers.to_string()),
    },
    Key {
        name: "rate_limits",
        help: "keep the limits on calls; the sale's own click limit always is",
        read: |c, v| {
            put(
                &mut c.rate_limits,
                choice(v, &[("true", true), ("false", false)]),
            )
        },
        show: |c| Some(c.rate_limits.to_string()),
    },
    Key {
        name: "id_secret",
        help: "seals order IDs and cursors",
        read: |c, v| put(&mut c.id_secret, Ok(Some(Secret::new(v)))),
        show: |c| masked(c.id_secret.as_ref()),
    },
    Key {
        name: "webhook_secret",
        help: "signs payment callbacks",
        read: |c, v| put(&mut c.webhook_secret, Ok(Some(Secret::new(v)))),
        show: |c| masked(c.webhook_secret.as_ref()),
    },
    Key {
        name: "webhook_secret_previous",
        help: "the signing key before the present one, while providers change over",
        read: |c, v| put(&mut c.webhook_secret_previous, Ok(Some(Secret::new(v)))),
        show: |c| masked(c.webhook_secret_previous.as_ref()),
    },
    Key {
        name: "code_sender",
        help: "where login codes go: console (standard output, development only) or webhook",
        read: |c, v| put(&mut c.code_sender, choice(v, CODE_SENDERS)),
        show: |c| shown(word(CODE_SENDERS, c.code_sender)),
    },
    Key {
        name: "code_webhook_url",
        help: "the gateway that sends login codes",
        read: |c, v| put(&mut c.code_webhook_url, Ok(Some(v.to_owned()))),
        show: |c| shown_url(c.code_webhook_url.as_ref()),
    },
    Key {
        name: "code_webhook_secret",
        help: "signs the requests to that gateway",
        read: |c, v| put(&mut c.code_webhook_secret, Ok(Some(Secret::new(v)))),
        show: |c| masked(c.code_webhook_secret.as_ref()),
    },
    Key {
        name: "code_resend_secs",
        help: "the least time between two login codes for one phone",
        read: |c, v| put(&mut c.code_resend_secs, number(v)),
        show: |c| Some(c.code_resend_secs.to_string()),
    },
    Key {
        name: "log",
        help: "which log lines are written, in the syntax of RUST_LOG",
        read: |c, v| put(&mut c.log, Ok(v.to_owned())),
        show: |c| shown(&c.log),
    },
    Key {
        name: "log_format",
        help: "text or json",
        read: |c, v| put(&mut c.log_format, choice(v, LOG_FORMATS)),
        show: |c| shown(word(LOG_FORMATS, c.log_format)),
    },
];

const GROUP_PROTOCOLS: &[(&str, GroupProtocol)] = &[
    ("auto", GroupProtocol::Auto),
    ("classic", GroupProtocol::Classic),
    ("consumer", GroupProtocol::Consumer),
];
const ANSWER_MODES: &[(&str, AnswerMode)] = &[
    ("redis", AnswerMode::Redis),
    ("redis_and_kafka", AnswerMode::RedisAndKafka),
];
const CODE_SENDERS: &[(&str, CodeSender)] = &[
    ("console", CodeSender::Console),
    ("webhook", CodeSender::Webhook),
];
const LOG_FORMATS: &[(&str, LogFormat)] = &[("text", LogFormat::Text), ("json", LogFormat::Json)];

/// `; did you mean …?` for a slip of the pen, or nothing.
pub(super) fn suggestion(name: &str) -> String {
    let near = KEYS.iter().find(|key| {
        let same = key
            .name
            .chars()
            .zip(name.chars())
            .filter(|(a, b)| a == b)
            .count();
        let suffix = key
            .name
            .chars()
            .rev()
            .zip(name.chars().rev())
            .take_while(|(a, b)| a == b)
            .count();
        let prefix = key
            .name
            .chars()
            .zip(name.chars())
            .take_while(|(a, b)| a == b)
            .count();
        let longest = key.name.len().max(name.len());
        longest.abs_diff(same.max(prefix + suffix)) <= 2
    });
    near.map(|key| format!("; did you mean `{}`?", key.name))
        .unwrap_or_default()
}

/// An address with its password masked; an address that is none is masked as a whole.
pub(crate) fn mask_url(url: &str) -> String {
    let Ok(mut parsed) = Url::parse(url) else {
        return MASK.to_owned();
    };
    if parsed.password().is_some() && parsed.set_password(Some(MASK)).is_err() {
        return MASK.to_owned();
    }
    let secret = |name: &str| {
        ["password", "pass", "secret", "token", "key"]
            .iter()
            .any(|word| name.contains(word))
    };
    if parsed.query_pairs().any(|(name, _)| secret(&name)) {
        let pairs: Vec<(String, String)> = parsed
            .query_pairs()
            .map(|(name, value)| {
                (
                    name.to_string(),
                    if secret(&name) {
                        MASK.to_owned()
                    } else {
                        value.to_string()
                    },
                )
            })
            .collect();
        parsed.query_pairs_mut().clear().extend_pairs(pairs);
    }
    parsed.to_string()
}

fn put<T>(place: &mut T, value: Result<T, String>) -> Result<(), String> {
    *place = value?;
    Ok(())
}

fn number<T: FromStr>(text: &str) -> Result<T, String> {
    text.trim()
        .parse()
        .map_err(|_| format!("must be a whole number, not {text:?}"))
}

fn choice<T: Copy>(text: &str, words: &[(&str, T)]) -> Result<T, String> {
    let found = words
        .iter()
        .find(|(word, _)| text.trim().eq_ignore_ascii_case(word));
    found.map(|(_, value)| *value).ok_or_else(|| {
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        format!("must be one of {}, not {text:?}", known.join(", "))
    })
}

fn word<T: PartialEq>(words: &[(&'static str, T)], value: T) -> &'static str {
    words
        .iter()
        .find(|(_, known)| *known == value)
        .map_or("", |(word, _)| word)
}

fn list(text: &str) -> impl Iterator<Item = &str> {
    text.split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
}

#[expect(clippy::unnecessary_wraps, reason = "the shape of `Key::show`")]
fn shown(value: impl Display) -> Option<String> {
    Some(literal(&value.to_string()))
}

fn shown_list(values: &[impl Display]) -> String {
    let items: Vec<String> = values
        .iter()
        .map(|value| literal(&value.to_string()))
        .collect();
    format!("[{}]", items.join(", "))
}

fn shown_url(url: Option<&String>) -> Option<String> {
    url.map(|url| literal(&mask_url(url)))
}

fn masked(secret: Option<&Secret>) -> Option<String> {
    secret.map(|_| literal(MASK))
}

/// A TOML basic string; JSON's escapes are a part of TOML's.
fn literal(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::{KEYS, mask_url, suggestion};

    #[test]
    fn passwords_in_addresses_are_masked() {
        assert_eq!(
            mask_url("mysql://root:hidden@db:3306/lifemate"),
            "mysql://root:***@db:3306/lifemate"
        );
        assert_eq!(
            mask_url("postgres://db/lifemate?password=hidden&sslmode=require"),
            "postgres://db/lifemate?password=***&sslmode=require"
        );
        assert_eq!(
            mask_url("redis://:hidden@cache:6379"),
            "redis://:***@cache:6379"
        );
        assert_eq!(mask_url("no address hidden"), "***");
    }

    #[test]
    fn a_misspelt_key_is_told_its_right_name() {
        assert!(suggestion("databse_url").contains("database_url"));
        assert!(suggestion("pay_window_sec").contains("pay_window_secs"));
        assert_eq!(suggestion("colour"), "");
    }

    #[test]
    fn key_names_are_unique() {
        let mut names: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), KEYS.len());
    }
}
