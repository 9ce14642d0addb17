//! Which days a user signed, as maps of bits, and the rule of the streak. Pure: no clock, no store.
//!
//! A day is a day of the calendar and counts once, in whatever zone it was signed. The streak is the number of signed
//! days without a missed one in between. A day is missed when it is over where the user is now *and* where they last
//! signed in: who flies east past a day, or half of one, has not missed it. Such a day does not count either; the day
//! signed after it is marked as joined to the one before.

use std::collections::BTreeMap;

use chrono::{Datelike, Days, NaiveDate};

/// Bytes of a year's map.
const MAP_BYTES: usize = 46;
/// Zones lie at most 26 hours apart, so at most two days can be skipped by moving.
const LONGEST_SKIP: u64 = 2;
/// Days of one calendar month that can be signed afterwards.
pub const MAKE_UPS_A_MONTH: usize = 3;
/// How old a day may be that is signed afterwards.
pub const MAKE_UP_DAYS: u64 = 30;

/// A bit for each day of a year.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DayMap([u8; MAP_BYTES]);

impl Default for DayMap {
    fn default() -> Self {
        Self([0; MAP_BYTES])
    }
}

impl DayMap {
    /// Reads what was stored; what is missing at the end is empty.
    pub(super) fn read(bytes: &[u8]) -> Self {
        let mut map = Self::default();
        for (to, from) in map.0.iter_mut().zip(bytes) {
            *to = *from;
        }
        map
    }

    /// As it is stored.
    pub(super) fn bytes(&self) -> Vec<u8> {
        self.0.to_vec()
    }

    fn has(&self, day: NaiveDate) -> bool {
        let bit = day.ordinal0() as usize;
        self.0[bit / 8] & (1 << (bit % 8)) != 0
    }

    fn set(&mut self, day: NaiveDate) {
        let bit = day.ordinal0() as usize;
        self.0[bit / 8] |= 1 << (bit % 8);
    }

    fn days(self, year: i32) -> impl DoubleEndedIterator<Item = NaiveDate> {
        let all = (1..=366).filter_map(move |ordinal| NaiveDate::from_yo_opt(year, ordinal));
        all.filter(move |day| self.has(*day))
    }
}

/// The maps of one year.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Year {
    /// Days signed.
    pub(super) signed: DayMap,
    /// Which of them afterwards.
    pub(super) made_up: DayMap,
    /// Which of them are joined to the one before over days skipped by moving.
    pub(super) joined: DayMap,
}

/// Where a user stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Streak {
    /// Days signed without a missed one in between, up to today or yesterday.
    pub days: u32,
    /// Whether today is one of them.
    pub signed_today: bool,
}

/// A day that is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignedDay {
    /// The day.
    pub day: NaiveDate,
    /// Whether it was signed afterwards.
    pub is_made_up: bool,
}

/// Why a day cannot be signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It has not come.
    #[error("this day has not come yet")]
    Future,
    /// It is too long ago.
    #[error("only the last {MAKE_UP_DAYS} days can be signed afterwards")]
    TooOld,
    /// Its month has had its share.
    #[error(
        "of each month, {MAKE_UPS_A_MONTH} days can be signed afterwards, and they are used up"
    )]
    NoneLeft,
}

/// What counts as today.
#[derive(Clone, Copy, Debug)]
pub(super) struct Today {
    /// The day where the user is.
    pub(super) day: NaiveDate,
    /// Days from this one on are not missed yet: that, or the day where the user last signed in, if it is earlier.
    pub(super) open_since: NaiveDate,
}

/// All years of a user.
#[derive(Clone, Debug, Default)]
pub(super) struct Calendar(pub(super) BTreeMap<i32, Year>);

impl Calendar {
    /// Signs a day: the changed year, or `None` when the day is signed already.
    pub(super) fn sign(&mut self, day: NaiveDate, today: Today) -> Result<Option<i32>, Refusal> {
        if day > today.day {
            return Err(Refusal::Future);
        }
        if day < today.day - Days::new(MAKE_UP_DAYS) {
            return Err(Refusal::TooOld);
        }
        if self.is_signed(day) {
            return Ok(None);
        }
        let is_made_up = day < today.day;
        if is_made_up && self.make_ups(day) >= MAKE_UPS_A_MONTH {
            return Err(Refusal::NoneLeft);
        }
        let is_joined = !is_made_up && self.skips_to(today);
        let year = self.0.entry(day.year()).or_default();
        year.signed.set(day);
        if is_made_up {
            year.made_up.set(day);
        }
        if is_joined {
            year.joined.set(day);
        }
        Ok(Some(day.year()))
    }

    /// The streak as of today.
    pub(super) fn streak(&self, today: Today) -> Streak {
        let signed_today = self.is_signed(today.day);
        let days = match self.latest() {
            Some(latest) if latest + Days::new(1) >= today.open_since => self.run(latest),
            _ => 0,
        };
        Streak { days, signed_today }
    }

    /// The signed days of a year, or of one month of it, in their order.
    pub(super) fn days(&self, year: i32, month: Option<u32>) -> Vec<SignedDay> {
        let Some(maps) = self.0.get(&year) else {
            return Vec::new();
        };
        maps.signed
            .days(year)
            .filter(|day| month.is_none_or(|month| day.month() == month))
            .map(|day| SignedDay {
                day,
                is_made_up: maps.made_up.has(day),
            })
            .collect()
    }

    fn is_signed(&self, day: NaiveDate) -> bool {
        let year = self.0.get(&day.year());
        year.is_some_and(|year| year.signed.has(day))
    }

    fn latest(&self) -> Option<NaiveDate> {
        let mut years = self.0.iter().rev();
        years.find_map(|(year, maps)| maps.signed.days(*year).next_back())
    }

    /// How many days of a month were signed afterwards.
    fn make_ups(&self, month: NaiveDate) -> usize {
        let days = self.days(month.year(), Some(month.month()));
        days.iter().filter(|day| day.is_made_up).count()
    }

    /// Whether there are days between the last signed one and today, and all of them were skipped by moving.
    fn skips_to(&self, today: Today) -> bool {
        self.before(today.day, LONGEST_SKIP + 1)
            .is_some_and(|last| {
                let first_skipped = last + Days::new(1);
                first_skipped < today.day && first_skipped >= today.open_since
            })
    }

    /// The last signed day before one, at most `reach` days away.
    fn before(&self, day: NaiveDate, reach: u64) -> Option<NaiveDate> {
        let earlier = (1..=reach).filter_map(|days| day.checked_sub_days(Days::new(days)));
        earlier.into_iter().find(|day| self.is_signed(*day))
    }

    /// How many signed days end with this one.
    fn run(&self, last: NaiveDate) -> u32 {
        let (mut day, mut count) = (last, 1);
        loop {
            let is_joined = self.0[&day.year()].joined.has(day);
            let reach = if is_joined { LONGEST_SKIP + 1 } else { 1 };
            match self.before(day, reach) {
                Some(earlier) => (day, count) = (earlier, count + 1),
                None => return count,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use chrono::{Days, NaiveDate};
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::{Calendar, Refusal, Streak, Today};

    fn day(text: &str) -> NaiveDate {
        text.parse().unwrap()
    }

    fn at(day: NaiveDate) -> Today {
        Today {
            day,
            open_since: day,
        }
    }

    fn signed(days: impl IntoIterator<Item = NaiveDate>) -> Calendar {
        let mut calendar = Calendar::default();
        for day in days {
            calendar.sign(day, at(day)).unwrap();
        }
        calendar
    }

    fn streak(days: u32, signed_today: bool) -> Streak {
        Streak { days, signed_today }
    }

    /// The same rule, said slowly.
    fn naive(days: &BTreeSet<NaiveDate>, today: NaiveDate) -> Streak {
        let mut last = today;
        if !days.contains(&today) {
            last = today - Days::new(1);
        }
        let mut count = 0;
        while days.contains(&last) {
            count += 1;
            last = last - Days::new(1);
        }
        streak(count, days.contains(&today))
    }

    #[test]
    fn a_streak_is_what_a_set_of_dates_says() {
        let mut random = StdRng::seed_from_u64(20_280_229);
        for round in 0..40 {
            let start = day("2023-11-01") + Days::new(random.random_range(0..1_500));
            let gaps = [0.0, 0.002, 0.02, 0.3][round % 4];
            let (mut set, mut calendar) = (BTreeSet::new(), Calendar::default());
            for offset in 0..random.random_range(1..900) {
                let today = start + Days::new(offset);
                assert_eq!(calendar.streak(at(today)), naive(&set, today));
                if !random.random_bool(gaps) {
                    set.insert(today);
                    calendar.sign(today, at(today)).unwrap();
                    assert_eq!(calendar.streak(at(today)), naive(&set, today));
                }
                if random.random_bool(0.01) {
                    let missed = today - Days::new(random.random_range(0..30));
                    if calendar.sign(missed, at(today)).is_ok() {
                        set.insert(missed);
                    }
                    assert_eq!(calendar.streak(at(today)), naive(&set, today));
                }
            }
            let listed: Vec<_> = (2023..2032).flat_map(|y| calendar.days(y, None)).collect();
            assert!(listed.iter().map(|d| d.day).eq(set));
        }
    }

    #[test]
    fn a_streak_goes_over_february_and_over_new_year() {
        for (from, to, count) in [
            ("2028-02-27", "2028-03-01", 4),
            ("2027-02-27", "2027-03-01", 3),
            ("2027-12-30", "2028-01-02", 4),
            ("2027-12-31", "2029-01-01", 368),
        ] {
            let days = day(from).iter_days().take_while(|d| *d <= day(to));
            assert_eq!(
                signed(days).streak(at(day(to))),
                streak(count, true),
                "{from}"
            );
        }
        let without_29 = ["2028-02-27", "2028-02-28", "2028-03-01"].map(day);
        assert_eq!(
            signed(without_29).streak(at(day("2028-03-01"))),
            streak(1, true)
        );
    }

    #[test]
    fn today_is_not_missed_before_it_is_over() {
        let calendar = signed(day("2028-01-29").iter_days().take(5));
        assert_eq!(calendar.streak(at(day("2028-02-02"))), streak(5, true));
        assert_eq!(calendar.streak(at(day("2028-02-03"))), streak(5, false));
        assert_eq!(calendar.streak(at(day("2028-02-04"))), streak(0, false));
    }

    #[test]
    fn a_day_skipped_by_moving_east_is_neither_missed_nor_counted() {
        // Signed in Pago Pago; in Apia, where it is a day later at the same hour, the next day never came.
        let mut calendar = signed([day("2028-01-01"), day("2028-01-02")]);
        let arrived = Today {
            day: day("2028-01-04"),
            open_since: day("2028-01-03"),
        };
        assert_eq!(calendar.streak(arrived), streak(2, false));
        calendar.sign(arrived.day, arrived).unwrap();
        assert_eq!(calendar.streak(arrived), streak(3, true));
        assert_eq!(calendar.streak(at(day("2028-01-05"))), streak(3, false));
        // Over in both places: missed.
        let late = Today {
            day: day("2028-01-07"),
            open_since: day("2028-01-06"),
        };
        calendar.sign(late.day, late).unwrap();
        assert_eq!(calendar.streak(late), streak(1, true));
    }

    #[test]
    fn a_day_that_comes_twice_by_moving_west_counts_once() {
        let mut calendar = signed([day("2028-01-01"), day("2028-01-02")]);
        let again = at(day("2028-01-01"));
        assert_eq!(calendar.sign(again.day, again), Ok(None));
        assert_eq!(calendar.streak(again), streak(2, true));
    }

    #[test]
    fn three_days_of_a_month_can_be_made_up() {
        let today = at(day("2028-03-02"));
        let mut calendar = signed([]);
        let mut make_up = |text: &str| calendar.sign(day(text), today);
        assert_eq!(make_up("2028-03-03"), Err(Refusal::Future));
        assert_eq!(make_up("2028-01-31"), Err(Refusal::TooOld));
        for text in ["2028-02-01", "2028-02-29", "2028-02-10"] {
            assert_eq!(make_up(text), Ok(Some(2028)));
        }
        assert_eq!(make_up("2028-02-11"), Err(Refusal::NoneLeft));
        assert_eq!(make_up("2028-02-29"), Ok(None));
        assert_eq!(make_up("2028-03-01"), Ok(Some(2028)));
        assert_eq!(make_up("2028-03-02"), Ok(Some(2028)));
        let made_up = calendar.days(2028, None);
        let made_up: Vec<bool> = made_up.iter().map(|d| d.is_made_up).collect();
        assert_eq!(made_up, [true, true, true, true, false]);
        assert_eq!(calendar.streak(today), streak(3, true));
    }
}
