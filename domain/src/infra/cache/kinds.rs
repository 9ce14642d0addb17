//! What a kind of cached thing is: its key, its value, how long it lives, and what happens when it has grown old. The
//! kinds themselves stand with their concepts.

use std::any::Any;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// One kind of cached thing. Kinds share no key: the name is a part of each.
pub trait Kind: Send + Sync + 'static {
    /// Which one. Its text must hold neither a space nor a brace, and be checked before it comes here.
    type Key: Display + Send + Sync;
    /// What is kept; goes to Redis as JSON.
    type Value: Serialize + DeserializeOwned + Send + Sync + 'static;
    /// Part of the key, and the label of the metrics; no colon in it.
    const NAME: &'static str;
    /// Grows whenever the JSON of the value changes its meaning; other formats are read as nothing.
    const FORMAT: u32 = 1;
    /// What happens when what Redis has is old.
    const POLICY: Policy = Policy::MutexRebuild;
    /// Where its versions come from.
    const VERSIONS: Versions = Versions::OfRow;
    /// How long a copy in the process is told, less a jitter of at most a fifth.
    const LOCAL_LIFE: Duration = super::LOCAL_LIFE;
    /// How long a value is good in Redis, before jitter of a tenth.
    const REDIS_LIFE: Duration = Duration::from_secs(5 * 60);

    /// The number that `Ids` made for the row, in kinds whose absent ids a filter may tell (`Cache::know_ids`).
    fn number(_id: &Self::Key) -> Option<i64> {
        None
    }
}

/// What readers of an old value get. Versions are kept under both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// All wait for the one who loads; after a second they are told to come later.
    MutexRebuild,
    /// All get the old value at once, and one loads the new one behind their backs, as long as the value is not older
    /// than its life and this. One that was never loaded, or was dropped by a write, is waited for.
    LogicalExpiry {
        /// How long an old value may still be told.
        stale_for: Duration,
    },
}

/// What orders the values of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Versions {
    /// The row's own version, which grows with each change; the loader tells it.
    OfRow,
    /// Nothing that is stored: an answer to a question over many rows. Each invalidation makes a new version in Redis,
    /// and what was asked for before it is older than it. What the loader tells is not looked at.
    OfInvalidations,
}

impl Policy {
    pub(super) fn stale_for(self) -> Duration {
        match self {
            Self::MutexRebuild => Duration::ZERO,
            Self::LogicalExpiry { stale_for } => stale_for,
        }
    }
}

/// A row as it was read, whatever its kind. `value` is `None` when there is no such row.
#[derive(Clone)]
pub(super) struct Found {
    pub(super) version: i64,
    pub(super) value: Option<Arc<dyn Any + Send + Sync>>,
    /// Length of its JSON, by which its memory is reckoned.
    pub(super) bytes: usize,
}

/// What the tiers must know of a kind, without its types.
#[derive(Clone, Copy)]
pub(super) struct Facts {
    pub(super) name: &'static str,
    pub(super) stale_for: Duration,
    pub(super) versions: Versions,
    pub(super) local_life: Duration,
    pub(super) redis_life: Duration,
    pub(super) encode: fn(&(dyn Any + Send + Sync)) -> Option<String>,
    pub(super) decode: fn(&str) -> Option<Arc<dyn Any + Send + Sync>>,
}

impl Facts {
    pub(super) fn of<K: Kind>() -> Self {
        Self {
            name: K::NAME,
            stale_for: K::POLICY.stale_for(),
            versions: K::VERSIONS,
            local_life: K::LOCAL_LIFE,
            redis_life: K::REDIS_LIFE,
            encode: encode::<K>,
            decode: decode::<K>,
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Envelope<V> {
    format: u32,
    value: V,
}

#[derive(Deserialize)]
struct Format {
    format: u32,
}

fn encode<K: Kind>(value: &(dyn Any + Send + Sync)) -> Option<String> {
    let envelope = Envelope {
        format: K::FORMAT,
        value: value.downcast_ref::<K::Value>()?,
    };
    serde_json::to_string(&envelope).ok()
}

fn decode<K: Kind>(text: &str) -> Option<Arc<dyn Any + Send + Sync>> {
    let Format { format } = serde_json::from_str(text).ok()?;
    if format != K::FORMAT {
        return None;
    }
    let envelope: Envelope<K::Value> = serde_json::from_str(text).ok()?;
    Some(Arc::new(envelope.value))
}

/// Asserts that this text, as Redis may have it from an earlier version of the server, is understood, is written again
/// as it was, and may hold more than is known. Whoever changes a text makes `FORMAT` grow.
#[cfg(test)]
pub(crate) fn assert_golden<K: Kind>(golden: &str) {
    let value = decode::<K>(golden).expect("a text that is understood");
    assert_eq!(encode::<K>(&*value).unwrap(), golden);
    let later = golden.replacen("\"value\":", "\"later\":1,\"value\":", 1);
    assert!(
        decode::<K>(&later).is_some(),
        "a field that is not known yet"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Word;

    impl Kind for Word {
        type Key = u64;
        type Value = String;
        const NAME: &'static str = "word";
    }

    #[test]
    fn another_format_is_read_as_nothing() {
        let facts = Facts::of::<Word>();
        let text = (facts.encode)(&"a".to_owned()).unwrap();
        assert_eq!(text, r#"{"format":1,"value":"a"}"#);
        let back = (facts.decode)(&text).unwrap();
        assert_eq!(back.downcast_ref::<String>().unwrap(), "a");
        assert!((facts.decode)(r#"{"format":2,"value":"a"}"#).is_none());
        assert!((facts.decode)("{").is_none());
    }
}
