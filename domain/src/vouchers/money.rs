//! Money in whole minor units of a currency; never a fraction in floating point.

use std::fmt;

use super::Error;

/// The currencies taken, with the digits of their minor unit (ISO 4217).
const CURRENCIES: [(&str, u32); 56] = [
    ("AED", 2),
    ("AUD", 2),
    ("BDT", 2),
    ("BHD", 3),
    ("BND", 2),
    ("BRL", 2),
    ("CAD", 2),
    ("CHF", 2),
    ("CLP", 0),
    ("CNY", 2),
    ("CZK", 2),
    ("DKK", 2),
    ("EGP", 2),
    ("EUR", 2),
    ("GBP", 2),
    ("HKD", 2),
    ("HUF", 2),
    ("IDR", 2),
    ("ILS", 2),
    ("INR", 2),
    ("ISK", 0),
    ("JOD", 3),
    ("JPY", 0),
    ("KHR", 2),
    ("KRW", 0),
    ("KWD", 3),
    ("KZT", 2),
    ("LAK", 2),
    ("LKR", 2),
    ("MMK", 2),
    ("MNT", 2),
    ("MOP", 2),
    ("MXN", 2),
    ("MYR", 2),
    ("NOK", 2),
    ("NPR", 2),
    ("NZD", 2),
    ("OMR", 3),
    ("PHP", 2),
    ("PKR", 2),
    ("PLN", 2),
    ("QAR", 2),
    ("RON", 2),
    ("RUB", 2),
    ("SAR", 2),
    ("SEK", 2),
    ("SGD", 2),
    ("THB", 2),
    ("TND", 3),
    ("TRY", 2),
    ("TWD", 2),
    ("UAH", 2),
    ("USD", 2),
    ("UZS", 2),
    ("VND", 0),
    ("ZAR", 2),
];

/// A currency that is taken, by its ISO 4217 code.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Currency(&'static str);

impl Currency {
    /// Finds a currency by its code in capital letters.
    ///
    /// # Errors
    /// `BadCurrency` for a code that is not taken.
    pub fn parse(code: &str) -> Result<Self, Error> {
        let found = CURRENCIES.iter().find(|(known, _)| *known == code);
        found
            .map(|(known, _)| Self(known))
            .ok_or(Error::BadCurrency)
    }

    /// The code.
    pub fn code(self) -> &'static str {
        self.0
    }

    /// Digits after the point of an amount in the major unit, 0 to 3.
    pub fn minor_digits(self) -> u32 {
        CURRENCIES
            .iter()
            .find(|(known, _)| *known == self.0)
            .map_or(2, |(_, digits)| *digits)
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl fmt::Debug for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// An amount of money.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Money {
    /// Whole minor units.
    pub minor: i64,
    /// In which currency.
    pub currency: Currency,
}

impl Money {
    /// The amount in the major unit as decimal digits, for example `12.50`.
    pub fn decimal(&self) -> String {
        let digits = self.currency.minor_digits();
        let scale = 10_u64.pow(digits);
        let sign = if self.minor < 0 { "-" } else { "" };
        let minor = self.minor.unsigned_abs();
        if digits == 0 {
            return format!("{sign}{minor}");
        }
        let width = digits as usize;
        format!("{sign}{}.{:0width$}", minor / scale, minor % scale)
    }

    /// Reads an amount in the major unit, for example `12.5`.
    ///
    /// # Errors
    /// `BadAmount` unless it is digits with at most as many after the point as the currency has.
    pub fn parse(decimal: &str, currency: Currency) -> Result<Self, Error> {
        let (whole, part) = decimal.split_once('.').unwrap_or((decimal, ""));
        let width = currency.minor_digits() as usize;
        let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        let dot_without_part = decimal.contains('.') && part.is_empty();
        if whole.is_empty()
            || !digits(whole)
            || !digits(part)
            || part.len() > width
            || dot_without_part
        {
            return Err(Error::BadAmount);
        }
        let minor = format!("{whole}{part:0<width$}")
            .parse()
            .map_err(|_| Error::BadAmount)?;
        Ok(Self { minor, currency })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_keep_every_digit_both_ways() {
        for (code, decimal, minor) in [
            ("USD", "12.50", 1_250),
            ("USD", "0.05", 5),
            ("VND", "199000", 199_000),
            ("KWD", "1.005", 1_005),
            ("USD", "92233720368547758.07", i64::MAX),
        ] {
            let currency = Currency::parse(code).unwrap();
            let money = Money { minor, currency };
            assert_eq!(money.decimal(), decimal);
            assert_eq!(Money::parse(decimal, currency).unwrap(), money);
        }
        let dollar = Currency::parse("USD").unwrap();
        assert_eq!(Money::parse("3", dollar).unwrap().minor, 300);
        assert_eq!(Money::parse("3.5", dollar).unwrap().minor, 350);
        for bad in [
            "",
            "-1",
            "+1",
            "1.",
            ".5",
            "1.005",
            "1,5",
            "1e3",
            "１",
            "92233720368547758.08",
            "0x1",
        ] {
            assert!(Money::parse(bad, dollar).is_err(), "{bad:?}");
        }
        assert!(Money::parse("1.0", Currency::parse("VND").unwrap()).is_err());
        assert!(Currency::parse("usd").is_err());
    }
}
