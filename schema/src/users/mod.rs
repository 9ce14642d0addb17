//! Accounts in the API: who people are to each other. What a code, a session or a profile may be is `domain::users`.

pub mod mutation;
pub mod viewer;

use async_graphql::{
    Context, Enum, ID, InputValueError, InputValueResult, Object, Result, Scalar, ScalarType, Value,
};
use chrono::NaiveDate;
use domain::users::{UserCard, UserId, zone_of};

use crate::blogs::Blog;
use crate::context::ContextExt;
use crate::degraded::note_missing_redis;
use crate::error::api_error;
use crate::follows;
use crate::pagination::List;
use crate::scalars::{global_id, parse_id};
use viewer::Viewer;

/// A day of the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Date(pub NaiveDate);

/// A day of the calendar without a time of day or a zone, as `YYYY-MM-DD`, for example "2008-02-29".
#[Scalar(specified_by_url = "https://datatracker.ietf.org/doc/html/rfc3339#section-5.6")]
impl ScalarType for Date {
    fn parse(value: Value) -> InputValueResult<Self> {
        let Value::String(text) = &value else {
            return Err(InputValueError::expected_type(value));
        };
        let day = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok().map(Self);
        // The parser alone would also take 2008-2-9.
        day.filter(|day| day.text() == *text)
            .ok_or_else(|| InputValueError::custom("a day is written as YYYY-MM-DD"))
    }

    fn to_value(&self) -> Value {
        Value::String(self.text())
    }
}

impl Date {
    fn text(self) -> String {
        self.0.format("%Y-%m-%d").to_string()
    }
}

/// What kind of person somebody says they are.
#[derive(Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "domain::users::Gender")]
pub enum Gender {
    /// A woman.
    Female,
    /// A man.
    Male,
    /// Neither.
    Other,
}

/// What a user may do beyond buying.
#[derive(Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "domain::users::Role")]
pub enum UserRole {
    /// Buys.
    User,
    /// Also keeps shops, and the vouchers and sales of these shops.
    Merchant,
    /// May do everything.
    Admin,
}

/// A user as everybody sees them: no phone number here.
pub struct User {
    row: UserCard,
    /// Shown to this very user, who is not yet the viewer when they have just logged in.
    is_self: bool,
}

impl User {
    /// A user as others see them; as themselves where the viewer is the same.
    pub fn new(row: UserCard) -> Self {
        Self {
            row,
            is_self: false,
        }
    }

    fn is_shown_to_self(&self, ctx: &Context<'_>) -> bool {
        self.is_self
            || ctx
                .viewer()
                .is_some_and(|session| session.user_id.0 == self.row.id)
    }
}

/// A person with an account. Everybody may read it; the phone number is in `Viewer` only.
#[Object]
impl User {
    /// The global id. Never changes.
    pub(crate) async fn id(&self) -> ID {
        global_id("User", self.row.id)
    }

    /// The name to show, 1 to 32 characters, as the user typed it. Until they choose one, `user_` and random characters.
    async fn nickname(&self) -> &str {
        &self.row.nickname
    }

    /// The address of the user's picture, http or https. Null when they have set none.
    async fn avatar_url(&self) -> Option<&str> {
        self.row.avatar_url.as_deref()
    }

    /// Where the user lives, in their words, 1 to 60 characters. Null when they have not said.
    async fn city(&self) -> Option<&str> {
        self.row.city.as_deref()
    }

    /// What the user says about themselves, at most 200 characters. Null when they have said nothing.
    async fn intro(&self) -> Option<&str> {
        self.row.intro.as_deref()
    }

    /// As the user says. Null when they have not said.
    async fn gender(&self) -> Option<Gender> {
        self.row.gender.map(Gender::from)
    }

    /// The user's day of birth. Null when they have not said, and to everybody but the user.
    async fn birthday(&self, ctx: &Context<'_>) -> Option<Date> {
        let told = self.row.birthday.filter(|_| self.is_shown_to_self(ctx));
        told.map(Date)
    }

    /// The IANA name of the zone whose days are the user's, "Asia/Shanghai" until they set one. Null to everybody but the
    /// user.
    async fn time_zone(&self, ctx: &Context<'_>) -> Option<&'static str> {
        self.is_shown_to_self(ctx)
            .then(|| zone_of(self.row.time_zone.as_deref()).name())
    }

    /// The notes that the user wrote, newest first. `first` is 1 to 50, 20 by default.
    #[graphql(complexity = "first.unwrap_or(20).clamp(0, 50) as usize * child_complexity + 1")]
    async fn blogs(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "How many, 1 to 50; 20 by default.")] first: Option<i32>,
        #[graphql(desc = "The cursor of the last one before.")] after: Option<String>,
    ) -> Result<List<Blog>> {
        crate::blogs::of_author(ctx, UserId(self.row.id), (first, after)).await
    }

    /// Who follows the user, the newest follow first.
    #[graphql(complexity = "first.unwrap_or(20).clamp(0, 50) as usize * child_complexity + 1")]
    async fn followers(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "How many, 1 to 50; 20 by default.")] first: Option<i32>,
        #[graphql(desc = "The cursor of the last one before.")] after: Option<String>,
    ) -> Result<List<User>> {
        follows::followers(ctx, UserId(self.row.id), (first, after)).await
    }

    /// Whom the user follows, the newest follow first.
    #[graphql(complexity = "first.unwrap_or(20).clamp(0, 50) as usize * child_complexity + 1")]
    async fn following(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "How many, 1 to 50; 20 by default.")] first: Option<i32>,
        #[graphql(desc = "The cursor of the last one before.")] after: Option<String>,
    ) -> Result<List<User>> {
        follows::following(ctx, UserId(self.row.id), (first, after)).await
    }

    /// Whom both the user and the viewer follow, those who registered last first. Empty for those who are not signed in.
    #[graphql(complexity = "first.unwrap_or(20).clamp(0, 50) as usize * child_complexity + 1")]
    async fn follows_in_common(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "How many, 1 to 50; 20 by default.")] first: Option<i32>,
        #[graphql(desc = "The cursor of the last one before.")] after: Option<String>,
    ) -> Result<List<User>> {
        follows::in_common(ctx, UserId(self.row.id), (first, after)).await
    }

    /// How many follow the user.
    async fn follower_count(&self, ctx: &Context<'_>) -> Result<i32> {
        Ok(follows::counts(ctx, UserId(self.row.id)).await?.0)
    }

    /// How many the user follows.
    async fn following_count(&self, ctx: &Context<'_>) -> Result<i32> {
        Ok(follows::counts(ctx, UserId(self.row.id)).await?.1)
    }

    /// Whether the viewer follows the user; false for those who are not signed in.
    async fn is_followed_by_viewer(&self, ctx: &Context<'_>) -> Result<bool> {
        follows::is_followed_by_viewer(ctx, UserId(self.row.id)).await
    }

    /// Whether the viewer and the user follow each other; false for those who are not signed in.
    async fn is_mutual(&self, ctx: &Context<'_>) -> Result<bool> {
        follows::is_mutual(ctx, UserId(self.row.id)).await
    }
}

/// Reading accounts.
#[derive(Default)]
pub struct UserQuery;

#[Object]
impl UserQuery {
    /// Who is signed in with this request's token. Null when the request has no token; with one that is no longer good, the
    /// whole request is refused as `UNAUTHENTICATED`.
    async fn viewer(&self, ctx: &Context<'_>) -> Option<Viewer> {
        ctx.viewer().map(|session| Viewer::of(session.user_id))
    }

    /// A user by global id. Null when there is no such user; an id that is none of a user is `BAD_INPUT`. For everybody.
    async fn user(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The user's global id.")] id: ID,
    ) -> Option<Result<User>> {
        let number = match parse_id(&id, "User", "id") {
            Ok(number) => number,
            Err(e) => return Some(Err(e)),
        };
        let found = ctx
            .services()
            .users
            .cards(&[UserId(number)])
            .await
            .map_err(api_error)
            .map(|mut cards| cards.pop())
            .transpose();
        note_missing_redis(ctx);
        let found = found?;
        Some(found.map(User::new))
    }
}

#[cfg(test)]
mod tests {
    use async_graphql::{ScalarType, Value};

    use super::Date;

    #[test]
    fn a_day_has_one_spelling() {
        let day = Date::parse(Value::String("2008-02-29".to_owned())).unwrap();
        assert_eq!(day.to_value(), Value::String("2008-02-29".to_owned()));
        for text in [
            "2009-02-29",
            "2008-2-29",
            "20080229",
            "2008-02-29T00:00:00Z",
            "+2008-02-9",
            "",
        ] {
            assert!(
                Date::parse(Value::String(text.to_owned())).is_err(),
                "{text}"
            );
        }
    }
}
