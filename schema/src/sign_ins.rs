//! Signing in day by day, in the API.

use async_graphql::{Context, InputObject, Object, Result, SimpleObject};
use domain::sign_ins::{SignedDay, Streak};
use domain::users::UserId;

use crate::context::ContextExt;
use crate::error::api_error;
use crate::limits::{Limited, SIGN_INS};
use crate::users::Date;

/// Days in a row.
#[derive(SimpleObject)]
pub struct SignInStreak {
    /// Days signed without a missed one in between. Today is not missed before it is over: five days signed, and not yet
    /// today, are 5.
    days: i32,
    /// Whether today is signed.
    signed_today: bool,
}

impl From<Streak> for SignInStreak {
    fn from(streak: Streak) -> Self {
        Self {
            days: i32::try_from(streak.days).unwrap_or(i32::MAX),
            signed_today: streak.signed_today,
        }
    }
}

/// The days of a year or a month on which somebody signed in.
#[derive(SimpleObject)]
pub struct SignInCalendar {
    /// The year.
    year: i32,
    /// The month, 1 to 12; null for the whole year.
    month: Option<i32>,
    /// The days signed, the earliest first.
    days: Vec<Date>,
    /// Which of them were signed afterwards, the earliest first.
    made_up_days: Vec<Date>,
    /// How many days are signed.
    count: i32,
}

impl SignInCalendar {
    /// Reads what a user signed.
    pub(crate) async fn read(
        ctx: &Context<'_>,
        user: UserId,
        year: i32,
        month: Option<i32>,
    ) -> Result<Self> {
        // A negative month is none either.
        let number = month.map(|month| u32::try_from(month).unwrap_or(0));
        let found = ctx.services().sign_ins.days(user, year, number).await;
        let found = found.map_err(api_error)?;
        let made_up = found.iter().filter(|day| day.is_made_up);
        let date = |day: &SignedDay| Date(day.day);
        Ok(Self {
            year,
            month,
            days: found.iter().map(date).collect(),
            made_up_days: made_up.map(date).collect(),
            count: i32::try_from(found.len()).unwrap_or(i32::MAX),
        })
    }
}

/// Which day to sign.
#[derive(InputObject)]
pub struct SignInInput {
    /// A day to sign afterwards; today in the viewer's time zone by default.
    day: Option<Date>,
}

/// A day is signed.
#[derive(SimpleObject)]
pub struct SignInPayload {
    /// The viewer's streak as it is now.
    streak: SignInStreak,
}

/// Signing in.
#[derive(Default)]
pub struct SignInMutation;

#[Object]
impl SignInMutation {
    /// Signs today in the viewer's time zone, or a missed day of the last 30. A day that is signed already stays so. For
    /// users.
    ///
    /// A day of the calendar counts once, in whatever time zone it is signed. A day that the viewer skipped by moving to
    /// another zone does not count, and does not end the streak.
    ///
    /// `BAD_INPUT` naming `input.day` when it has not come yet, is older than 30 days, or when three other days of its
    /// month were signed afterwards.
    #[graphql(guard = "Limited(&SIGN_INS)")]
    async fn sign_in(&self, ctx: &Context<'_>, input: SignInInput) -> Result<SignInPayload> {
        let user = ctx.require_viewer()?.user_id;
        let day = input.day.map(|day| day.0);
        let streak = ctx.services().sign_ins.sign_in(user, day).await;
        Ok(SignInPayload {
            streak: streak.map_err(api_error)?.into(),
        })
    }
}
