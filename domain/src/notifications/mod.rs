//! What users are told: written once an event, kept for a while, told live. What is worth telling is the business of
//! the concepts that notify.
//!
//! A user's notifications are numbered under the lock of their box, so their numbers have no gaps and grow in the order
//! of commits. Everything follows from that: unread is what lies above the read mark, the oldest go as new ones come,
//! and who has heard up to a number has missed none.

mod live;

use entity::notification::{self, Column};
use entity::notification_box;
use sea_orm::sea_query::Expr;
use sea_orm::{
    ActiveModelTrait, ColumnTrait, DatabaseTransaction, DbErr, EntityTrait, QueryFilter,
    QueryOrder, QuerySelect,
};

use crate::define_id;
use crate::infra::Infra;
use crate::infra::bells::Bells;
use crate::infra::db::is_unique_violation;
use crate::infra::fault::{Fault, Faulty, database_fault};
use crate::infra::ids::IdsError;
use crate::infra::turns::Turns;
use crate::users::UserId;

pub use entity::notification::NotificationKind;

define_id!(
    /// The number of a notification.
    NotificationId
);

/// Notifications of a user that are kept; the oldest goes when one more comes. More than anybody scrolls through.
pub const KEPT: i64 = 1_000;
/// The longest text, in characters; what is longer is cut.
pub const TEXT_MAX_CHARS: usize = 200;
/// The channel that tells of new ones.
const CHANNEL: &str = "notifications";

/// What can go wrong with notifications.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The user has no such notification, or no longer.
    #[error("there is no such notification")]
    NotFound,
    /// No id for a new one.
    #[error("no id for a notification: {0}")]
    Ids(#[from] IdsError),
    /// The database.
    #[error("database: {0}")]
    Database(#[from] DbErr),
}

impl Faulty for Error {
    fn fault(&self) -> Fault {
        match self {
            Self::NotFound => Fault::NotFound,
            Self::Ids(_) => Fault::Unavailable,
            Self::Database(e) => database_fault(e),
        }
    }
}

/// Something to tell a user.
#[derive(Clone, Debug)]
pub struct NewNotification {
    /// Whom.
    pub user: UserId,
    /// What it is about.
    pub kind: NotificationKind,
    /// Who brought it about, `None` when nobody did.
    pub actor: Option<UserId>,
    /// The thing it is about, as `<concept>:<number>` in the singular, for example `blog:123`; at most 64 characters.
    pub subject: String,
    /// A few words, cut after 200 characters; `None` when kind and subject say it all.
    pub text: Option<String>,
    /// Names the event among those of the user, at most 128 characters: the same one is told once, as long as what it
    /// told is kept.
    pub key: String,
}

/// What a user was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// The notification.
    pub id: NotificationId,
    /// The how-manieth of its user.
    pub seq: i64,
    /// What it is about.
    pub kind: NotificationKind,
    /// Who brought it about.
    pub actor: Option<UserId>,
    /// The thing it is about, as `<concept>:<number>`.
    pub subject: String,
    /// A few words.
    pub text: Option<String>,
    /// When it was written, in epoch milliseconds.
    pub created_at_ms: i64,
    /// Whether its user has read it.
    pub is_read: bool,
}

impl Notification {
    fn of(row: notification::Model, read_seq: i64) -> Self {
        Self {
            id: NotificationId(row.id),
            seq: row.seq,
            kind: row.kind,
            actor: row.actor_id.map(UserId),
            subject: row.subject,
            text: row.text,
            created_at_ms: row.created_at,
            is_read: row.seq <= read_seq,
        }
    }
}

/// Notifications. Cheap to clone.
#[derive(Clone)]
pub struct Notifications {
    infra: Infra,
    bells: Bells,
    turns: Turns,
}

impl Notifications {
    /// Makes the concept.
    pub fn new(infra: Infra) -> Self {
        let bells = Bells::new(infra.redis.clone(), CHANNEL);
        Self {
            infra,
            bells,
            turns: Turns::default(),
        }
    }

    /// Tells a user something, once for its key: a repeat changes nothing. Call it after the commit of what it tells.
    ///
    /// The oldest of the user's notifications goes when there are more than 1,000.
    ///
    /// # Errors
    /// The database's; nothing is told then, and the call can be repeated.
    pub async fn notify(&self, new: NewNotification) -> Result<(), Error> {
        let user = new.user;
        let row = self.row(new)?;
        let turn = self.turns.take(&[user.0]).await;
        let written = loop {
            let row = row.clone();
            let step = self.infra.db.write(move |txn| {
                let row = row.clone();
                Box::pin(async move { write(txn, row).await })
            });
            match step.await? {
                Written::NoBox => self.make_box(user).await?,
                Written::Before => return Ok(()),
                Written::Now(seq) => break seq,
            }
        };
        drop(turn);
        self.bells.ring(&[(user.0, written)]).await;
        Ok(())
    }

    /// A user's notifications, newest first, at most `limit` of those before the number `before`.
    ///
    /// # Errors
    /// The database's.
    pub async fn of_user(
        &self,
        user: UserId,
        before: Option<i64>,
        limit: u64,
    ) -> Result<Vec<Notification>, Error> {
        let read = self.get_box(user).await?.read_seq;
        let rows = notification::Entity::find()
            .filter(Column::UserId.eq(user.0))
            .filter(Column::Seq.lt(before.unwrap_or(i64::MAX)))
            .order_by_desc(Column::Seq)
            .limit(limit)
            .all(self.infra.db.conn())
            .await?;
        Ok(rows
            .into_iter()
            .map(|r| Notification::of(r, read))
            .collect())
    }

    /// One notification of a user; `None` when it is another's, or no longer kept.
    ///
    /// # Errors
    /// The database's.
    pub async fn get(
        &self,
        user: UserId,
        id: NotificationId,
    ) -> Result<Option<Notification>, Error> {
        let row = notification::Entity::find_by_id(id.0)
            .filter(Column::UserId.eq(user.0))
            .one(self.infra.db.conn())
            .await?;
        let Some(row) = row else { return Ok(None) };
        let read = self.get_box(user).await?.read_seq;
        Ok(Some(Notification::of(row, read)))
    }

    /// How many of the kept notifications of a user are unread.
    ///
    /// # Errors
    /// The database's.
    pub async fn unread_count(&self, user: UserId) -> Result<i64, Error> {
        let known = self.get_box(user).await?;
        Ok(known.last_seq - known.read_seq.max(known.last_seq - KEPT).max(0))
    }

    /// Marks a notification and all before it as read; `None` marks all there are. The mark never goes back.
    ///
    /// # Errors
    /// `NotFound`; the database's.
    pub async fn mark_read(
        &self,
        user: UserId,
        up_to: Option<NotificationId>,
    ) -> Result<(), Error> {
        let seq = match up_to {
            Some(id) => self.get(user, id).await?.ok_or(Error::NotFound)?.seq,
            None => self.get_box(user).await?.last_seq,
        };
        notification_box::Entity::update_many()
            .col_expr(notification_box::Column::ReadSeq, Expr::value(seq))
            .filter(notification_box::Column::UserId.eq(user.0))
            .filter(notification_box::Column::ReadSeq.lt(seq))
            .exec(self.infra.db.conn())
            .await?;
        Ok(())
    }

    fn row(&self, new: NewNotification) -> Result<notification::Model, Error> {
        let cut = |text: String| text.chars().take(TEXT_MAX_CHARS).collect();
        Ok(notification::Model {
            id: self.infra.ids.next()?,
            user_id: new.user.0,
            seq: 0,
            kind: new.kind,
            actor_id: new.actor.map(|a| a.0),
            subject: new.subject,
            text: new.text.map(cut),
            once_key: new.key,
            created_at: self.infra.clock.now_ms(),
        })
    }

    async fn get_box(&self, user: UserId) -> Result<notification_box::Model, DbErr> {
        let found = notification_box::Entity::find_by_id(user.0)
            .one(self.infra.db.conn())
            .await?;
        Ok(found.unwrap_or_else(|| new_box(user)))
    }

    /// Outside the transaction that needs it: a lost race would end that on PostgreSQL.
    async fn make_box(&self, user: UserId) -> Result<(), DbErr> {
        let first = notification_box::ActiveModel::from(new_box(user)).reset_all();
        match notification_box::Entity::insert(first)
            .exec_without_returning(self.infra.db.conn())
            .await
        {
            Err(e) if !is_unique_violation(&e) => Err(e),
            _ => Ok(()),
        }
    }
}

/// How a writing ended.
enum Written {
    /// The user has no box yet.
    NoBox,
    /// The event had been told.
    Before,
    /// It has this number.
    Now(i64),
}

async fn write(txn: &DatabaseTransaction, mut row: notification::Model) -> Result<Written, DbErr> {
    let user = row.user_id;
    let locked = notification_box::Entity::find_by_id(user)
        .lock_exclusive()
        .one(txn)
        .await?;
    let Some(known) = locked else {
        return Ok(Written::NoBox);
    };
    let same = notification::Entity::find()
        .filter(Column::UserId.eq(user))
        .filter(Column::OnceKey.eq(&row.once_key));
    if same.one(txn).await?.is_some() {
        return Ok(Written::Before);
    }
    row.seq = known.last_seq + 1;
    let seq = row.seq;
    notification::Entity::insert(notification::ActiveModel::from(row).reset_all())
        .exec_without_returning(txn)
        .await?;
    notification_box::Entity::update_many()
        .col_expr(notification_box::Column::LastSeq, Expr::value(seq))
        .filter(notification_box::Column::UserId.eq(user))
        .exec(txn)
        .await?;
    if seq > KEPT {
        notification::Entity::delete_many()
            .filter(Column::UserId.eq(user))
            .filter(Column::Seq.lte(seq - KEPT))
            .exec(txn)
            .await?;
    }
    Ok(Written::Now(seq))
}

fn new_box(user: UserId) -> notification_box::Model {
    notification_box::Model {
        user_id: user.0,
        last_seq: 0,
        read_seq: 0,
    }
}
