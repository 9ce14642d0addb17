//! The figures of one day. When a day is computed, and by whom, is `worker`.

use std::cmp::{max, min};
use std::ops::ControlFlow;

use chrono::NaiveDate;
use entity::{daily_statistics, order};
use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{ActiveModelTrait, ColumnTrait, DbErr, EntityTrait, PaginatorTrait, QueryFilter};

use super::worker::Shift;
use super::{DailyFigures, Error, Statistics};
use crate::infra::db::is_unique_violation;
use crate::infra::ids::first_at_ms;
use crate::visits::{Count, Period, Subject};

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;
/// Orders are counted by what their ids say of when they were made, so that no index is needed that a sale would have to
/// keep. An order is paid within a week of being made, the longest that can be configured, or never; and written within
/// a day, or something is very wrong.
const PAID_WITHIN_MS: i64 = 8 * DAY_MS;
/// Clocks of nodes may differ by so much.
const SLACK_MS: i64 = 5_000;

/// Who hears how many of how many parts of a day are done, and may say to stop.
pub(super) enum Audience<'a> {
    /// Nobody.
    Nobody,
    /// Whoever asked for the day.
    Caller(&'a mut (dyn FnMut(u64, u64) -> ControlFlow<()> + Send)),
    /// The worker that holds the lease.
    Worker(Shift<'a>),
}

impl Audience<'_> {
    async fn hear(&mut self, done: u64, total: u64) -> ControlFlow<()> {
        match self {
            Self::Nobody => ControlFlow::Continue(()),
            Self::Caller(progress) => progress(done, total),
            Self::Worker(shift) => shift.hear(done, total).await,
        }
    }
}

/// Orders of a day.
#[derive(Clone, Copy, Debug, Default)]
struct OrderCounts {
    written: i64,
    paid: i64,
}

impl Statistics {
    /// Computes a day that is over, and puts it in the place of what was known of it. Computing it again gives the same.
    ///
    /// `progress` hears how many of how many parts are done, and may say to stop.
    ///
    /// # Errors
    /// `DayNotOver`, `Stopped`; trouble of a store. Nothing is written then.
    pub async fn compute(
        &self,
        day: NaiveDate,
        mut progress: impl FnMut(u64, u64) -> ControlFlow<()> + Send,
    ) -> Result<DailyFigures, Error> {
        if day >= self.today() {
            return Err(Error::DayNotOver);
        }
        self.compute_for(day, Audience::Caller(&mut progress)).await
    }

    pub(super) async fn compute_for(
        &self,
        day: NaiveDate,
        audience: Audience<'_>,
    ) -> Result<DailyFigures, Error> {
        let orders = self.count_orders(day, HOUR_MS, audience).await?;
        let figures = self.figures(day, orders).await?;
        self.replace(figures).await
    }

    /// The figures of a day as far as they are known; written nowhere.
    pub(super) async fn estimate(&self, day: NaiveDate) -> Result<DailyFigures, Error> {
        let orders = self.count_orders(day, DAY_MS, Audience::Nobody).await?;
        self.figures(day, orders).await
    }

    async fn figures(&self, day: NaiveDate, orders: OrderCounts) -> Result<DailyFigures, Error> {
        let count = |subject, period| Count {
            subject,
            day,
            period,
        };
        let counts = [
            count(Subject::Accounts, Period::Day),
            count(Subject::Accounts, Period::Week),
            count(Subject::Accounts, Period::Month),
            count(Subject::Site, Period::Day),
        ];
        let found = self.visits.unique(&counts).await?;
        let number = |at: usize| {
            found
                .get(at)
                .map_or(0, |n| i64::try_from(*n).unwrap_or(i64::MAX))
        };
        Ok(DailyFigures {
            day,
            dau: number(0),
            wau: number(1),
            mau: number(2),
            uv: number(3),
            orders: orders.written,
            paid_orders: orders.paid,
            computed_at: self.infra.clock.now_ms(),
            version: 1,
        })
    }

    /// Counts the orders of a day, in parts of `step_ms` of the time in which they were made.
    async fn count_orders(
        &self,
        day: NaiveDate,
        step_ms: i64,
        mut audience: Audience<'_>,
    ) -> Result<OrderCounts, Error> {
        let (begin, end) = self.zone.span_ms(day);
        let (first, last) = (begin - PAID_WITHIN_MS, end + SLACK_MS);
        let steps = (last - first + step_ms - 1) / step_ms;
        let mut counts = OrderCounts::default();
        for step in 0..steps {
            let from = first + step * step_ms;
            let to = min(last, from + step_ms);
            counts.paid += self
                .count(order::Column::PaidAt, (from, to), (begin, end))
                .await?;
            if to > begin - DAY_MS {
                let written = order::Column::CreatedAt;
                counts.written += self.count(written, (from, to), (begin, end)).await?;
            }
            let number = |parts| u64::try_from(parts).unwrap_or(0);
            let (done, total) = (number(step + 1), number(steps));
            if audience.hear(done, total).await.is_break() {
                return Err(Error::Stopped);
            }
        }
        Ok(counts)
    }

    /// How many orders that were made within a time have a time of their own within another.
    async fn count(
        &self,
        column: order::Column,
        made: (i64, i64),
        within: (i64, i64),
    ) -> Result<i64, DbErr> {
        let count = order::Entity::find()
            .filter(order::Column::Id.gte(first_at_ms(made.0)))
            .filter(order::Column::Id.lt(first_at_ms(made.1)))
            .filter(column.gte(within.0))
            .filter(column.lt(within.1))
            .count(self.infra.db.conn())
            .await?;
        Ok(i64::try_from(count).unwrap_or(i64::MAX))
    }

    /// Writes the figures of a day over those before; returns what the table has then.
    async fn replace(&self, new: DailyFigures) -> Result<DailyFigures, Error> {
        let known = daily_statistics::Entity::find_by_id(new.day);
        let Some(known) = known.one(self.infra.db.conn()).await? else {
            let row = daily_statistics::ActiveModel::from(new.clone()).reset_all();
            let insert = daily_statistics::Entity::insert(row);
            return match insert.exec_without_returning(self.infra.db.conn()).await {
                Ok(_) => Ok(new),
                // Somebody computed the same day at the same moment, from the same sources.
                Err(e) if is_unique_violation(&e) => Ok(new),
                Err(e) => Err(e.into()),
            };
        };
        let new = DailyFigures {
            dau: max(new.dau, known.dau),
            wau: max(new.wau, known.wau),
            mau: max(new.mau, known.mau),
            uv: max(new.uv, known.uv),
            version: known.version + 1,
            ..new
        };
        self.update(&new).await?;
        Ok(new)
    }

    async fn update(&self, new: &DailyFigures) -> Result<(), DbErr> {
        use daily_statistics::Column;
        let numbers = [
            (Column::Dau, new.dau),
            (Column::Wau, new.wau),
            (Column::Mau, new.mau),
            (Column::Uv, new.uv),
            (Column::Orders, new.orders),
            (Column::PaidOrders, new.paid_orders),
            (Column::ComputedAt, new.computed_at),
        ];
        let mut update = daily_statistics::Entity::update_many()
            .filter(Column::Day.eq(new.day))
            .col_expr(Column::Version, Expr::col(Column::Version).add(1));
        for (column, number) in numbers {
            update = update.col_expr(column, Expr::value(number));
        }
        update.exec(self.infra.db.conn()).await.map(|_| ())
    }
}
