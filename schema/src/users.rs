//! Accounts in the API: signing in, the viewer, profiles. What a code, a session or a profile may be is `domain::users`.

use async_graphql::{
    Context, Enum, ID, InputObject, InputValueError, InputValueResult, MaybeUndefined, Object,
    Result, Scalar, ScalarType, SimpleObject, Value,
};
use chrono::NaiveDate;
use domain::users::{Phone, ProfileChange, UserCard, UserId, Users};
use tokio::sync::OnceCell;

use crate::context::ContextExt;
use crate::error::{api_error, unauthenticated};
use crate::limits::{Limited, PROFILE_WRITES};
use crate::orders::{Order, OrderStatus, orders_of, own_key};
use crate::pagination::List;
use crate::scalars::{global_id, parse_id};

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
}

/// The person who is signed in.
pub struct Viewer {
    pub(crate) user_id: UserId,
    /// Read when first asked for: most requests of a viewer are about their orders.
    row: OnceCell<domain::users::User>,
}

impl Viewer {
    fn of(user_id: UserId) -> Self {
        Self {
            user_id,
            row: OnceCell::new(),
        }
    }

    fn known(row: domain::users::User) -> Self {
        Self {
            user_id: UserId(row.id),
            row: OnceCell::new_with(Some(row)),
        }
    }

    async fn row(&self, users: &Users) -> Result<&domain::users::User> {
        let read = async || match users.get(self.user_id).await {
            Ok(Some(row)) => Ok(row),
            Ok(None) => Err(unauthenticated()),
            Err(e) => Err(api_error(e)),
        };
        self.row.get_or_try_init(read).await
    }
}

/// The person who is signed in, and what is theirs alone.
#[Object]
impl Viewer {
    /// The viewer as others see them.
    async fn user(&self, ctx: &Context<'_>) -> Result<User> {
        let row = self.row(&ctx.services().users).await?;
        Ok(User {
            row: UserCard::from(row),
            is_self: true,
        })
    }

    /// The viewer's phone number in full, in E.164: a plus and 8 to 15 digits.
    async fn phone(&self, ctx: &Context<'_>) -> Result<&str> {
        Ok(&self.row(&ctx.services().users).await?.phone)
    }

    /// What the viewer may do.
    async fn role(&self, ctx: &Context<'_>) -> Result<UserRole> {
        Ok(self.row(&ctx.services().users).await?.role.into())
    }

    /// The viewer's orders, newest first; those that are still QUEUED are not in the list yet.
    #[graphql(complexity = "first.unwrap_or(20).clamp(0, 50) as usize * child_complexity + 1")]
    async fn orders(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only orders that stand there.")] status: Option<OrderStatus>,
        #[graphql(desc = "How many, 1 to 50; 20 by default.")] first: Option<i32>,
        #[graphql(desc = "The cursor of the last one before, of the same list.")] after: Option<
            String,
        >,
    ) -> Result<List<Order>> {
        orders_of(ctx, self.user_id, status, (first, after)).await
    }

    /// An order of the viewer by id, also one that is still QUEUED; null when there is none.
    async fn order(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The order.")] id: ID,
    ) -> Option<Result<Order>> {
        let key = own_key(ctx, &id).ok()?;
        let found = ctx
            .services()
            .orders
            .get(key)
            .await
            .map_err(api_error)
            .transpose()?;
        Some(found.map(Order))
    }
}

/// Where to send a login code.
#[derive(InputObject)]
pub struct RequestLoginCodeInput {
    /// The phone, with `+` or `00` and its country, or a mainland China mobile number alone. Blanks, dashes, parentheses
    /// and full-width digits are understood.
    phone: String,
}

/// A login code is on its way.
#[derive(SimpleObject)]
pub struct RequestLoginCodePayload {
    /// How long the code can be used, in seconds.
    expires_in_seconds: i32,
    /// When the next code can be asked for, in seconds; the hourly and daily limits may make it later.
    resend_after_seconds: i32,
}

/// A phone and the code that was sent to it.
#[derive(InputObject)]
pub struct LoginInput {
    /// The phone, written in any way that `requestLoginCode` understands.
    phone: String,
    /// The six digits.
    code: String,
}

/// Somebody is signed in.
#[derive(SimpleObject)]
pub struct LoginPayload {
    /// To be sent as `Authorization: Bearer <token>` with every request. Shown only here.
    token: String,
    /// How long the token lives without being used, in seconds. Each use starts it anew, up to seven days in all.
    expires_in_seconds: i32,
    /// Who is signed in now.
    viewer: Viewer,
}

/// Which sessions to end.
#[derive(InputObject, Default)]
pub struct LogoutInput {
    /// Whether to end every session of the viewer, on all their devices, and not only the one of this token.
    #[graphql(default = false)]
    everywhere: bool,
}

/// Sessions have ended.
#[derive(SimpleObject)]
pub struct LogoutPayload {
    /// How many sessions ended.
    logged_out: i32,
}

/// What to change in the viewer's profile. What is left out stays; null clears, except for the nickname.
#[derive(InputObject)]
pub struct UpdateProfileInput {
    /// 1 to 32 characters. Null leaves it as it is.
    nickname: Option<String>,
    /// An http or https address of at most 512 characters.
    avatar_url: MaybeUndefined<String>,
    /// 1 to 60 characters.
    city: MaybeUndefined<String>,
    /// At most 200 characters.
    intro: MaybeUndefined<String>,
    /// As you like.
    gender: MaybeUndefined<Gender>,
    /// From 1900 on, not in the future.
    birthday: MaybeUndefined<Date>,
}

impl From<UpdateProfileInput> for ProfileChange {
    fn from(input: UpdateProfileInput) -> Self {
        Self {
            nickname: input.nickname,
            avatar_url: input.avatar_url.into(),
            city: input.city.into(),
            intro: input.intro.into(),
            gender: Option::<Option<Gender>>::from(input.gender)
                .map(|gender| gender.map(Into::into)),
            birthday: Option::<Option<Date>>::from(input.birthday).map(|day| day.map(|day| day.0)),
        }
    }
}

/// A profile has changed.
#[derive(SimpleObject)]
pub struct UpdateProfilePayload {
    /// The viewer as they are now.
    user: User,
}

/// A user to shut out, or to let in again.
#[derive(InputObject)]
pub struct SetUserBannedInput {
    /// The user.
    user_id: ID,
    /// Whether they are to be shut out.
    banned: bool,
}

/// A user was shut out, or let in again.
#[derive(SimpleObject)]
pub struct SetUserBannedPayload {
    /// The user.
    user: User,
    /// Whether they are shut out now.
    banned: bool,
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
            .transpose()?;
        Some(found.map(User::new))
    }
}

/// Signing in and out, and the viewer's profile.
#[derive(Default)]
pub struct UserMutation;

#[Object]
impl UserMutation {
    /// Sends a login code of six digits to a phone. The code is good for five minutes, once, and for five wrong tries; the
    /// one sent before is no longer good. For everybody.
    ///
    /// `BAD_INPUT` when it is no phone number. `RATE_LIMITED` with `retryAfterMs` past one code in 60 s, 5 an hour or 10 a
    /// day for a phone, or 20 an hour from one address: then the code sent before stays good. `TRY_LATER` when the code
    /// could not be delivered.
    async fn request_login_code(
        &self,
        ctx: &Context<'_>,
        input: RequestLoginCodeInput,
    ) -> Result<RequestLoginCodePayload> {
        let phone = Phone::parse(&input.phone).map_err(api_error)?;
        let sent = ctx
            .services()
            .users
            .request_login_code(&phone, ctx.meta().ip)
            .await
            .map_err(api_error)?;
        Ok(RequestLoginCodePayload {
            expires_in_seconds: seconds(sent.expires_in),
            resend_after_seconds: seconds(sent.resend_after),
        })
    }

    /// Signs in with a login code; the first time, also registers. Each login has a token of its own. For everybody.
    ///
    /// `BAD_INPUT` when the code is wrong, used or too old. `FORBIDDEN` when the account is banned.
    async fn login(&self, ctx: &Context<'_>, input: LoginInput) -> Result<LoginPayload> {
        let phone = Phone::parse(&input.phone).map_err(api_error)?;
        let login = ctx
            .services()
            .users
            .login(&phone, &input.code)
            .await
            .map_err(api_error)?;
        Ok(LoginPayload {
            token: login.token,
            expires_in_seconds: seconds(login.expires_in),
            viewer: Viewer::known(login.user),
        })
    }

    /// Ends this session, or all of the viewer's. Their open sockets close within five seconds. For users.
    async fn logout(
        &self,
        ctx: &Context<'_>,
        #[graphql(default, desc = "Without it, this session ends.")] input: LogoutInput,
    ) -> Result<LogoutPayload> {
        let session = ctx.require_viewer()?;
        let users = &ctx.services().users;
        let ended = if input.everywhere {
            users.logout_everywhere(session.user_id).await
        } else {
            users.logout(session).await
        };
        Ok(LogoutPayload {
            logged_out: i32::try_from(ended.map_err(api_error)?).unwrap_or(i32::MAX),
        })
    }

    /// Changes the viewer's profile. For users.
    ///
    /// `BAD_INPUT` with the argument's path when a text is too short, too long or holds a NUL or a character that changes
    /// the direction of text, when the avatar is no web address, or the birthday lies in the future: then nothing changes.
    #[graphql(guard = "Limited(&PROFILE_WRITES)")]
    async fn update_profile(
        &self,
        ctx: &Context<'_>,
        input: UpdateProfileInput,
    ) -> Result<UpdateProfilePayload> {
        let session = ctx.require_viewer()?;
        let row = ctx
            .services()
            .users
            .update_profile(session, input.into())
            .await
            .map_err(api_error)?;
        Ok(UpdateProfilePayload {
            user: User {
                row: UserCard::from(&row),
                is_self: true,
            },
        })
    }

    /// Shuts a user out, or lets them in again. A ban ends all their sessions, and their open sockets within five seconds;
    /// their orders stay. Administrators.
    async fn set_user_banned(
        &self,
        ctx: &Context<'_>,
        input: SetUserBannedInput,
    ) -> Result<SetUserBannedPayload> {
        ctx.require_role(&[domain::users::Role::Admin])?;
        let id = UserId(parse_id(&input.user_id, "User", "input.userId")?);
        let row = ctx
            .services()
            .users
            .set_banned(id, input.banned)
            .await
            .map_err(api_error)?;
        Ok(SetUserBannedPayload {
            banned: row.banned_at.is_some(),
            user: User::new(UserCard::from(&row)),
        })
    }
}

/// Whole seconds, rounded up, so that waiting for them is enough.
fn seconds(duration: std::time::Duration) -> i32 {
    i32::try_from(duration.as_millis().div_ceil(1000)).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use async_graphql::{ScalarType, Value};

    use super::{Date, seconds};

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

    #[test]
    fn seconds_are_rounded_up() {
        let of = |ms| seconds(std::time::Duration::from_millis(ms));
        assert_eq!((of(0), of(1), of(1_000), of(1_001)), (0, 1, 1, 2));
    }
}
