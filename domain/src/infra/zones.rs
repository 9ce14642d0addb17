//! Days of the calendar in the places where people live. Time itself is `clock`.

use std::str::FromStr;

use chrono::{DateTime, Days, LocalResult, NaiveDate, NaiveTime, TimeDelta, TimeZone, Utc};
use chrono_tz::Tz;

/// Where most users live.
pub const DEFAULT_ZONE: Zone = Zone(Tz::Asia__Shanghai);
/// Midnight may be left out by a change of the clocks; after so many quarters of an hour some time of the day exists,
/// even where a whole day was left out.
const QUARTERS_TO_TRY: i32 = 4 * 25;

/// A time zone of the IANA database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Zone(Tz);

/// There is no time zone of this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no such time zone; write its IANA name, for example Asia/Shanghai")]
pub struct NoSuchZone;

impl FromStr for Zone {
    type Err = NoSuchZone;

    fn from_str(name: &str) -> Result<Self, NoSuchZone> {
        name.parse().map(Self).map_err(|_| NoSuchZone)
    }
}

impl Zone {
    /// Its IANA name.
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// Which day it is there at a moment in epoch milliseconds.
    pub fn day(self, at_ms: i64) -> NaiveDate {
        let at = DateTime::<Utc>::from_timestamp_millis(at_ms).unwrap_or(DateTime::UNIX_EPOCH);
        at.with_timezone(&self.0).date_naive()
    }

    /// The first millisecond of a day there, in epoch milliseconds. A day that the place left out has no length: it
    /// begins when the next one does.
    pub fn begin_ms(self, day: NaiveDate) -> i64 {
        let midnight = day.and_time(NaiveTime::MIN);
        for quarter in 0..=QUARTERS_TO_TRY {
            match self
                .0
                .from_local_datetime(&(midnight + TimeDelta::minutes(15) * quarter))
            {
                LocalResult::Single(begin) | LocalResult::Ambiguous(begin, _) => {
                    return begin.timestamp_millis();
                }
                LocalResult::None => {}
            }
        }
        midnight.and_utc().timestamp_millis()
    }

    /// The first and, left out, the last moment of a day there.
    pub fn span_ms(self, day: NaiveDate) -> (i64, i64) {
        let next = day.checked_add_days(Days::new(1)).unwrap_or(day);
        (self.begin_ms(day), self.begin_ms(next))
    }
}

#[cfg(test)]
mod tests {
    use chrono::NaiveDate;

    use super::{DEFAULT_ZONE, Zone};

    fn day(text: &str) -> NaiveDate {
        text.parse().unwrap()
    }

    fn ms(text: &str) -> i64 {
        chrono::DateTime::parse_from_rfc3339(text)
            .unwrap()
            .timestamp_millis()
    }

    #[test]
    fn a_day_begins_at_its_own_midnight() {
        let zone = DEFAULT_ZONE;
        assert_eq!(zone.begin_ms(day("2028-03-01")), ms("2028-02-29T16:00:00Z"));
        assert_eq!(zone.day(ms("2028-02-29T15:59:59.999Z")), day("2028-02-29"));
        assert_eq!(zone.day(ms("2028-02-29T16:00:00Z")), day("2028-03-01"));
    }

    #[test]
    fn days_of_a_change_of_clocks_are_shorter_or_longer() {
        let zone: Zone = "America/New_York".parse().unwrap();
        let hours = |text| {
            let (begin, end) = zone.span_ms(day(text));
            (end - begin) / 3_600_000
        };
        assert_eq!(
            (
                hours("2028-03-12"),
                hours("2028-11-05"),
                hours("2028-11-06")
            ),
            (23, 25, 24)
        );
    }

    #[test]
    fn midnight_may_be_missing_and_so_may_a_day() {
        let beirut: Zone = "Asia/Beirut".parse().unwrap();
        assert_eq!(
            beirut.begin_ms(day("2022-03-27")),
            ms("2022-03-26T22:00:00Z")
        );
        assert_eq!(
            beirut.day(beirut.begin_ms(day("2022-03-27"))),
            day("2022-03-27")
        );
        let apia: Zone = "Pacific/Apia".parse().unwrap();
        assert_eq!(
            apia.span_ms(day("2011-12-30")).0,
            apia.span_ms(day("2011-12-30")).1
        );
    }

    #[test]
    fn only_names_of_the_database_are_zones() {
        for name in ["", "Mars/Base", "asia/shanghai", "+08:00", "Asia/Shanghai "] {
            assert!(name.parse::<Zone>().is_err(), "{name}");
        }
        assert_eq!("UTC".parse::<Zone>().unwrap().name(), "UTC");
    }
}
