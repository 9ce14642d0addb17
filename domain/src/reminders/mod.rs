//! Reminders of sales to come: who asked is told a little before the beginning, once for it. When a sale begins is the
//! business of `vouchers`; if that moves, the reminder moves along.

use std::collections::HashMap;
use std::time::Duration;

use entity::reminder::{self, Column};
use entity::sale::{self, SaleStage};
use futures_util::future::try_join_all;
use sea_orm::sea_query::Expr;
use sea_orm::{
    ActiveModelTrait, ColumnTrait, DbErr, EntityTrait, QueryFilter, QueryOrder, QuerySelect,
};
use tokio_util::sync::CancellationToken;

use crate::infra::Infra;
use crate::infra::db::is_unique_violation;
use crate::infra::fault::{Fault, Faulty, database_fault};
use crate::infra::leases::Leases;
use crate::notifications::{self, NewNotification, NotificationKind, Notifications};
use crate::users::UserId;
use crate::vouchers::{Sale, SaleState, VoucherId, state};

/// How often the sales that begin soon are looked at: the most that a reminder comes late.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// One process reminds at a time, to save double work; two would do no harm.
const LEASE: &str = "reminders";
const LEASE_MS: i64 = 15_000;
/// Reminders written at a time.
const BATCH: u64 = 200;
/// Of these, so many at once: they share the database with everybody.
const AT_ONCE: usize = 8;
/// How long a reminder is kept after its sale; it has long been told then, and its sale cannot move any more.
const KEPT_MS: i64 = 24 * 3_600_000;

/// What can go wrong with reminders.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No such voucher, or one that is not in a flash sale.
    #[error("the voucher is not in a flash sale")]
    NoSuchSale(VoucherId),
    /// The user could not be told.
    #[error(transparent)]
    Notifications(#[from] notifications::Error),
    /// The database.
    #[error("database: {0}")]
    Database(#[from] DbErr),
}

impl Faulty for Error {
    fn fault(&self) -> Fault {
        match self {
            Self::NoSuchSale(_) => Fault::NotFound,
            Self::Notifications(e) => e.fault(),
            Self::Database(e) => database_fault(e),
        }
    }
}

/// What became of the wish to be reminded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noted {
    /// It is noted.
    WillRemind {
        /// When, in epoch milliseconds, as the sale stands now; in the past when it begins sooner than reminders come.
        at_ms: i64,
    },
    /// The sale has begun already.
    Begun,
}

/// Reminders. Cheap to clone.
#[derive(Clone)]
pub struct Reminders {
    infra: Infra,
    notifications: Notifications,
    leases: Leases,
    lead_ms: i64,
}

impl Reminders {
    /// Makes the concept; `lead` is how long before a beginning people are told.
    pub fn new(infra: Infra, notifications: Notifications, lead: Duration) -> Self {
        let owner = infra.ids.owner().to_owned();
        Self {
            leases: Leases::new(infra.db.clone(), infra.clock.clone(), owner),
            lead_ms: i64::try_from(lead.as_millis()).unwrap_or(i64::MAX),
            infra,
            notifications,
        }
    }

    /// Notes that a user wants to be reminded of a sale; a repeat changes nothing.
    ///
    /// # Errors
    /// `NoSuchSale`; the database's.
    pub async fn remind(&self, user: UserId, voucher: VoucherId) -> Result<Noted, Error> {
        let (sale, now) = (self.sale(voucher).await?, self.infra.clock.now_ms());
        let sale = sale
            .filter(|s| state(s, now) != SaleState::Draft)
            .ok_or(Error::NoSuchSale(voucher))?;
        if sale.begin_ms <= now || sale.stage == SaleStage::Settled {
            return Ok(Noted::Begun);
        }
        let row = reminder::ActiveModel::from(reminder::Model {
            voucher_id: voucher.0,
            user_id: user.0,
            told_begin_ms: 0,
            created_at: now,
        });
        match reminder::Entity::insert(row.reset_all())
            .exec_without_returning(self.infra.db.conn())
            .await
        {
            Err(e) if !is_unique_violation(&e) => Err(e.into()),
            _ => Ok(Noted::WillRemind {
                at_ms: sale.begin_ms - self.lead_ms,
            }),
        }
    }

    /// Takes the wish back; `false` when there was none.
    ///
    /// # Errors
    /// The database's.
    pub async fn forget(&self, user: UserId, voucher: VoucherId) -> Result<bool, Error> {
        let gone = reminder::Entity::delete_by_id((voucher.0, user.0))
            .exec(self.infra.db.conn())
            .await?;
        Ok(gone.rows_affected == 1)
    }

    /// Whether a user is to be reminded of a sale.
    ///
    /// # Errors
    /// The database's.
    pub async fn is_noted(&self, user: UserId, voucher: VoucherId) -> Result<bool, Error> {
        let found = reminder::Entity::find_by_id((voucher.0, user.0));
        Ok(found.one(self.infra.db.conn()).await?.is_some())
    }

    /// Reminds, until `stop`. For processes with workers, as many as there are.
    pub async fn run_workers(&self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            match self.work().await {
                Ok(0) => {}
                // There may be more.
                Ok(_) => continue,
                Err(e) => tracing::warn!(error = %e, "reminders come later"),
            }
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
    }

    async fn work(&self) -> Result<usize, Error> {
        if !self.leases.hold(LEASE, LEASE_MS).await? {
            return Ok(0);
        }
        self.drop_old().await?;
        self.remind_due().await
    }

    /// Tells those who asked of sales that begin within the lead, and of those that began while nobody told; returns how
    /// many, at most 200 of each sale. May run anywhere, twice: the notification's key is the beginning.
    ///
    /// # Errors
    /// The stores'; those who were not told are told by the next call.
    pub async fn remind_due(&self) -> Result<usize, Error> {
        let now = self.infra.clock.now_ms();
        let starting = sale::Entity::find()
            .filter(sale::Column::Stage.eq(SaleStage::Opened))
            .filter(sale::Column::BeginMs.lte(now + self.lead_ms))
            .filter(sale::Column::EndMs.gt(now))
            .order_by_asc(sale::Column::BeginMs)
            .all(self.infra.db.conn())
            .await?;
        let mut told = 0;
        for sale in starting {
            told += self.remind_of(&sale).await?;
        }
        Ok(told)
    }

    async fn remind_of(&self, sale: &Sale) -> Result<usize, Error> {
        let due = reminder::Entity::find()
            .filter(Column::VoucherId.eq(sale.voucher_id))
            .filter(Column::ToldBeginMs.ne(sale.begin_ms))
            .order_by_asc(Column::UserId)
            .limit(BATCH)
            .all(self.infra.db.conn())
            .await?;
        for some in due.chunks(AT_ONCE) {
            let news = some
                .iter()
                .map(|r| self.notifications.notify(news_of(sale, UserId(r.user_id))));
            try_join_all(news).await?;
        }
        if due.is_empty() {
            return Ok(0);
        }
        reminder::Entity::update_many()
            .col_expr(Column::ToldBeginMs, Expr::value(sale.begin_ms))
            .filter(Column::VoucherId.eq(sale.voucher_id))
            .filter(Column::UserId.is_in(due.iter().map(|r| r.user_id)))
            .exec(self.infra.db.conn())
            .await?;
        Ok(due.len())
    }

    /// Forgets reminders of sales that are long over.
    async fn drop_old(&self) -> Result<(), Error> {
        let mentioned: Vec<i64> = reminder::Entity::find()
            .select_only()
            .column(Column::VoucherId)
            .filter(Column::CreatedAt.lt(self.infra.clock.now_ms() - KEPT_MS))
            .distinct()
            .limit(BATCH)
            .into_tuple()
            .all(self.infra.db.conn())
            .await?;
        if mentioned.is_empty() {
            return Ok(());
        }
        let sales = sale::Entity::find()
            .filter(sale::Column::VoucherId.is_in(mentioned.clone()))
            .all(self.infra.db.conn())
            .await?;
        let ends: HashMap<i64, i64> = sales.iter().map(|s| (s.voucher_id, s.end_ms)).collect();
        let before = self.infra.clock.now_ms() - KEPT_MS;
        let over = |voucher: &i64| ends.get(voucher).is_none_or(|end| *end < before);
        let over: Vec<i64> = mentioned.into_iter().filter(over).collect();
        reminder::Entity::delete_many()
            .filter(Column::VoucherId.is_in(over))
            .exec(self.infra.db.conn())
            .await?;
        Ok(())
    }

    async fn sale(&self, voucher: VoucherId) -> Result<Option<Sale>, DbErr> {
        sale::Entity::find_by_id(voucher.0)
            .one(self.infra.db.conn())
            .await
    }
}

fn news_of(sale: &Sale, user: UserId) -> NewNotification {
    let voucher = sale.voucher_id;
    NewNotification {
        user,
        kind: NotificationKind::SaleStarting,
        actor: None,
        subject: format!("voucher:{voucher}"),
        text: None,
        key: format!("reminder.{voucher}.{}", sale.begin_ms),
    }
}
