//! Redeeming a paid order in the shop, by a code that its buyer shows. The code is derived from the order under the
//! deployment's secret and stored nowhere; what is stored finds the order of a code, but tells no code.

use hmac::{Hmac, Mac};
use sha2::Sha256;

use super::{Error, Order, OrderId, OrderKey, OrderRow, Orders, Status};
use crate::settings::Secret;
use crate::users::{Session, UserId};
use crate::vouchers::{self, VoucherId};

/// Crockford's base32: no letter that is taken for a digit.
const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
/// 60 bits: short enough to type, too many to guess.
const CODE_CHARS: usize = 12;
/// The longest text that is looked at.
const TYPED_MOST: usize = 64;

/// What became of a code that was shown.
#[derive(Clone, Debug)]
pub enum RedeemOutcome {
    /// The order is used now.
    Redeemed(Order),
    /// It was used before.
    AlreadyRedeemed(Order),
    /// It is in a state that cannot be redeemed, such as REFUNDING; nothing changed.
    NotRedeemable(Order),
}

impl Orders {
    /// The code of an order that can be redeemed; `None` for any other.
    pub fn redeem_code(&self, order: &Order) -> Option<String> {
        let secret = &self.inner.settings.sale.id_secret;
        (order.status == Status::Paid).then(|| code_of(secret, order.key))
    }

    /// Uses the order of a code, for the merchant of its shop or an administrator. Tells its buyer.
    ///
    /// # Errors
    /// `NoSuchOrder` for a wrong code and for one of another's shop; trouble of a store.
    pub async fn redeem(&self, session: &Session, code: &str) -> Result<RedeemOutcome, Error> {
        let row = self.row_of_code(code).await?.ok_or(Error::NoSuchOrder)?;
        let voucher = VoucherId(row.voucher_id);
        match self.inner.vouchers.require_owner(session, voucher).await {
            Err(vouchers::Error::Forbidden | vouchers::Error::NoSuchVoucher) => {
                return Err(Error::NoSuchOrder);
            }
            other => other?,
        };
        let used = self.inner.store.mark_used(OrderId(row.id)).await?;
        let order = self.require(key_of(&row)).await?;
        if used {
            metrics::counter!("lifemate_orders_redeemed_total").increment(1);
            self.publish_changes(std::slice::from_ref(&order)).await;
            return Ok(RedeemOutcome::Redeemed(order));
        }
        Ok(match order.status {
            Status::Used => RedeemOutcome::AlreadyRedeemed(order),
            _ => RedeemOutcome::NotRedeemable(order),
        })
    }

    async fn row_of_code(&self, typed: &str) -> Result<Option<OrderRow>, Error> {
        let Some(code) = meant(typed) else {
            return Ok(None);
        };
        let secret = &self.inner.settings.sale.id_secret;
        let tagged = self.inner.store.tagged(tag_of(secret, &code)).await?;
        Ok(tagged.into_iter().find(|row| {
            let own = mac(
                secret,
                b"redeem-tag",
                code_of(secret, key_of(row)).as_bytes(),
            );
            let shown = mac(secret, b"redeem-tag", code.as_bytes());
            // In constant time.
            shown.verify_slice(&own.finalize().into_bytes()).is_ok()
        }))
    }
}

fn key_of(row: &OrderRow) -> OrderKey {
    OrderKey {
        order: OrderId(row.id),
        voucher: VoucherId(row.voucher_id),
        buyer: UserId(row.user_id),
    }
}

/// The code of an order.
pub(super) fn code_of(secret: &Secret, key: OrderKey) -> String {
    let numbers = [key.order.0, key.voucher.0, key.buyer.0].map(i64::to_be_bytes);
    let tag = mac(secret, b"redeem-code", numbers.as_flattened())
        .finalize()
        .into_bytes();
    let mut bits = leading(&tag).cast_unsigned();
    let mut code = String::with_capacity(CODE_CHARS);
    for _ in 0..CODE_CHARS {
        code.push(char::from(DIGITS[usize::try_from(bits >> 59).unwrap_or(0)]));
        bits <<= 5;
    }
    code
}

/// What an order is found by when a code is shown.
pub(super) fn tag_of(secret: &Secret, code: &str) -> i64 {
    leading(
        &mac(secret, b"redeem-tag", code.as_bytes())
            .finalize()
            .into_bytes(),
    )
}

fn leading(tag: &[u8]) -> i64 {
    tag.iter()
        .take(8)
        .fold(0_i64, |bits, byte| (bits << 8) | i64::from(*byte))
}

/// The code that somebody meant who typed this: in any case, with spaces and hyphens, with O for 0, and I or L for 1.
fn meant(typed: &str) -> Option<String> {
    if typed.len() > TYPED_MOST {
        return None;
    }
    let typed = typed.chars().filter(|c| !matches!(c, ' ' | '-'));
    let code: Option<String> = typed
        .map(|c| match c.to_ascii_uppercase() {
            'O' => Some('0'),
            'I' | 'L' => Some('1'),
            c => u8::try_from(c)
                .ok()
                .filter(|b| DIGITS.contains(b))
                .map(char::from),
        })
        .collect();
    code.filter(|code| code.len() == CODE_CHARS)
}

fn mac(secret: &Secret, purpose: &[u8], content: &[u8]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.expose().as_bytes())
        .expect("invariant: HMAC takes keys of any length");
    mac.update(purpose);
    mac.update(content);
    mac
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_of_one_order_and_one_secret_and_may_be_typed_as_it_is_read() {
        let key = |order| OrderKey {
            order: OrderId(order),
            voucher: VoucherId(7),
            buyer: UserId(9),
        };
        let secret = Secret::new("a");
        let code = code_of(&secret, key(1));
        assert_eq!(code.len(), CODE_CHARS);
        assert!(code.bytes().all(|b| DIGITS.contains(&b)), "{code}");
        assert_eq!(code, code_of(&secret, key(1)));
        assert_ne!(code, code_of(&secret, key(2)));
        assert_ne!(code, code_of(&Secret::new("b"), key(1)));
        assert_eq!(tag_of(&secret, &code), tag_of(&secret, &code));
        assert_ne!(tag_of(&secret, &code), tag_of(&Secret::new("b"), &code));

        let typed = format!("{}-{} ", &code[..6], &code[6..]).to_lowercase();
        assert_eq!(meant(&typed).as_deref(), Some(&*code));
        assert_eq!(meant("oOiIlL01abcd").as_deref(), Some("00111101ABCD"));
        for wrong in [
            "",
            "0123456789A",
            "0123456789ABC",
            "0123456789AU",
            "0123456789Aé",
        ] {
            assert_eq!(meant(wrong), None, "{wrong}");
        }
        assert_eq!(meant(&" ".repeat(100)), None);
    }
}
