//! A queued order on the wire: in Redis' outbox, in Kafka, in a payment intent. Versioned; unknown fields are
//! tolerated, so that two versions of the program can run together.

use serde::{Deserialize, Serialize};

/// The longest payload looked at, in bytes.
const MAX_BYTES: usize = 4_096;

/// Version 1. Numbers of 64 bits are written as digits in quotes, for many readers lose them otherwise. The bytes
/// are those that `lua/reserve.lua` writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuedOrderV1 {
    /// 1.
    pub v: u32,
    /// The order.
    #[serde(with = "digits")]
    pub order_id: i64,
    /// Its buyer.
    #[serde(with = "digits")]
    pub user_id: i64,
    /// Its voucher.
    #[serde(with = "digits")]
    pub voucher_id: i64,
    /// The how-manieth unit of the buyer, from 1.
    pub slot: i32,
    /// Price, in the minor unit.
    #[serde(with = "digits")]
    pub price_minor: i64,
    /// ISO 4217 code.
    pub currency: String,
    /// When the unit was taken, in epoch milliseconds.
    #[serde(with = "digits")]
    pub reserved_at: i64,
    /// The epoch it was taken in.
    #[serde(with = "digits")]
    pub epoch: i64,
    /// The client's id of the request.
    pub request_id: String,
    /// The trace that the request belongs to.
    pub trace_id: String,
}

/// Why a payload is no queued order.
#[derive(Debug, thiserror::Error)]
pub enum BadPayload {
    /// Longer than any order.
    #[error("{0} bytes, more than an order has")]
    TooLong(usize),
    /// Not the JSON of an order.
    #[error("not a queued order: {0}")]
    Json(#[from] serde_json::Error),
    /// Written by a version this program does not know.
    #[error("version {0} is not known")]
    Version(u32),
    /// A field out of bounds.
    #[error("{0} is out of bounds")]
    Field(&'static str),
}

impl QueuedOrderV1 {
    /// Reads and checks a payload.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn parse(payload: &[u8]) -> Result<Self, BadPayload> {
        #[derive(Deserialize)]
        struct Version {
            v: u32,
        }
        if payload.len() > MAX_BYTES {
            return Err(BadPayload::TooLong(payload.len()));
        }
        let Version { v } = serde_json::from_slice(payload)?;
        if v != 1 {
            return Err(BadPayload::Version(v));
        }
        let order: Self = serde_json::from_slice(payload)?;
        order.check()?;
        Ok(order)
    }

    /// The payload.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("invariant: numbers and strings are always JSON")
    }

    fn check(&self) -> Result<(), BadPayload> {
        let positive = [
            ("order_id", self.order_id),
            ("user_id", self.user_id),
            ("voucher_id", self.voucher_id),
            ("reserved_at", self.reserved_at),
            ("epoch", self.epoch),
        ];
        for (name, value) in positive {
            if value <= 0 {
                return Err(BadPayload::Field(name));
            }
        }
        let words = |text: &str| {
            text.len() <= 64
                && text
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"_.:-".contains(&b))
        };
        if self.slot < 1 {
            Err(BadPayload::Field("slot"))
        } else if self.price_minor < 0 {
            Err(BadPayload::Field("price_minor"))
        } else if self.currency.len() != 3 || !self.currency.bytes().all(|b| b.is_ascii_uppercase())
        {
            Err(BadPayload::Field("currency"))
        } else if !words(&self.request_id) {
            Err(BadPayload::Field("request_id"))
        } else if !words(&self.trace_id) {
            Err(BadPayload::Field("trace_id"))
        } else {
            Ok(())
        }
    }
}

mod digits {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(number: &i64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(number)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOLDEN: &str = concat!(
        r#"{"v":1,"order_id":"9007199254740993","user_id":"2","voucher_id":"3","slot":1,"price_minor":"19900","#,
        r#""currency":"VND","reserved_at":"1790000000000","epoch":"4","request_id":"r-1","trace_id":"t"}"#
    );

    #[test]
    fn the_bytes_of_version_1_stay() {
        let order = QueuedOrderV1::parse(GOLDEN.as_bytes()).unwrap();
        assert_eq!(order.order_id, 9_007_199_254_740_993);
        assert_eq!(String::from_utf8(order.to_bytes()).unwrap(), GOLDEN);
    }

    #[test]
    fn fields_of_later_versions_are_tolerated_and_nonsense_is_not() {
        assert!(
            QueuedOrderV1::parse(
                GOLDEN
                    .replace("\"v\":1,", "\"v\":1,\"new\":[1],")
                    .as_bytes()
            )
            .is_ok()
        );
        let broken = [
            ("\"v\":1", "\"v\":2"),
            ("\"slot\":1", "\"slot\":0"),
            ("\"19900\"", "\"-1\""),
            ("\"VND\"", "\"vnd\""),
            ("\"2\"", "\"0\""),
            ("\"2\"", "2"),
            ("r-1", "r 1"),
            ("r-1", "\\u0000"),
            ("}", ""),
        ];
        for (from, to) in broken {
            assert!(
                QueuedOrderV1::parse(GOLDEN.replace(from, to).as_bytes()).is_err(),
                "{from} -> {to}"
            );
        }
        assert!(QueuedOrderV1::parse(&[b' '; MAX_BYTES + 1]).is_err());
        assert!(QueuedOrderV1::parse(b"").is_err());
    }
}
