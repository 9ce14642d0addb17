//! How a login code reaches its phone. When one may be sent is `code`'s business.

use std::io::Write;
use std::time::Duration;

use hmac::{Hmac, Mac};
use sha2::Sha256;

use super::code::Code;
use super::phone::Phone;
use crate::infra::clock::Clock;
use crate::settings::{CodeSenderSettings, Secret};

/// A person waits for the answer: a gateway slower than this is as good as away.
const GATEWAY_TIMEOUT: Duration = Duration::from_secs(5);

/// Why a code was not delivered, as far as is known. Never holds the phone, the code or the gateway's address.
#[derive(Debug, thiserror::Error)]
pub(super) enum SendError {
    #[error("standard output cannot be written: {0}")]
    Console(#[from] std::io::Error),
    #[error("the code gateway cannot be reached: {0}")]
    Gateway(#[from] reqwest::Error),
    #[error("the code gateway answered {0}")]
    Refused(reqwest::StatusCode),
}

/// Where login codes go.
#[derive(Clone)]
pub(super) enum CodeSender {
    Console,
    Webhook {
        http: reqwest::Client,
        url: String,
        secret: Secret,
        clock: Clock,
    },
}

impl CodeSender {
    /// The proxies of the environment are not used: the configuration alone decides who gets codes.
    pub(super) fn new(settings: &CodeSenderSettings, clock: Clock) -> Self {
        match settings {
            CodeSenderSettings::Console => Self::Console,
            CodeSenderSettings::Webhook { url, secret } => {
                let http = reqwest::Client::builder()
                    .timeout(GATEWAY_TIMEOUT)
                    .redirect(reqwest::redirect::Policy::none())
                    .no_proxy()
                    .build()
                    .expect("invariant: a client without certificates of its own can be built");
                Self::Webhook {
                    http,
                    url: url.clone(),
                    secret: secret.clone(),
                    clock,
                }
            }
        }
    }

    pub(super) async fn send(&self, phone: &Phone, code: &Code) -> Result<(), SendError> {
        match self {
            Self::Console => {
                writeln!(
                    std::io::stdout(),
                    "login code for {}: {}",
                    phone.e164(),
                    code.digits()
                )?;
                Ok(())
            }
            Self::Webhook {
                http,
                url,
                secret,
                clock,
            } => {
                let body =
                    serde_json::json!({ "phone": phone.e164(), "code": code.digits() }).to_string();
                let timestamp = clock.now_ms() / 1000;
                let request = http
                    .post(url)
                    .header("Content-Type", "application/json")
                    .header("X-Lifemate-Timestamp", timestamp)
                    .header("X-Lifemate-Signature", sign(secret, timestamp, &body))
                    .body(body);
                let status = request
                    .send()
                    .await
                    .map_err(reqwest::Error::without_url)?
                    .status();
                if status.is_success() {
                    Ok(())
                } else {
                    Err(SendError::Refused(status))
                }
            }
        }
    }
}

/// Hexadecimal HMAC-SHA256 of the seconds since 1970, a dot and the body: as payment callbacks are signed.
fn sign(secret: &Secret, timestamp_secs: i64, body: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.expose().as_bytes())
        .expect("invariant: HMAC takes any key length");
    mac.update(format!("{timestamp_secs}.{body}").as_bytes());
    hex::encode(mac.finalize().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::sign;
    use crate::settings::Secret;

    #[test]
    fn the_signature_is_the_one_that_a_gateway_computes() {
        // By `printf %s "$timestamp.$body" | openssl dgst -sha256 -hmac "$secret"`.
        let body = r#"{"code":"123456","phone":"+8613800138000"}"#;
        let signature = sign(&Secret::new("a gateway's secret"), 1_800_000_000, body);
        assert_eq!(
            signature,
            "265333388ee6584f76326fd8457f0bd47524277533d9b7768214835d23610274"
        );
    }
}
