//! The opaque order ID of the API: order, voucher and buyer under a MAC, so that nobody can make us look for ids he
//! invented, and an order can be found before it has a row.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac};
use sha2::Sha256;

use super::{OrderId, Orders};
use crate::settings::Secret;
use crate::users::UserId;
use crate::vouchers::VoucherId;

/// Bytes of the MAC that are kept: a forger has one chance in 2^96.
const MAC_BYTES: usize = 12;
const NUMBERS_BYTES: usize = 24;

/// Which order, of which voucher, of whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OrderKey {
    /// The order.
    pub order: OrderId,
    /// Its voucher.
    pub voucher: VoucherId,
    /// Its buyer.
    pub buyer: UserId,
}

impl OrderKey {
    /// The opaque ID.
    pub fn seal(&self, secret: &Secret) -> String {
        let mut bytes = Vec::with_capacity(NUMBERS_BYTES + MAC_BYTES);
        for number in [self.order.0, self.voucher.0, self.buyer.0] {
            bytes.extend_from_slice(&number.to_be_bytes());
        }
        let tag = mac(secret, &bytes).finalize().into_bytes();
        bytes.extend_from_slice(&tag[..MAC_BYTES]);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Reads an opaque ID; `None` when it is not one that `seal` made with this secret.
    pub fn open(secret: &Secret, id: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(id).ok()?;
        let (numbers, tag) = bytes.split_at_checked(NUMBERS_BYTES)?;
        if tag.len() != MAC_BYTES {
            return None;
        }
        mac(secret, numbers).verify_truncated_left(tag).ok()?;
        let number = |at: usize| numbers[at..at + 8].try_into().map(i64::from_be_bytes).ok();
        Some(Self {
            order: OrderId(number(0)?),
            voucher: VoucherId(number(8)?),
            buyer: UserId(number(16)?),
        })
    }
}

impl Orders {
    /// The opaque ID that the API shows for an order.
    pub fn seal(&self, key: OrderKey) -> String {
        key.seal(&self.inner.settings.sale.id_secret)
    }

    /// Reads an opaque ID; `None` when this deployment did not make it.
    pub fn open(&self, id: &str) -> Option<OrderKey> {
        OrderKey::open(&self.inner.settings.sale.id_secret, id)
    }
}

fn mac(secret: &Secret, numbers: &[u8]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.expose().as_bytes())
        .expect("invariant: HMAC takes keys of any length");
    mac.update(b"order");
    mac.update(numbers);
    mac
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_opens_only_with_its_secret_and_unchanged() {
        let key = OrderKey {
            order: OrderId(1 << 60),
            voucher: VoucherId(7),
            buyer: UserId(i64::MAX),
        };
        let secret = Secret::new("a");
        let id = key.seal(&secret);
        assert_eq!(OrderKey::open(&secret, &id), Some(key));
        assert_eq!(OrderKey::open(&Secret::new("b"), &id), None);
        for at in 0..id.len() {
            let mut other = id.clone().into_bytes();
            other[at] = if other[at] == b'A' { b'B' } else { b'A' };
            assert_eq!(
                OrderKey::open(&secret, std::str::from_utf8(&other).unwrap()),
                None,
                "changed at {at}"
            );
        }
        assert_eq!(OrderKey::open(&secret, ""), None);
        assert_eq!(OrderKey::open(&secret, &id[..id.len() - 4]), None);
    }
}
