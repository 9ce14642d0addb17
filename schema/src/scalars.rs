//! Values as the API writes them: global ids, times, money.

use async_graphql::{
    ID, InputObject, InputValueError, InputValueResult, Object, Result, Scalar, ScalarType, Value,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, TimeZone, Utc};
use domain::vouchers::Currency;

use crate::error::bad_input;

/// No row is changed so often; what is above is no version.
const VERSION_MAX: i64 = 1_000_000_000_000;

/// The opaque id of a thing: its type and number.
pub fn global_id(type_name: &str, number: i64) -> ID {
    ID(URL_SAFE_NO_PAD.encode(format!("{type_name}:{number}")))
}

/// The number in an opaque id of this type; `argument` is named when it is none.
///
/// # Errors
/// `BAD_INPUT`.
pub fn parse_id(id: &ID, type_name: &str, argument: &'static str) -> Result<i64> {
    let found = split_id(id).filter(|(name, _)| name == type_name);
    found
        .map(|(_, number)| number)
        .ok_or_else(|| bad_input(argument, format!("this is no id of a {type_name}")))
}

/// A version that an answer must have at least, 0 when none is asked for.
///
/// # Errors
/// `BAD_INPUT`.
pub fn parse_min_version(version: Option<&str>) -> Result<i64> {
    let Some(text) = version else { return Ok(0) };
    let number = text.parse().ok().filter(|n| (0..=VERSION_MAX).contains(n));
    number.ok_or_else(|| bad_input("minVersion", "this is no version"))
}

/// Type and number of an opaque id, `None` when it is none of ours. Orders have ids of another kind.
pub(crate) fn split_id(id: &ID) -> Option<(String, i64)> {
    let text = String::from_utf8(URL_SAFE_NO_PAD.decode(id.as_bytes()).ok()?).ok()?;
    let (name, digits) = text.split_once(':')?;
    let number: i64 = digits.parse().ok()?;
    // One thing has one id: other spellings of a number are none.
    (number > 0 && digits == number.to_string()).then(|| (name.to_owned(), number))
}

/// A time from epoch milliseconds.
pub fn time(ms: i64) -> DateTime<Utc> {
    Utc.timestamp_millis_opt(ms)
        .single()
        .unwrap_or(DateTime::<Utc>::MAX_UTC)
}

/// A decimal number as a string, for example `12.50`: never a float, which would lose digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decimal(pub String);

/// A decimal number as a string of digits, with a point before the fraction, for example "12.50".
#[Scalar]
impl ScalarType for Decimal {
    fn parse(value: Value) -> InputValueResult<Self> {
        match value {
            Value::String(text) => Ok(Self(text)),
            Value::Number(number) => Ok(Self(number.to_string())),
            other => Err(InputValueError::expected_type(other)),
        }
    }

    fn to_value(&self) -> Value {
        Value::String(self.0.clone())
    }
}

/// The code of a currency, as the client wrote it: whoever takes one asks `Currency::parse`, and names his argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CurrencyCode(pub String);

/// An ISO 4217 currency code in capital letters, for example "VND".
#[Scalar]
impl ScalarType for CurrencyCode {
    fn parse(value: Value) -> InputValueResult<Self> {
        match value {
            Value::String(code) => Ok(Self(code)),
            other => Err(InputValueError::expected_type(other)),
        }
    }

    fn to_value(&self) -> Value {
        Value::String(self.0.clone())
    }
}

/// An amount of money.
#[derive(Clone, Copy, Debug)]
pub struct Money(pub domain::vouchers::Money);

/// An amount of money.
#[Object]
impl Money {
    /// The amount in the currency's major unit, with all digits of its minor unit: "12.50" for USD, "199000" for VND.
    async fn amount(&self) -> Decimal {
        Decimal(self.0.decimal())
    }

    /// The currency.
    async fn currency_code(&self) -> CurrencyCode {
        CurrencyCode(self.0.currency.to_string())
    }
}

/// An amount of money to take in.
#[derive(InputObject)]
pub struct MoneyInput {
    /// The amount in the currency's major unit, 0 or more: "12.50" for USD, "199000" for VND.
    amount: Decimal,
    /// The currency.
    currency_code: CurrencyCode,
}

impl MoneyInput {
    /// The amount; `argument` is its path, for the error.
    ///
    /// # Errors
    /// `BAD_INPUT` for a currency that is not taken, or an amount that is none in it.
    pub(crate) fn read(&self, argument: &'static str) -> Result<domain::vouchers::Money> {
        let bad = |e: domain::vouchers::Error| bad_input(argument, e.to_string());
        let currency = Currency::parse(&self.currency_code.0).map_err(bad)?;
        domain::vouchers::Money::parse(&self.amount.0, currency).map_err(bad)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_opens_as_its_own_type_only_and_in_one_spelling() {
        let id = global_id("Shop", 7);
        assert_eq!(parse_id(&id, "Shop", "id").unwrap(), 7);
        assert!(parse_id(&id, "User", "id").is_err());
        for text in [
            "Shop:07",
            "Shop:+7",
            "Shop:-7",
            "Shop:0",
            "Shop:",
            "Shop",
            "Shop:7 ",
            "Shop:99999999999999999999",
        ] {
            assert!(
                parse_id(&ID(URL_SAFE_NO_PAD.encode(text)), "Shop", "id").is_err(),
                "{text}"
            );
        }
        assert!(parse_id(&ID("7".to_owned()), "Shop", "id").is_err());
        assert!(parse_id(&ID(String::new()), "Shop", "id").is_err());
    }
}
