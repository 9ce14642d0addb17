//! Accounts: login codes, sessions, profiles, roles. Not for what a role may do: each concept decides that for itself.

mod phone;

mod code;
mod code_sender;

mod session;
mod session_copies;

mod card;
mod mint;
mod profile;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use deadpool_redis::redis::RedisError;
use entity::user;
use rand::Rng;
use rand::distr::Alphanumeric;
use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{
    ActiveEnum, ActiveModelTrait, ColumnTrait, DbErr, EntityTrait, QueryFilter, UpdateMany,
};

use crate::define_id;
use crate::infra::Infra;
use crate::infra::cache;
use crate::infra::db::is_unique_violation;
use crate::infra::fault::{Fault, Faulty, database_fault, redis_fault};
use crate::infra::ids::IdsError;
use crate::infra::text::TextError;
use crate::infra::zones::{DEFAULT_ZONE, NoSuchZone, Zone};
use crate::settings::Settings;
use card::UserById;
use code::{Code, Codes};
use code_sender::CodeSender;
use session::Sessions;

pub use card::UserCard;
pub use code::LoginLimits;
pub use entity::user::{Gender, Role};
pub use mint::MintedSession;
pub use phone::Phone;
pub use profile::{
    AVATAR_URL_MAX_CHARS, CITY_MAX_CHARS, INTRO_MAX_CHARS, NICKNAME_MAX_CHARS, ProfileChange,
};
pub use session::{SESSION_FULL_LIFE, SESSION_IDLE_LIFE, Session, TokenHash};

define_id!(
    /// The number of a user.
    UserId
);

/// A user as stored; the phone in it is for the user alone.
pub type User = user::Model;

/// Random letters and digits of a nickname that nobody chose: enough that two are rarely the same.
const FIRST_NICKNAME_RANDOM_CHARS: usize = 8;

/// What can go wrong with an account.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is no phone number.
    #[error("this is no phone number; write it with its country, for example +86 138 0013 8000")]
    BadPhone,
    /// The code is wrong, used, burnt or too old; which of them is not told.
    #[error("the code is wrong or no longer valid")]
    WrongCode,
    /// A code was sent to this phone, or for this address, too recently or too often.
    #[error("too many login codes; the next one can be sent in {} s", retry_after.as_secs_f64().ceil())]
    TooManyCodes {
        /// When one will be sent again.
        retry_after: Duration,
    },
    /// The code could not be sent and is not valid.
    #[error("the login code could not be delivered")]
    CodeNotDelivered {
        /// When another one can be sent.
        retry_after: Duration,
    },
    /// The account is banned.
    #[error("this account is banned")]
    Banned,
    /// There is no such user.
    #[error("there is no such user")]
    NoSuchUser,
    /// A text of the profile is refused.
    #[error(transparent)]
    Text(#[from] TextError),
    /// The avatar is no web address.
    #[error("an avatar is an http or https address")]
    BadAvatarUrl,
    /// Nobody has this birthday.
    #[error("a birthday lies between 1900 and today")]
    BadBirthday,
    /// There is no such time zone.
    #[error(transparent)]
    Zone(#[from] NoSuchZone),
    /// Redis holds a session that this program did not write.
    #[error("a stored session cannot be read")]
    BrokenSession,
    /// No id for a new user.
    #[error("no id for a new user: {0}")]
    Ids(#[from] IdsError),
    /// The database.
    #[error("database: {0}")]
    Database(#[from] DbErr),
    /// The cache.
    #[error(transparent)]
    Cache(#[from] cache::Error),
    /// Redis.
    #[error("redis: {0}")]
    Redis(#[from] RedisError),
}

impl Faulty for Error {
    fn fault(&self) -> Fault {
        match self {
            Self::BadPhone => Fault::BadInput {
                argument: "input.phone",
            },
            Self::WrongCode => Fault::BadInput {
                argument: "input.code",
            },
            Self::TooManyCodes { retry_after } => Fault::RateLimited {
                retry_after: *retry_after,
            },
            Self::CodeNotDelivered { retry_after } => Fault::TryLater {
                retry_after: *retry_after,
            },
            Self::Banned => Fault::Forbidden,
            Self::NoSuchUser => Fault::NotFound,
            Self::Text(e) => e.fault(),
            Self::BadAvatarUrl => Fault::BadInput {
                argument: "input.avatarUrl",
            },
            Self::BadBirthday => Fault::BadInput {
                argument: "input.birthday",
            },
            Self::Zone(_) => Fault::BadInput {
                argument: "input.timeZone",
            },
            Self::BrokenSession | Self::Ids(_) => Fault::Internal,
            Self::Database(e) => database_fault(e),
            Self::Cache(e) => e.fault(),
            Self::Redis(e) => redis_fault(e),
        }
    }
}

/// A code is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentCode {
    /// How long it is good.
    pub expires_in: Duration,
    /// When the next one can be asked for, the hourly and daily limits apart.
    pub resend_after: Duration,
}

/// Somebody signed in.
#[derive(Clone)]
pub struct Login {
    /// The token that signs requests in; not stored, so it cannot be shown again.
    pub token: String,
    /// Who.
    pub user: User,
    /// How long the session lives without being used.
    pub expires_in: Duration,
}

struct Inner {
    infra: Infra,
    codes: Codes,
    sender: CodeSender,
    sessions: Sessions,
}

/// The accounts. Cheap to clone.
#[derive(Clone)]
pub struct Users {
    inner: Arc<Inner>,
}

impl std::fmt::Debug for Users {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Users").finish_non_exhaustive()
    }
}

impl Users {
    /// Starts a task that hears which sessions other nodes end; it stops with the last clone.
    pub fn new(infra: Infra, settings: &Settings) -> Self {
        let limits = LoginLimits {
            resend_after: settings.accounts.code_resend_after,
            ..LoginLimits::default()
        };
        let codes = Codes::new(infra.redis.clone(), settings.sale.id_secret.clone(), limits);
        let sender = CodeSender::new(&settings.accounts.code_sender, infra.clock.clone());
        let sessions = Sessions::new(infra.redis.clone());
        describe_metrics();
        let ids = infra.id_column(user::Entity, user::Column::Id);
        infra.cache.know_ids(UserById, ids);
        Self {
            inner: Arc::new(Inner {
                infra,
                codes,
                sender,
                sessions,
            }),
        }
    }

    /// Sends a new code of six digits to a phone; the one before it is no longer valid.
    ///
    /// A code is good for 5 min, once, and for five tries. `ip` is the caller's address; all of an IPv6 /64 count as one.
    ///
    /// # Errors
    /// `TooManyCodes` past one in 60 s, 5 an hour or 10 a day for the phone, or 20 an hour for the address: then nothing
    /// is sent, counted or overwritten. `CodeNotDelivered` when the gateway fails: then the code is gone, but counted.
    pub async fn request_login_code(&self, phone: &Phone, ip: IpAddr) -> Result<SentCode, Error> {
        let code = Code::random();
        let stored = self.inner.codes.store(phone, &code, ip).await;
        if let Err(Error::TooManyCodes { .. }) = stored {
            count_code("throttled");
        }
        stored?;
        let limits = self.inner.codes.limits();
        if let Err(e) = self.inner.sender.send(phone, &code).await {
            count_code("undelivered");
            tracing::warn!(error = %e, "a login code was not delivered");
            self.inner.codes.drop_undelivered(phone, &code).await?;
            return Err(Error::CodeNotDelivered {
                retry_after: limits.resend_after,
            });
        }
        count_code("sent");
        Ok(SentCode {
            expires_in: limits.code_life,
            resend_after: limits.resend_after,
        })
    }

    /// Signs in with a code; the first time, registers. Every login has a session of its own.
    ///
    /// # Errors
    /// `WrongCode`, which costs one of the code's five tries; `Banned`.
    pub async fn login(&self, phone: &Phone, code: &str) -> Result<Login, Error> {
        let code = Code::typed(code).ok_or(Error::WrongCode)?;
        // First of all, so that an outage of the database does not cost the code.
        let known = self.find_by_phone(phone).await?;
        let taken = self.inner.codes.take(phone, &code).await;
        metrics::counter!("lifemate_users_logins_total", "outcome" => if taken.is_ok() { "ok" } else { "refused" }).increment(1);
        taken?;
        let user = match known {
            Some(user) => user,
            None => self.register(phone, Role::User).await?,
        };
        self.start_session(user).await
    }

    /// Whose token this is. `None` when it is unknown or its session is over.
    ///
    /// Lets the session live on for 30 min, at most 7 days in all. Answers from a local copy of at most 5 s, else with
    /// one trip to Redis; the longer life is written at most once a minute.
    ///
    /// # Errors
    /// When Redis is away and there is no copy.
    pub async fn authenticate(&self, token: &str) -> Result<Option<Session>, Error> {
        self.inner.sessions.find(token).await
    }

    /// Whether a session is alive and still has the role that it was found with; lets it live on.
    ///
    /// For open sockets, every few seconds. Asks Redis each time, so that no copy's age adds to the socket's.
    ///
    /// # Errors
    /// When Redis is away: nothing is known then.
    pub async fn is_alive(&self, session: &Session) -> Result<bool, Error> {
        let found = self.inner.sessions.load(session.token_hash).await?;
        Ok(found.as_ref() == Some(session))
    }

    /// Ends one session, on this node at once, on the others at once or within 5 s. Returns 0 when it was over already.
    ///
    /// # Errors
    /// When Redis is away: the session may live on.
    pub async fn logout(&self, session: &Session) -> Result<u64, Error> {
        Ok(self.inner.sessions.end(session).await?)
    }

    /// Ends every session of a user, as `logout` does; returns how many were alive.
    ///
    /// # Errors
    /// When Redis is away: sessions may live on.
    pub async fn logout_everywhere(&self, user: UserId) -> Result<u64, Error> {
        Ok(self.inner.sessions.end_every(user).await?)
    }

    /// The user as the database has them now; `None` when there is no such one.
    ///
    /// # Errors
    /// The database's.
    pub async fn get(&self, id: UserId) -> Result<Option<User>, Error> {
        Ok(user::Entity::find_by_id(id.0)
            .one(self.inner.infra.db.conn())
            .await?)
    }

    /// The zone whose days are the user's.
    ///
    /// # Errors
    /// `NoSuchUser`; the database's.
    pub async fn zone(&self, id: UserId) -> Result<Zone, Error> {
        let user = self.get(id).await?.ok_or(Error::NoSuchUser)?;
        Ok(zone_of(user.time_zone.as_deref()))
    }

    /// Changes what a user tells about himself; texts are stored as they are. Returns the user afterwards.
    ///
    /// # Errors
    /// `Text`, `BadAvatarUrl`, `BadBirthday`, `Zone`: then nothing is changed.
    pub async fn update_profile(
        &self,
        session: &Session,
        change: ProfileChange,
    ) -> Result<User, Error> {
        let now_ms = self.inner.infra.clock.now_ms();
        change.check(now_ms)?;
        if change.is_empty() {
            return self.get(session.user_id).await?.ok_or(Error::NoSuchUser);
        }
        let id = session.user_id;
        self.change(id, change.update(id.0, now_ms)).await
    }

    /// Gives a phone's user a role, in living sessions too; registers the user if need be, so that the first
    /// administrator can be made before anybody has signed in.
    ///
    /// # Errors
    /// The stores'. When Redis is away after the database has the role, repeat: the call is idempotent.
    pub async fn grant(&self, phone: &Phone, role: Role) -> Result<User, Error> {
        let known = match self.find_by_phone(phone).await? {
            Some(user) => user,
            None => self.register(phone, role).await?,
        };
        let now_ms = self.inner.infra.clock.now_ms();
        let update = user::Entity::update_many()
            .filter(user::Column::Id.eq(known.id))
            .filter(user::Column::Role.ne(role))
            .col_expr(user::Column::Role, Expr::value(role.to_value()))
            .col_expr(
                user::Column::Version,
                Expr::col(user::Column::Version).add(1),
            )
            .col_expr(user::Column::UpdatedAt, Expr::value(now_ms));
        let user = self.change(UserId(known.id), update).await?;
        self.inner.sessions.set_role(UserId(known.id), role).await?;
        Ok(user)
    }

    /// Shuts a user out, or lets them in again. A ban ends every session at once, and open sockets within 5 s.
    ///
    /// # Errors
    /// `NoSuchUser`; the stores'. When Redis is away after the database has the ban, repeat: the call is idempotent.
    pub async fn set_banned(&self, id: UserId, banned: bool) -> Result<User, Error> {
        let now_ms = self.inner.infra.clock.now_ms();
        let since = banned.then_some(now_ms);
        let changes = match banned {
            true => user::Column::BannedAt.is_null(),
            false => user::Column::BannedAt.is_not_null(),
        };
        let update = user::Entity::update_many()
            .filter(user::Column::Id.eq(id.0))
            .filter(changes)
            .col_expr(user::Column::BannedAt, Expr::value(since))
            .col_expr(
                user::Column::Version,
                Expr::col(user::Column::Version).add(1),
            )
            .col_expr(user::Column::UpdatedAt, Expr::value(now_ms));
        let user = self.change(id, update).await?;
        if banned {
            let ended = self.logout_everywhere(id).await?;
            tracing::info!(user.id = id.0, sessions = ended, "a user was banned");
        }
        Ok(user)
    }

    /// Makes `count` users with a session each, for drills and benchmarks; thousands a second.
    ///
    /// # Errors
    /// The stores'; users made before the error stay.
    pub async fn mint_sessions(&self, count: u32) -> Result<Vec<MintedSession>, Error> {
        mint::mint(self, count).await
    }

    /// Makes a change of one row, and answers the row afterwards.
    /// Takes an avatar that is about to go from the user who shows it; another one stays.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn drop_avatar(&self, id: UserId, url: &str) -> Result<(), Error> {
        let Some(user) = self.get(id).await? else {
            return Ok(());
        };
        if user.avatar_url.as_deref() == Some(url) {
            let now_ms = self.inner.infra.clock.now_ms();
            let change = ProfileChange {
                avatar_url: Some(None),
                ..ProfileChange::default()
            };
            let update = change.update(id.0, now_ms);
            let same = user::Column::AvatarUrl.eq(url);
            self.change(id, update.filter(same)).await?;
        }
        Ok(())
    }

    async fn change(&self, id: UserId, update: UpdateMany<user::Entity>) -> Result<User, Error> {
        let users = self.clone();
        let write = async move {
            update.exec(users.inner.infra.db.conn()).await?;
            let user = users.get(id).await?.ok_or(Error::NoSuchUser)?;
            Ok((user.version, user))
        };
        let cache = &self.inner.infra.cache;
        cache.write_then_invalidate(UserById, id, write).await
    }

    /// The user with a phone, `None` when nobody has registered with it.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn find_by_phone(&self, phone: &Phone) -> Result<Option<User>, DbErr> {
        user::Entity::find()
            .filter(user::Column::Phone.eq(phone.e164()))
            .one(self.inner.infra.db.conn())
            .await
    }

    /// Of two that register one phone at once, both get the same user.
    async fn register(&self, phone: &Phone, role: Role) -> Result<User, Error> {
        let row = new_row(&self.inner.infra, phone.e164().to_owned(), role)?;
        let insert = user::Entity::insert(user::ActiveModel::from(row.clone()).reset_all());
        match insert
            .exec_without_returning(self.inner.infra.db.conn())
            .await
        {
            Ok(_) => {
                tracing::debug!(user.id = row.id, "a user registered");
                let cache = &self.inner.infra.cache;
                cache
                    .invalidate(UserById, &UserId(row.id), row.version)
                    .await;
                Ok(row)
            }
            Err(e) if is_unique_violation(&e) => {
                self.find_by_phone(phone).await?.ok_or(Error::Database(e))
            }
            Err(e) => Err(e.into()),
        }
    }

    /// The user is read again once the session is listed: a role granted in between has either told the session, or is
    /// seen here.
    async fn start_session(&self, user: User) -> Result<Login, Error> {
        let id = UserId(user.id);
        if user.banned_at.is_some() {
            return Err(Error::Banned);
        }
        let token = self.inner.sessions.start(id, user.role).await?;
        let now = self.get(id).await?.ok_or(Error::NoSuchUser)?;
        if now.banned_at.is_some() {
            self.inner.sessions.end_every(id).await?;
            return Err(Error::Banned);
        }
        if now.role != user.role {
            self.inner.sessions.set_role(id, now.role).await?;
        }
        Ok(Login {
            token,
            user: now,
            expires_in: SESSION_IDLE_LIFE,
        })
    }
}

impl Session {
    /// Whether the user may do everything.
    pub fn is_admin(&self) -> bool {
        self.role == Role::Admin
    }
}

/// The zone of this name; the default where none was set.
pub fn zone_of(name: Option<&str>) -> Zone {
    name.and_then(|name| name.parse().ok())
        .unwrap_or(DEFAULT_ZONE)
}

/// A user who has told nothing yet.
fn new_row(infra: &Infra, phone: String, role: Role) -> Result<User, IdsError> {
    let now_ms = infra.clock.now_ms();
    let random: String = rand::rng()
        .sample_iter(Alphanumeric)
        .take(FIRST_NICKNAME_RANDOM_CHARS)
        .map(char::from)
        .collect();
    Ok(User {
        id: infra.ids.next()?,
        phone,
        nickname: format!("user_{}", random.to_lowercase()),
        avatar_url: None,
        city: None,
        intro: None,
        gender: None,
        birthday: None,
        role,
        banned_at: None,
        time_zone: None,
        created_at: now_ms,
        updated_at: now_ms,
        version: 1,
    })
}

fn count_code(outcome: &'static str) {
    metrics::counter!("lifemate_users_login_codes_total", "outcome" => outcome).increment(1);
}

fn describe_metrics() {
    metrics::describe_counter!(
        "lifemate_users_login_codes_total",
        "Login codes asked for: sent, throttled or undelivered."
    );
    metrics::describe_counter!(
        "lifemate_users_logins_total",
        "Login tries with a well-formed code: ok or refused."
    );
}
