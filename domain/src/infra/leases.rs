//! Leases in the database: at most one holder of a name at a time, by the database's time. Not a fence:
//! what a holder writes must be harmless when it comes late.

use entity::lease;
use sea_orm::sea_query::Expr;
use sea_orm::{ActiveValue::Set, ColumnTrait, Condition, DbErr, EntityTrait, QueryFilter};

use super::clock::Clock;
use super::db::{Db, is_unique_violation};

/// Takes, renews and gives back named leases under one owner.
#[derive(Clone, Debug)]
pub struct Leases {
    db: Db,
    clock: Clock,
    owner: String,
}

impl Leases {
    /// Leases held under `owner`, a name that no other process uses.
    pub fn new(db: Db, clock: Clock, owner: String) -> Self {
        Self { db, clock, owner }
    }

    /// Takes or renews the lease for `ttl_ms` milliseconds; `false` when another holds it.
    ///
    /// # Errors
    /// When the database cannot be asked.
    pub async fn hold(&self, name: &str, ttl_ms: i64) -> Result<bool, DbErr> {
        let (leases, name) = (self.clone(), name.to_owned());
        self.db
            .run(async move { leases.take(&name, ttl_ms).await })
            .await
    }

    async fn take(&self, name: &str, ttl_ms: i64) -> Result<bool, DbErr> {
        let now = self.clock.now_ms();
        let free = Condition::any()
            .add(lease::Column::Owner.eq(&self.owner))
            .add(lease::Column::ExpiresAt.lte(now));
        let taken = lease::Entity::update_many()
            .col_expr(lease::Column::Owner, Expr::value(self.owner.clone()))
            .col_expr(lease::Column::ExpiresAt, Expr::value(now + ttl_ms))
            .filter(lease::Column::Name.eq(name))
            .filter(free)
            .exec(self.db.conn())
            .await?;
        if taken.rows_affected == 1 {
            return Ok(true);
        }
        let first = lease::ActiveModel {
            name: Set(name.to_owned()),
            owner: Set(self.owner.clone()),
            expires_at: Set(now + ttl_ms),
        };
        match lease::Entity::insert(first)
            .exec_without_returning(self.db.conn())
            .await
        {
            Ok(_) => Ok(true),
            Err(e) if is_unique_violation(&e) => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Gives the lease back, if it is still ours.
    ///
    /// # Errors
    /// When the database cannot be asked; the lease then runs out by itself.
    pub async fn release(&self, name: &str) -> Result<(), DbErr> {
        let leave = lease::Entity::update_many()
            .col_expr(lease::Column::ExpiresAt, Expr::value(0_i64))
            .filter(lease::Column::Name.eq(name))
            .filter(lease::Column::Owner.eq(&self.owner));
        let db = self.db.clone();
        self.db
            .run(async move { leave.exec(db.conn()).await.map(|_| ()) })
            .await
    }
}
