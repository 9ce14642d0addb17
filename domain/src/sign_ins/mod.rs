//! Signing in day by day: a map of days for each year, the streak, days made up afterwards. Not the login: see `users`.
//!
//! The truth is the database: one small row a user and year, with a bit for each day, changed by compare-and-set. It is
//! read by its primary key, so a copy in Redis would save little and be one more thing that can be lost or late.
//! Not `BITFIELD` over a key a month: one reading has at most 63 bits, and a month ends on its last day; a streak does not.

mod calendar;

use std::collections::BTreeMap;

use chrono::NaiveDate;
use entity::sign_in;
use sea_orm::sea_query::Expr;
use sea_orm::{ActiveModelTrait, ColumnTrait, DbErr, EntityTrait, QueryFilter, QueryOrder};

use crate::infra::Infra;
use crate::infra::db::is_unique_violation;
use crate::infra::fault::{Fault, Faulty, RETRY_AFTER, database_fault};
use crate::users::{self, UserId, Users, zone_of};
use calendar::{Calendar, DayMap, Today, Year};

pub use calendar::{MAKE_UP_DAYS, MAKE_UPS_A_MONTH, Refusal, SignedDay, Streak};

/// How often a change that met another one of the same user is tried. Each time at least one of those that met goes
/// through, so this is also how many may meet.
const TRIES: u32 = 32;
/// Years that a map can be asked of.
const YEARS: std::ops::RangeInclusive<i32> = 1970..=9999;

/// Why somebody was not signed in, or shown nothing.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The day cannot be signed.
    #[error(transparent)]
    Day(#[from] Refusal),
    /// No year of ours.
    #[error("a year lies between 1970 and 9999")]
    NoSuchYear,
    /// No month.
    #[error("a month is 1 to 12")]
    NoSuchMonth,
    /// The same user signs too many days at once.
    #[error("other changes of the same days are going on")]
    Busy,
    /// The user's own.
    #[error(transparent)]
    Users(#[from] users::Error),
    /// The database.
    #[error("database: {0}")]
    Database(#[from] DbErr),
}

impl Faulty for Error {
    fn fault(&self) -> Fault {
        let argument = |argument| Fault::BadInput { argument };
        match self {
            Self::Day(_) => argument("input.day"),
            Self::NoSuchYear => argument("year"),
            Self::NoSuchMonth => argument("month"),
            Self::Busy => Fault::TryLater {
                retry_after: RETRY_AFTER,
            },
            Self::Users(e) => e.fault(),
            Self::Database(e) => database_fault(e),
        }
    }
}

/// The sign-ins. Cheap to clone.
#[derive(Clone, Debug)]
pub struct SignIns {
    infra: Infra,
    users: Users,
}

/// What is stored of a user.
struct Stored {
    calendar: Calendar,
    versions: BTreeMap<i32, i64>,
    /// The zone of the last change.
    last_zone: Option<String>,
}

impl SignIns {
    /// Makes the concept.
    pub fn new(infra: Infra, users: Users) -> Self {
        Self { infra, users }
    }

    /// Signs today in the user's zone, or a day before it. A day that is signed already stays so, and costs nothing.
    ///
    /// Of the days of a calendar month, three can be signed afterwards, each within 30 days.
    ///
    /// # Errors
    /// `Day`: then nothing changes. `Busy` when more than thirty changes of one user meet.
    pub async fn sign_in(&self, user: UserId, day: Option<NaiveDate>) -> Result<Streak, Error> {
        let zone = self.users.zone(user).await?;
        for _ in 0..TRIES {
            let now_ms = self.infra.clock.now_ms();
            let mut stored = self.load(user).await?;
            let today = stored.today(zone.day(now_ms), now_ms);
            let day = day.unwrap_or(today.day);
            let Some(year) = stored.calendar.sign(day, today)? else {
                return Ok(stored.calendar.streak(today));
            };
            let row = stored.row(user, year, zone.name(), now_ms);
            if self.replace(row).await? {
                // From now on the user's last zone is this one.
                let today = Today {
                    open_since: today.day,
                    ..today
                };
                return Ok(stored.calendar.streak(today));
            }
        }
        Err(Error::Busy)
    }

    /// The user's streak as of today in their zone.
    ///
    /// # Errors
    /// The database's.
    pub async fn streak(&self, user: UserId) -> Result<Streak, Error> {
        let zone = self.users.zone(user).await?;
        let stored = self.load(user).await?;
        let now_ms = self.infra.clock.now_ms();
        Ok(stored
            .calendar
            .streak(stored.today(zone.day(now_ms), now_ms)))
    }

    /// The days of a year, or of one of its months, that the user signed, in their order.
    ///
    /// # Errors
    /// `NoSuchYear`, `NoSuchMonth`; the database's.
    pub async fn days(
        &self,
        user: UserId,
        year: i32,
        month: Option<u32>,
    ) -> Result<Vec<SignedDay>, Error> {
        if !YEARS.contains(&year) {
            return Err(Error::NoSuchYear);
        }
        if month.is_some_and(|month| !(1..=12).contains(&month)) {
            return Err(Error::NoSuchMonth);
        }
        let row = sign_in::Entity::find_by_id((user.0, year));
        let rows = row.all(self.infra.db.conn()).await?;
        Ok(Stored::of(rows).calendar.days(year, month))
    }

    async fn load(&self, user: UserId) -> Result<Stored, DbErr> {
        let rows = sign_in::Entity::find()
            .filter(sign_in::Column::UserId.eq(user.0))
            .order_by_asc(sign_in::Column::Year)
            .all(self.infra.db.conn())
            .await?;
        Ok(Stored::of(rows))
    }

    /// Writes a year, unless it was changed since it was read; `false` then. A row of version 1 is new.
    async fn replace(&self, row: sign_in::Model) -> Result<bool, DbErr> {
        use sign_in::Column;
        let db = self.infra.db.conn();
        if row.version == 1 {
            let insert = sign_in::Entity::insert(sign_in::ActiveModel::from(row).reset_all());
            return match insert.exec_without_returning(db).await {
                Ok(_) => Ok(true),
                Err(e) if is_unique_violation(&e) => Ok(false),
                Err(e) => Err(e),
            };
        }
        let updated = sign_in::Entity::update_many()
            .col_expr(Column::Signed, Expr::value(row.signed))
            .col_expr(Column::MadeUp, Expr::value(row.made_up))
            .col_expr(Column::Joined, Expr::value(row.joined))
            .col_expr(Column::TimeZone, Expr::value(row.time_zone))
            .col_expr(Column::UpdatedAt, Expr::value(row.updated_at))
            .col_expr(Column::Version, Expr::value(row.version))
            .filter(Column::UserId.eq(row.user_id))
            .filter(Column::Year.eq(row.year))
            .filter(Column::Version.eq(row.version - 1))
            .exec(db)
            .await?;
        Ok(updated.rows_affected == 1)
    }
}

impl Stored {
    fn of(rows: Vec<sign_in::Model>) -> Self {
        let last = rows.iter().max_by_key(|row| (row.updated_at, row.year));
        Self {
            last_zone: last.map(|row| row.time_zone.clone()),
            versions: rows.iter().map(|row| (row.year, row.version)).collect(),
            calendar: Calendar(rows.iter().map(|row| (row.year, maps(row))).collect()),
        }
    }

    fn today(&self, day: NaiveDate, now_ms: i64) -> Today {
        let there = self.last_zone.as_deref().map(|zone| zone_of(Some(zone)));
        let there = there.map_or(day, |zone| zone.day(now_ms));
        Today {
            day,
            open_since: day.min(there),
        }
    }

    fn row(&self, user: UserId, year: i32, zone: &str, now_ms: i64) -> sign_in::Model {
        let maps = self.calendar.0.get(&year).copied().unwrap_or_default();
        sign_in::Model {
            user_id: user.0,
            year,
            signed: maps.signed.bytes(),
            made_up: maps.made_up.bytes(),
            joined: maps.joined.bytes(),
            time_zone: zone.to_owned(),
            updated_at: now_ms,
            version: self.versions.get(&year).copied().unwrap_or(0) + 1,
        }
    }
}

fn maps(row: &sign_in::Model) -> Year {
    Year {
        signed: DayMap::read(&row.signed),
        made_up: DayMap::read(&row.made_up),
        joined: DayMap::read(&row.joined),
    }
}
