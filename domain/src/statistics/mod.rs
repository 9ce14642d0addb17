//! Figures of each day: active users, visitors, orders. Computed once the day is over, by one process for all, into a
//! table; for the day that runs, an estimate. Not for money: see `orders::reconcile`.
//!
//! Orders are counted in the database, so a day's count can be made again at any time. Users and visitors come from the
//! counts of `visits`, which are kept for a hundred days and are gone with a lost Redis. Such a count only ever grows, so
//! a smaller one means a loss: then what the table has stays.

mod compute;
mod worker;

use chrono::{Days, NaiveDate};
use deadpool_redis::redis::RedisError;
use entity::daily_statistics;
use sea_orm::{ColumnTrait, DbErr, EntityTrait, QueryFilter, QueryOrder};

use crate::infra::Infra;
use crate::infra::fault::{Fault, Faulty, RETRY_AFTER, database_fault, redis_fault};
use crate::infra::leases::Leases;
use crate::infra::zones::Zone;
use crate::settings::Settings;
use crate::visits::{self, Visits};

pub use worker::RunningDay;

/// The figures of a day.
pub type DailyFigures = daily_statistics::Model;

/// Days of one question.
pub const RANGE_DAYS_MAX: i64 = 366;

/// Why there are no figures.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The range runs backwards.
    #[error("the last day lies before the first")]
    BackwardRange,
    /// The range is too long.
    #[error("a question is about at most {RANGE_DAYS_MAX} days")]
    LongRange,
    /// The day is not over.
    #[error("a day can be computed when it is over")]
    DayNotOver,
    /// The computation was told to stop; nothing of it was written.
    #[error("the computation was stopped half-way")]
    Stopped,
    /// The counts of visitors.
    #[error(transparent)]
    Visits(#[from] visits::Error),
    /// Redis.
    #[error("redis: {0}")]
    Redis(#[from] RedisError),
    /// The database.
    #[error("database: {0}")]
    Database(#[from] DbErr),
}

impl Faulty for Error {
    fn fault(&self) -> Fault {
        let argument = |argument| Fault::BadInput { argument };
        match self {
            Self::BackwardRange | Self::LongRange => argument("to"),
            Self::DayNotOver => argument("input.day"),
            Self::Stopped => Fault::TryLater {
                retry_after: RETRY_AFTER,
            },
            Self::Visits(e) => e.fault(),
            Self::Redis(e) => redis_fault(e),
            Self::Database(e) => database_fault(e),
        }
    }
}

/// The figures of a day, and whether they may still change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figures {
    /// The figures.
    pub figures: DailyFigures,
    /// Whether they are of a day that is not over, or not computed yet.
    pub is_estimate: bool,
}

/// The statistics. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Statistics {
    infra: Infra,
    visits: Visits,
    leases: Leases,
    zone: Zone,
}

impl Statistics {
    /// Makes the concept.
    pub fn new(infra: Infra, visits: Visits, settings: &Settings) -> Self {
        let owner = infra.ids.owner().to_owned();
        Self {
            leases: Leases::new(infra.db.clone(), infra.clock.clone(), owner),
            visits,
            zone: settings.time_zone,
            infra,
        }
    }

    /// The days of a range that were computed, the earliest first.
    ///
    /// # Errors
    /// `BackwardRange`, `LongRange`; the database's.
    pub async fn computed(&self, from: NaiveDate, to: NaiveDate) -> Result<Vec<Figures>, Error> {
        if to < from {
            return Err(Error::BackwardRange);
        }
        if (to - from).num_days() >= RANGE_DAYS_MAX {
            return Err(Error::LongRange);
        }
        let rows = daily_statistics::Entity::find()
            .filter(daily_statistics::Column::Day.between(from, to))
            .order_by_asc(daily_statistics::Column::Day)
            .all(self.infra.db.conn())
            .await?;
        let over = |figures| Figures {
            figures,
            is_estimate: false,
        };
        Ok(rows.into_iter().map(over).collect())
    }

    /// As `computed`, and an estimate for today and for a yesterday that was not computed yet.
    ///
    /// # Errors
    /// As `computed`; Redis' own.
    pub async fn with_estimates(
        &self,
        from: NaiveDate,
        to: NaiveDate,
    ) -> Result<Vec<Figures>, Error> {
        let mut found = self.computed(from, to).await?;
        let today = self.today();
        for day in [today - Days::new(1), today] {
            let is_known = found.iter().any(|known| known.figures.day == day);
            if is_known || !(from..=to).contains(&day) {
                continue;
            }
            found.push(Figures {
                figures: self.estimate(day).await?,
                is_estimate: true,
            });
        }
        Ok(found)
    }

    /// The last day that was computed, `None` before the first.
    ///
    /// # Errors
    /// The database's.
    pub async fn computed_until(&self) -> Result<Option<NaiveDate>, Error> {
        let last = daily_statistics::Entity::find()
            .order_by_desc(daily_statistics::Column::Day)
            .one(self.infra.db.conn())
            .await?;
        Ok(last.map(|row| row.day))
    }

    /// The day that runs now, where statistics are made.
    pub fn today(&self) -> NaiveDate {
        self.zone.day(self.infra.clock.now_ms())
    }
}
