//! Phone numbers as people write them, and the one form that is stored. Not for sending anything to them.

use std::fmt;

use super::Error;

/// The country of numbers that are written without one.
const HOME_COUNTRY: &str = "86";
/// Digits of a mainland mobile number without its country.
const MOBILE_DIGITS: usize = 11;
/// E.164 allows 15 digits; no country has mobile numbers of fewer than 8 with its code.
const DIGITS: std::ops::RangeInclusive<usize> = 8..=15;
/// Digits that a masked number hides, just before the last ones.
const HIDDEN: usize = 4;
/// Digits that a masked number shows at its end.
const SHOWN_AT_END: usize = 4;

/// A phone number in E.164: a plus and 8 to 15 digits. `Debug` shows it masked.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Phone(String);

impl Phone {
    /// Reads a number as people write it: with `+` or `00` and a country, or a mainland mobile number alone.
    ///
    /// Blanks, dashes and parentheses do not matter, and full-width digits count as digits.
    ///
    /// # Errors
    /// `BadPhone` for anything else.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let written = plain(text)?;
        let digits = match written
            .strip_prefix('+')
            .or_else(|| written.strip_prefix("00"))
        {
            Some(digits) => digits.to_owned(),
            None if is_mainland_mobile(&written) => format!("{HOME_COUNTRY}{written}"),
            None => return Err(Error::BadPhone),
        };
        // A zero behind the country is the way to dial inside it, not part of the number: taken, it would be a second
        // account of the same phone.
        let has_trunk_zero = digits
            .strip_prefix(HOME_COUNTRY)
            .is_some_and(|national| national.starts_with('0'));
        if !DIGITS.contains(&digits.len())
            || digits.starts_with('0')
            || digits.contains('+')
            || has_trunk_zero
        {
            return Err(Error::BadPhone);
        }
        Ok(Self(format!("+{digits}")))
    }

    /// The number in E.164, for storing and dialling. Never for logs.
    pub fn e164(&self) -> &str {
        &self.0
    }

    /// The number with four digits hidden, for example `+86138****8000`.
    pub fn masked(&self) -> String {
        let digits = &self.0[1..];
        let shown_first = digits.len() - HIDDEN - SHOWN_AT_END;
        format!(
            "+{}{}{}",
            &digits[..shown_first],
            "*".repeat(HIDDEN),
            &digits[digits.len() - SHOWN_AT_END..]
        )
    }
}

impl fmt::Debug for Phone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.masked())
    }
}

/// ASCII digits of a number that people typed in another width; other characters stay as they are.
pub(super) fn ascii_digit(c: char) -> char {
    match c {
        '０'..='９' => char::from(b'0' + (c as u32 - '０' as u32) as u8),
        _ => c,
    }
}

/// Digits and pluses only; refuses what has no place in a number.
fn plain(text: &str) -> Result<String, Error> {
    let mut plain = String::new();
    for c in text.chars() {
        match ascii_digit(c) {
            digit @ '0'..='9' => plain.push(digit),
            '+' | '＋' => plain.push('+'),
            '(' | ')' | '（' | '）' | '-' | '－' | '−' | '\u{2010}'..='\u{2015}' => {}
            blank if blank.is_whitespace() => {}
            _ => return Err(Error::BadPhone),
        }
    }
    Ok(plain)
}

fn is_mainland_mobile(digits: &str) -> bool {
    let bytes = digits.as_bytes();
    bytes.len() == MOBILE_DIGITS
        && bytes[0] == b'1'
        && (b'3'..=b'9').contains(&bytes[1])
        && bytes.iter().all(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::Phone;

    #[test]
    fn one_phone_has_one_form_however_it_is_written() {
        for written in [
            "13800138000",
            "+86 138 0013 8000",
            "0086 138-0013-8000",
            "＋８６ １３８００１３８０００",
            "１３８００１３８０００",
            "(+86) 138\u{3000}0013 8000",
            "（＋86）138–0013–8000",
        ] {
            assert_eq!(
                Phone::parse(written).unwrap().e164(),
                "+8613800138000",
                "{written}"
            );
        }
    }

    #[test]
    fn other_countries_need_their_code() {
        assert_eq!(
            Phone::parse("+84 24 3825 2800").unwrap().e164(),
            "+842438252800"
        );
        assert_eq!(
            Phone::parse("001 (202) 555-0143").unwrap().e164(),
            "+12025550143"
        );
        assert!(Phone::parse("2025550143").is_err());
    }

    #[test]
    fn what_is_no_number_is_refused() {
        let refused = [
            "",
            "+",
            "00",
            "12800138000",
            "1380013800",
            "138001380000",
            "+1234567",
            "+1234567890123456",
            "+0123456789",
            "138+00138000",
            "++8613800138000",
            "8613800138000",
            "+86 (0)13800138000",
            "1380013800a",
            "138.0013.8000",
            "+86\u{202E}13800138000",
        ];
        for written in refused {
            assert!(Phone::parse(written).is_err(), "{written}");
        }
    }

    #[test]
    fn a_masked_number_hides_four_digits() {
        let masked = |text: &str| Phone::parse(text).unwrap().masked();
        assert_eq!(masked("13800138000"), "+86138****8000");
        assert_eq!(masked("+12345678"), "+****5678");
        assert_eq!(
            format!("{:?}", Phone::parse("13800138000").unwrap()),
            "+86138****8000"
        );
    }
}
