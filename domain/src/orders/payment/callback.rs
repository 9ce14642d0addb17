//! The provider's word that money moved: signed, fresh, recorded once. Answered only after the commit.

use hmac::{Hmac, Mac};
use serde::Deserialize;
use sha2::Sha256;

use super::Provider;
use crate::orders::apply::Outcome;
use crate::orders::queued::QueuedOrderV1;
use crate::orders::store::{Found, Incoming, IntentBy, Recorded};
use crate::orders::{Error, OrderId, Orders};
use crate::settings::Secret;

/// How far a callback's time may be from ours, in seconds.
const FRESH_SECS: i64 = 300;
/// The largest body taken, in bytes.
pub(super) const MAX_BODY: usize = 16 * 1024;
/// The longest transaction id kept, in bytes.
const MAX_TRANSACTION: usize = 128;

/// A callback as it came.
#[derive(Clone, Copy, Debug)]
pub struct Callback<'a> {
    /// Header `X-Lifemate-Timestamp`, seconds since 1970.
    pub timestamp: &'a str,
    /// Header `X-Lifemate-Signature`, hexadecimal HMAC-SHA256 of timestamp, `.` and body.
    pub signature: &'a str,
    /// The body as it came.
    pub body: &'a [u8],
}

/// What a callback came to; all of them are answered 200.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallbackOutcome {
    /// The payment is recorded, now or before.
    Recorded(Recorded),
    /// The provider says that no money moved.
    NotPaid,
}

/// Why a callback is refused.
#[derive(Debug, thiserror::Error)]
pub enum CallbackError {
    /// No such provider here.
    #[error("no such payment provider")]
    UnknownProvider,
    /// Signature or time is missing, wrong or stale.
    #[error("the callback is not signed by the provider, or not fresh")]
    Unsigned,
    /// The signed body is not what was agreed.
    #[error("the callback's body cannot be read: {0}")]
    Malformed(String),
    /// It cannot be recorded now; the provider sends it again.
    #[error("the callback cannot be recorded now: {0}")]
    Unavailable(#[from] Error),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Body {
    transaction_id: String,
    order_id: String,
    amount_minor: i64,
    currency: String,
    status: String,
}

impl Orders {
    /// Records what a provider says about money. The same callback again changes nothing.
    ///
    /// # Errors
    /// See `CallbackError`; on `Unavailable` nothing was recorded.
    pub async fn payment_callback(
        &self,
        provider: &str,
        callback: Callback<'_>,
    ) -> Result<CallbackOutcome, CallbackError> {
        let provider = Provider::named(provider).ok_or(CallbackError::UnknownProvider)?;
        self.require_provider(provider)
            .map_err(|_| CallbackError::UnknownProvider)?;
        let now_secs = self.inner.infra.clock.now_ms() / 1_000;
        if !is_signed(
            &self.inner.settings.payments.webhook_secrets,
            &callback,
            now_secs,
        ) {
            return Err(CallbackError::Unsigned);
        }
        if callback.body.len() > MAX_BODY {
            return Err(CallbackError::Malformed("too large".to_owned()));
        }
        let body: Body = serde_json::from_slice(callback.body)
            .map_err(|e| CallbackError::Malformed(e.to_string()))?;
        if !is_transaction_id(&body.transaction_id)
            || body.amount_minor < 0
            || body.currency.len() > 16
        {
            return Err(CallbackError::Malformed(
                "a field is out of bounds".to_owned(),
            ));
        }
        match body.status.as_str() {
            "SUCCEEDED" => Ok(CallbackOutcome::Recorded(
                self.record(provider, body).await?,
            )),
            "FAILED" => Ok(CallbackOutcome::NotPaid),
            _ => Err(CallbackError::Malformed(
                "status is neither SUCCEEDED nor FAILED".to_owned(),
            )),
        }
    }

    async fn record(&self, provider: Provider, body: Body) -> Result<Recorded, Error> {
        // Money for an order of which we know nothing is recorded too, and goes back.
        let order = self
            .open(&body.order_id)
            .map_or(OrderId(0), |key| key.order);
        self.write_paid_order(order).await?;
        let money = Incoming {
            id: self.inner.infra.ids.next()?,
            provider: provider.name().to_owned(),
            transaction: body.transaction_id,
            order,
            amount_minor: body.amount_minor,
            currency: body.currency,
        };
        let recorded = self.inner.store.record_payment(&money).await?;
        self.tell_money(order, recorded).await?;
        Ok(recorded)
    }

    /// An order that is paid before its row is there is written now, from its intent. Returns whether the database
    /// knows the order.
    pub(super) async fn write_paid_order(&self, order: OrderId) -> Result<bool, Error> {
        if !self.inner.store.find(&[order]).await?.is_empty() {
            return Ok(true);
        }
        let Some(intent) = self.inner.store.intent(IntentBy::Order(order)).await? else {
            return Ok(false);
        };
        let Ok(item) = QueuedOrderV1::parse(intent.payload.as_bytes()) else {
            return Ok(false);
        };
        Ok(self
            .apply_all(vec![item])
            .await?
            .iter()
            .all(|o| !matches!(o, Outcome::Foreign | Outcome::NoSale | Outcome::Refused)))
    }

    /// Counts a payment, and tells who watches the order.
    pub(super) async fn tell_money(&self, order: OrderId, recorded: Recorded) -> Result<(), Error> {
        let label = match recorded {
            Recorded::Paid => "paid",
            Recorded::ToRefund(_) => "to_refund",
            Recorded::Orphan => "orphan",
            Recorded::Repeated => "repeated",
        };
        metrics::counter!("lifemate_payments_recorded_total", "outcome" => label).increment(1);
        if matches!(recorded, Recorded::Paid | Recorded::ToRefund(_)) {
            self.tell_present(order).await?;
        }
        Ok(())
    }

    /// Tells who watches an order what it is now.
    pub(super) async fn tell_present(&self, order: OrderId) -> Result<(), Error> {
        let found: Vec<Found> = self
            .inner
            .store
            .find(&[order])
            .await?
            .into_values()
            .collect();
        let orders = self.orders_of_found(found).await?;
        self.publish_changes(&orders).await;
        Ok(())
    }
}

/// A provider's id is one word: databases differ in whether a space at its end counts, and so in what is unique.
fn is_transaction_id(id: &str) -> bool {
    (1..=MAX_TRANSACTION).contains(&id.len())
        && !id.chars().any(|c| c.is_whitespace() || c.is_control())
}

/// Signs as a provider does: hexadecimal HMAC-SHA256 of `timestamp + "." + body`.
pub(super) fn sign(secret: &Secret, timestamp: &str, body: &[u8]) -> String {
    hex::encode(mac(secret, timestamp, body).finalize().into_bytes())
}

fn is_signed(secrets: &[Secret], callback: &Callback<'_>, now_secs: i64) -> bool {
    let Ok(at) = callback.timestamp.parse::<i64>() else {
        return false;
    };
    let Ok(signature) = hex::decode(callback.signature) else {
        return false;
    };
    let fresh = now_secs
        .checked_sub(at)
        .is_some_and(|age| age.abs() <= FRESH_SECS);
    // Every key is tried, in constant time each.
    fresh
        && secrets.iter().any(|s| {
            mac(s, callback.timestamp, callback.body)
                .verify_slice(&signature)
                .is_ok()
        })
}

fn mac(secret: &Secret, timestamp: &str, body: &[u8]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.expose().as_bytes())
        .expect("invariant: HMAC takes keys of any length");
    mac.update(timestamp.as_bytes());
    mac.update(b".");
    mac.update(body);
    mac
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_id_is_one_word() {
        for good in ["t", "sandbox-0f", "ü", &"x".repeat(128)] {
            assert!(is_transaction_id(good), "{good:?}");
        }
        for bad in [
            "",
            "t ",
            " t",
            "a b",
            "t\n",
            "t\0",
            "t\u{a0}",
            "\u{7f}",
            &"x".repeat(129),
        ] {
            assert!(!is_transaction_id(bad), "{bad:?}");
        }
    }

    #[test]
    fn a_callback_counts_only_signed_and_fresh() {
        let (old, new) = (Secret::new("old"), Secret::new("new"));
        let secrets = [new.clone(), old.clone()];
        let body = br#"{"status":"SUCCEEDED"}"#;
        let signed = |secret: &Secret, at: &str, signed_body: &[u8], sent: &[u8]| {
            let signature = sign(secret, at, signed_body);
            is_signed(
                &secrets,
                &Callback {
                    timestamp: at,
                    signature: &signature,
                    body: sent,
                },
                1_000,
            )
        };
        assert!(signed(&new, "1000", body, body));
        assert!(
            signed(&old, "1300", body, body),
            "the older key works during a rotation"
        );
        assert!(!signed(&old, "1301", body, body), "too far ahead");
        assert!(!signed(&new, "699", body, body), "stale");
        assert!(!signed(&new, "1000", body, b"{}"), "another body");
        assert!(
            !signed(&Secret::new("x"), "1000", body, body),
            "another key"
        );
        for (timestamp, signature) in [
            ("", "00"),
            ("1000", ""),
            ("1000", "zz"),
            ("-9223372036854775808", "00"),
            ("１０００", "00"),
        ] {
            assert!(
                !is_signed(
                    &secrets,
                    &Callback {
                        timestamp,
                        signature,
                        body
                    },
                    1_000
                ),
                "{timestamp:?} {signature:?}"
            );
        }
    }
}
