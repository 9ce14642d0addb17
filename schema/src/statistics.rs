//! Figures of each day, in the API. Administrators only.

use std::ops::ControlFlow;

use async_graphql::{Context, InputObject, Object, Result, SimpleObject};
use chrono::{DateTime, Utc};
use domain::statistics::Figures;
use domain::switches::Switch;
use domain::users::Role;

use crate::context::ContextExt;
use crate::degraded::is_off;
use crate::error::api_error;
use crate::limits::{Limited, RECOMPUTATIONS};
use crate::scalars::time;
use crate::users::Date;

/// The figures of a day.
#[derive(SimpleObject)]
pub struct DailyStatistics {
    /// The day, in the server's zone: Asia/Shanghai unless its operator says otherwise.
    day: Date,
    /// Users who were active on the day, within about 1 %.
    dau: i32,
    /// Users who were active on the seven days that end with it, each counted once.
    wau: i32,
    /// Users who were active on the thirty days that end with it, each counted once.
    mau: i32,
    /// Visitors of the day, signed in or not, within about 1 %.
    uv: i32,
    /// Orders written on the day.
    orders: i32,
    /// Orders paid on the day.
    paid_orders: i32,
    /// Whether the day is not over, or not computed yet: then these are the figures so far.
    is_estimate: bool,
    /// When the figures were made.
    computed_at: DateTime<Utc>,
}

impl From<Figures> for DailyStatistics {
    fn from(
        Figures {
            figures,
            is_estimate,
        }: Figures,
    ) -> Self {
        let number = |number| i32::try_from(number).unwrap_or(i32::MAX);
        Self {
            day: Date(figures.day),
            dau: number(figures.dau),
            wau: number(figures.wau),
            mau: number(figures.mau),
            uv: number(figures.uv),
            orders: number(figures.orders),
            paid_orders: number(figures.paid_orders),
            is_estimate,
            computed_at: time(figures.computed_at),
        }
    }
}

/// How far the figures are.
#[derive(SimpleObject)]
pub struct StatisticsProgress {
    /// The last day that was computed; null before the first.
    computed_until: Option<Date>,
    /// The day that is being computed now; null when none is.
    running_day: Option<Date>,
    /// How much of that day is done, 0 to 100; null when none is being computed.
    percent: Option<i32>,
}

/// Reading statistics.
#[derive(Default)]
pub struct StatisticsQuery;

#[Object]
impl StatisticsQuery {
    /// The figures of the days of a range, the earliest first; days that were never computed are left out. Today, and
    /// yesterday until it is computed in the small hours, are estimates. With the switch STATISTICS off there are no
    /// estimates, and the field is named in `extensions.degraded`. Administrators.
    ///
    /// `BAD_INPUT` naming `to` when it lies before `from`, or more than 366 days are asked for.
    async fn statistics(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The first day.")] from: Date,
        #[graphql(desc = "The last day; at most 366 days with the first.")] to: Date,
    ) -> Result<Vec<DailyStatistics>> {
        ctx.require_role(&[Role::Admin])?;
        let statistics = &ctx.services().statistics;
        let found = match is_off(ctx, Switch::Statistics, "statistics") {
            true => statistics.computed(from.0, to.0).await,
            false => statistics.with_estimates(from.0, to.0).await,
        };
        let found = found.map_err(api_error)?;
        Ok(found.into_iter().map(Into::into).collect())
    }

    /// Which day is being computed, and which were. Administrators.
    async fn statistics_progress(&self, ctx: &Context<'_>) -> Result<StatisticsProgress> {
        ctx.require_role(&[Role::Admin])?;
        let statistics = &ctx.services().statistics;
        let until = statistics.computed_until().await.map_err(api_error)?;
        let running = statistics.running().await.map_err(api_error)?;
        Ok(StatisticsProgress {
            computed_until: until.map(Date),
            running_day: running.map(|running| Date(running.day)),
            percent: running.map(|running| i32::try_from(running.percent).unwrap_or(100)),
        })
    }
}

/// A day to compute again.
#[derive(InputObject)]
pub struct RecomputeStatisticsInput {
    /// A day that is over.
    day: Date,
}

/// A day was computed.
#[derive(SimpleObject)]
pub struct RecomputeStatisticsPayload {
    /// Its figures now.
    statistics: DailyStatistics,
}

/// Making statistics.
#[derive(Default)]
pub struct StatisticsMutation;

#[Object]
impl StatisticsMutation {
    /// Computes a day again, in the place of the figures before. Users and visitors are kept for a hundred days; what was
    /// lost of them is not taken from the figures before. Administrators.
    ///
    /// `BAD_INPUT` naming `input.day` when the day is not over.
    #[graphql(guard = "Limited(&RECOMPUTATIONS)")]
    async fn recompute_statistics(
        &self,
        ctx: &Context<'_>,
        input: RecomputeStatisticsInput,
    ) -> Result<RecomputeStatisticsPayload> {
        ctx.require_role(&[Role::Admin])?;
        let go_on = |_, _| ControlFlow::Continue(());
        let computed = ctx.services().statistics.compute(input.day.0, go_on).await;
        let figures = Figures {
            figures: computed.map_err(api_error)?,
            is_estimate: false,
        };
        Ok(RecomputeStatisticsPayload {
            statistics: figures.into(),
        })
    }
}
