//! Signing in and out, the viewer's profile, and shutting users out.

use async_graphql::{Context, ID, InputObject, MaybeUndefined, Object, Result, SimpleObject};
use domain::uploads::ImageId;
use domain::users::{Phone, ProfileChange, Session, UserCard, UserId};

use super::viewer::Viewer;
use super::{Date, Gender, User};
use crate::context::ContextExt;
use crate::error::{api_error, bad_input};
use crate::limits::{Limited, PROFILE_WRITES};
use crate::scalars::parse_id;

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
    /// A picture of the viewer's from `POST /uploads`, instead of an address.
    avatar_image_id: Option<ID>,
    /// 1 to 60 characters.
    city: MaybeUndefined<String>,
    /// At most 200 characters.
    intro: MaybeUndefined<String>,
    /// As you like.
    gender: MaybeUndefined<Gender>,
    /// From 1900 on, not in the future.
    birthday: MaybeUndefined<Date>,
    /// The IANA name of the zone whose days are the viewer's, for example "America/New_York". Null goes back to
    /// Asia/Shanghai.
    time_zone: MaybeUndefined<String>,
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
            time_zone: input.time_zone.into(),
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
    /// the direction of text, when the avatar is no web address or no picture of the viewer's, the birthday lies in the
    /// future, or there is no such time zone: then nothing changes.
    #[graphql(guard = "Limited(&PROFILE_WRITES)")]
    async fn update_profile(
        &self,
        ctx: &Context<'_>,
        input: UpdateProfileInput,
    ) -> Result<UpdateProfilePayload> {
        let session = ctx.require_viewer()?;
        let picture = uploaded_avatar(ctx, session, &input).await?;
        let mut change = ProfileChange::from(input);
        if picture.is_some() {
            change.avatar_url = Some(picture);
        }
        let row = ctx
            .services()
            .users
            .update_profile(session, change)
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

/// The address of the picture that is to be the avatar; `None`: no picture is named.
async fn uploaded_avatar(
    ctx: &Context<'_>,
    session: &Session,
    input: &UpdateProfileInput,
) -> Result<Option<String>> {
    let Some(id) = &input.avatar_image_id else {
        return Ok(None);
    };
    let argument = "input.avatarImageId";
    if !input.avatar_url.is_undefined() {
        return Err(bad_input(argument, "an address or a picture, not both"));
    }
    let id = ImageId(parse_id(id, "Image", argument)?);
    let uploads = &ctx.services().uploads;
    let image = uploads.require_avatar(session, id).await;
    Ok(Some(uploads.lasting_url(&image.map_err(api_error)?)))
}

/// Whole seconds, rounded up, so that waiting for them is enough.
fn seconds(duration: std::time::Duration) -> i32 {
    i32::try_from(duration.as_millis().div_ceil(1000)).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::seconds;

    #[test]
    fn seconds_are_rounded_up() {
        let of = |ms| seconds(std::time::Duration::from_millis(ms));
        assert_eq!((of(0), of(1), of(1_000), of(1_001)), (0, 1, 1, 2));
    }
}
