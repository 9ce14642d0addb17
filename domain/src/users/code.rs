//! Login codes: made, limited, stored as a digest, taken once. How one reaches its phone is `code_sender`.

use std::net::IpAddr;
use std::time::Duration;

use deadpool_redis::redis::RedisError;
use hmac::{Hmac, Mac};
use rand::Rng;
use sha2::Sha256;

use super::Error;
use super::phone::{Phone, ascii_digit};
use crate::infra::address::block_of;
use crate::infra::redis::Redis;
use crate::settings::Secret;

/// Long enough that five tries guess one in 200,000, short enough to type.
const CODE_DIGITS: usize = 6;

/// How often codes are sent, and how long one is good. The defaults are the product's rules.
#[derive(Clone, Debug)]
pub struct LoginLimits {
    /// Life of a code.
    pub code_life: Duration,
    /// Wrong tries that burn a code.
    pub tries: u32,
    /// The least time between two codes for one phone; zero for none.
    pub resend_after: Duration,
    /// Codes for one phone in any hour, 1 or more.
    pub per_hour: u32,
    /// Codes for one phone in any day, 1 or more.
    pub per_day: u32,
    /// Codes asked for from one address in any hour, 1 or more.
    pub per_address_per_hour: u32,
}

impl Default for LoginLimits {
    fn default() -> Self {
        Self {
            code_life: Duration::from_secs(5 * 60),
            tries: 5,
            resend_after: Duration::from_secs(60),
            per_hour: 5,
            per_day: 10,
            per_address_per_hour: 20,
        }
    }
}

/// A login code; `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Code(String);

impl Code {
    pub(super) fn random() -> Self {
        let bound = 10_u32.pow(CODE_DIGITS as u32);
        Self(format!(
            "{:0CODE_DIGITS$}",
            rand::rng().random_range(0..bound)
        ))
    }

    /// A code as people type it: blanks do not matter, full-width digits count as digits. `None` for what cannot be one.
    pub(super) fn typed(text: &str) -> Option<Self> {
        let code: String = text
            .chars()
            .filter(|c| !c.is_whitespace())
            .map(ascii_digit)
            .collect();
        (code.len() == CODE_DIGITS && code.bytes().all(|b| b.is_ascii_digit()))
            .then_some(Self(code))
    }

    pub(super) fn digits(&self) -> &str {
        &self.0
    }
}

/// The codes that are out, in Redis. Neither phones, addresses nor codes can be read there.
#[derive(Clone)]
pub(super) struct Codes {
    redis: Redis,
    secret: Secret,
    limits: LoginLimits,
}

impl Codes {
    pub(super) fn new(redis: Redis, secret: Secret, limits: LoginLimits) -> Self {
        Self {
            redis,
            secret,
            limits,
        }
    }

    pub(super) fn limits(&self) -> &LoginLimits {
        &self.limits
    }

    /// Stores a code in place of the phone's last one, or refuses and changes nothing. All limits are checked and counted
    /// in one step.
    pub(super) async fn store(
        &self,
        phone: &Phone,
        code: &Code,
        address: IpAddr,
    ) -> Result<(), Error> {
        let millis = |duration: Duration| duration.as_millis().to_string();
        let args = [
            self.digest(phone, code),
            uuid::Uuid::new_v4().simple().to_string(),
            millis(self.limits.code_life),
            self.limits.tries.to_string(),
            millis(self.limits.resend_after),
            self.limits.per_hour.to_string(),
            self.limits.per_day.to_string(),
            self.limits.per_address_per_hour.to_string(),
        ];
        let keys = [
            self.code_key(phone),
            self.sent_key(phone),
            self.address_key(address),
        ];
        let retry_after_ms: u64 = self
            .redis
            .run(&self.redis.scripts().login_code, &keys, &args)
            .await?;
        match retry_after_ms {
            0 => Ok(()),
            ms => Err(Error::TooManyCodes {
                retry_after: Duration::from_millis(ms),
            }),
        }
    }

    /// Takes the code if it is the right one; then it is gone. A wrong one costs a try.
    pub(super) async fn take(&self, phone: &Phone, code: &Code) -> Result<(), Error> {
        let keys = [self.code_key(phone)];
        let answer: i64 = self
            .redis
            .run(
                &self.redis.scripts().login_check,
                &keys,
                &[self.digest(phone, code)],
            )
            .await?;
        // Whether there is a code at all is nobody's business.
        if answer == 1 {
            Ok(())
        } else {
            Err(Error::WrongCode)
        }
    }

    /// Removes a code that could not be delivered; it stays counted.
    pub(super) async fn drop_undelivered(
        &self,
        phone: &Phone,
        code: &Code,
    ) -> Result<(), RedisError> {
        let keys = [self.code_key(phone)];
        let _removed: i64 = self
            .redis
            .run(
                &self.redis.scripts().login_drop,
                &keys,
                &[self.digest(phone, code)],
            )
            .await?;
        Ok(())
    }

    /// `{login}:code:<phone>`, hash, five minutes: the phone's valid code.
    fn code_key(&self, phone: &Phone) -> String {
        self.redis.key(format_args!(
            "{{login}}:code:{}",
            self.mac("phone", phone.e164())
        ))
    }

    /// `{login}:sent:<phone>`, zset, a day: when codes were sent to the phone.
    fn sent_key(&self, phone: &Phone) -> String {
        self.redis.key(format_args!(
            "{{login}}:sent:{}",
            self.mac("phone", phone.e164())
        ))
    }

    /// `{login}:address:<address>`, zset, an hour: when codes were sent for the address.
    fn address_key(&self, address: IpAddr) -> String {
        self.redis.key(format_args!(
            "{{login}}:address:{}",
            self.mac("address", &block_of(address))
        ))
    }

    fn digest(&self, phone: &Phone, code: &Code) -> String {
        self.mac("code", &format!("{}:{}", phone.e164(), code.digits()))
    }

    /// A keyed digest: a million codes, or all phones of a country, are tried through in no time without a key.
    fn mac(&self, purpose: &str, text: &str) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.secret.expose().as_bytes())
            .expect("invariant: HMAC takes any key length");
        mac.update(format!("login:{purpose}:{text}").as_bytes());
        hex::encode(mac.finalize().into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::Code;
    use crate::infra::address::block_of;

    #[test]
    fn codes_are_six_digits_and_not_always_the_same() {
        let codes: Vec<Code> = (0..50).map(|_| Code::random()).collect();
        assert!(
            codes
                .iter()
                .all(|c| Code::typed(c.digits()).as_ref() == Some(c))
        );
        assert!(codes.iter().any(|c| c != &codes[0]));
    }

    #[test]
    fn a_code_may_be_typed_in_full_width_and_with_blanks() {
        assert_eq!(Code::typed(" １２3 456").unwrap().digits(), "123456");
        for wrong in [
            "",
            "12345",
            "1234567",
            "12345a",
            "+12345",
            "-12345",
            "１２３４５",
        ] {
            assert!(Code::typed(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn an_ipv6_block_counts_as_one_address() {
        let one = |text: &str| block_of(text.parse().unwrap());
        assert_eq!(
            one("2001:db8:1:2::1"),
            one("2001:db8:1:2:ffff:ffff:ffff:ffff")
        );
        assert_ne!(one("2001:db8:1:2::1"), one("2001:db8:1:3::1"));
        assert_eq!(one("::ffff:203.0.113.9"), one("203.0.113.9"));
        assert_ne!(one("203.0.113.9"), one("203.0.113.10"));
    }
}
