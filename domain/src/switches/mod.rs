//! Feature switches: reads that can be given up at run time, so that the sale goes on. What is answered instead is
//! the business of whoever answers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use deadpool_redis::redis::RedisError;
use entity::switch;
use parking_lot::RwLock;
use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{ActiveValue::Set, ColumnTrait, DbErr, EntityTrait, QueryFilter};
use tokio_util::sync::CancellationToken;

use crate::infra::Infra;
use crate::infra::db::is_unique_violation;
use crate::infra::fault::{Fault, Faulty, database_fault};

/// A change reaches other nodes at once by an event; should that be lost, after this long.
const READ_EVERY: Duration = Duration::from_millis(900);
/// The channel that tells of changes.
const CHANNEL: &str = "switches";

/// A feature that can be switched off. All are on until somebody says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Switch {
    /// Shops in the order of what they sold; without it they come newest first.
    ShopsBySales,
    /// Shops by a part of their name; without it nothing is found.
    ShopSearch,
    /// Shops around a place; without it nothing is found.
    ShopsNearby,
    /// Hot notes as of two seconds ago; without it they are as of ten minutes ago.
    HotBlogs,
    /// Figures that are counted while somebody waits; without them, only those that were computed.
    Statistics,
}

impl Switch {
    /// Every switch there is.
    pub const ALL: [Self; 5] = [
        Self::ShopsBySales,
        Self::ShopSearch,
        Self::ShopsNearby,
        Self::HotBlogs,
        Self::Statistics,
    ];

    /// The name it is stored under.
    pub fn name(self) -> &'static str {
        match self {
            Self::ShopsBySales => "shops_by_sales",
            Self::ShopSearch => "shop_search",
            Self::ShopsNearby => "shops_nearby",
            Self::HotBlogs => "hot_blogs",
            Self::Statistics => "statistics",
        }
    }
}

/// A switch as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchState {
    /// Which.
    pub switch: Switch,
    /// Whether the feature is on.
    pub is_on: bool,
    /// When it was set, in epoch milliseconds; `None` when nobody ever did.
    pub updated_at_ms: Option<i64>,
}

/// Why a switch was not set.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The database's own.
    #[error("the database failed: {0}")]
    Database(#[from] DbErr),
}

impl Faulty for Error {
    fn fault(&self) -> Fault {
        match self {
            Self::Database(e) => database_fault(e),
        }
    }
}

/// The switches of a deployment. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Switches {
    infra: Infra,
    /// What was set, as last read.
    known: Arc<RwLock<HashMap<String, switch::Model>>>,
}

impl Switches {
    /// Makes the concept; everything is on until the first reading.
    pub fn new(infra: Infra) -> Self {
        Self {
            infra,
            known: Arc::default(),
        }
    }

    /// Whether a feature is on, as this node knows it.
    pub fn is_on(&self, switch: Switch) -> bool {
        self.known
            .read()
            .get(switch.name())
            .is_none_or(|row| row.is_on)
    }

    /// Every switch as this node knows it.
    pub fn all(&self) -> Vec<SwitchState> {
        let known = self.known.read();
        let state = |switch: Switch| {
            let row = known.get(switch.name());
            SwitchState {
                switch,
                is_on: row.is_none_or(|r| r.is_on),
                updated_at_ms: row.map(|r| r.updated_at),
            }
        };
        Switch::ALL.into_iter().map(state).collect()
    }

    /// Sets a switch for all nodes; `by` is the user who does. This node knows it at once.
    ///
    /// # Errors
    /// When the database fails; nothing has changed then.
    pub async fn set(&self, switch: Switch, is_on: bool, by: i64) -> Result<SwitchState, Error> {
        let now = self.infra.clock.now_ms();
        if !self.update(switch, is_on, by, now).await? {
            let first = switch::ActiveModel {
                name: Set(switch.name().to_owned()),
                is_on: Set(is_on),
                updated_by: Set(by),
                updated_at: Set(now),
                version: Set(1),
            };
            match switch::Entity::insert(first)
                .exec_without_returning(self.infra.db.conn())
                .await
            {
                Ok(_) => {}
                // Somebody else set it for the first time at the same moment.
                Err(e) if is_unique_violation(&e) => {
                    self.update(switch, is_on, by, now).await?;
                }
                Err(e) => return Err(e.into()),
            }
        }
        self.read().await?;
        if let Err(e) = self.tell(switch).await {
            tracing::debug!(error = %e, "other nodes see the switch at their next reading");
        }
        tracing::info!(
            switch = switch.name(),
            is_on,
            user.id = by,
            "a feature was switched"
        );
        Ok(SwitchState {
            switch,
            is_on,
            updated_at_ms: Some(now),
        })
    }

    /// Reads the switches.
    ///
    /// # Errors
    /// When the database fails; what was known stays.
    pub async fn read(&self) -> Result<(), Error> {
        let rows = switch::Entity::find().all(self.infra.db.conn()).await?;
        *self.known.write() = rows
            .into_iter()
            .map(|row| (row.name.clone(), row))
            .collect();
        Ok(())
    }

    /// Follows the switches until `stop`.
    pub async fn run(&self, stop: CancellationToken) {
        let mut events = self.infra.redis.subscribe(CHANNEL);
        while !stop.is_cancelled() {
            let (switches, db) = (self.clone(), self.infra.db.clone());
            let read = db.run(async move { switches.read().await.map_err(|Error::Database(e)| e) });
            if let Err(e) = read.await {
                tracing::debug!(error = %e, "the switches were not read; they stay as they were");
            }
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(READ_EVERY) => {}
                _ = events.recv() => {}
            }
        }
    }

    async fn update(&self, switch: Switch, is_on: bool, by: i64, now: i64) -> Result<bool, DbErr> {
        let updated = switch::Entity::update_many()
            .col_expr(switch::Column::IsOn, Expr::value(is_on))
            .col_expr(switch::Column::UpdatedBy, Expr::value(by))
            .col_expr(switch::Column::UpdatedAt, Expr::value(now))
            .col_expr(
                switch::Column::Version,
                Expr::col(switch::Column::Version).add(1),
            )
            .filter(switch::Column::Name.eq(switch.name()))
            .exec(self.infra.db.conn())
            .await?;
        Ok(updated.rows_affected == 1)
    }

    async fn tell(&self, switch: Switch) -> Result<(), RedisError> {
        self.infra.redis.publish(CHANNEL, switch.name()).await
    }
}
