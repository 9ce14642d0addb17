//! The waiting lists of sold-out sales, as the database keeps them. Who may wait and who is called is in `waitlist`.

use entity::waiter::{self, Column, WaiterStatus};
use entity::waitlist;
use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{
    ActiveEnum, ActiveModelTrait, ColumnTrait, ConnectionTrait, DatabaseTransaction, DbErr,
    EntityTrait, PaginatorTrait, QueryFilter, QueryOrder, QuerySelect, Select, UpdateMany,
};

use super::{Error, OrderId};
use crate::infra::Infra;
use crate::infra::db::is_unique_violation;
use crate::users::UserId;
use crate::vouchers::VoucherId;

/// Somebody who waits.
pub(super) type Waiter = waiter::Model;

/// The lists. Cheap to clone.
#[derive(Clone)]
pub(super) struct Waiters {
    infra: Infra,
}

/// What became of somebody who joins.
enum Entered {
    NoList,
    Full,
    On(Waiter),
}

impl Waiters {
    pub(super) fn new(infra: Infra) -> Self {
        Self { infra }
    }

    /// Puts somebody at the end of a list; who is on it stays where they are. `None` when it is full.
    pub(super) async fn join(
        &self,
        voucher: VoucherId,
        user: UserId,
        most: i64,
    ) -> Result<Option<Waiter>, Error> {
        let row = Waiter {
            id: self.infra.ids.next()?,
            voucher_id: voucher.0,
            user_id: user.0,
            place: 0,
            status: WaiterStatus::Waiting,
            round: 0,
            order_id: None,
            created_at: self.infra.clock.now_ms(),
        };
        loop {
            let row = row.clone();
            let step = self.infra.db.write(move |txn| {
                let row = row.clone();
                Box::pin(async move { enter(txn, row, most).await })
            });
            match step.await? {
                Entered::NoList => self.make_list(voucher).await?,
                Entered::Full => return Ok(None),
                Entered::On(waiter) => return Ok(Some(waiter)),
            }
        }
    }

    /// Takes somebody off a list, unless a unit is theirs already; `false` when they were not on it.
    pub(super) async fn leave(&self, voucher: VoucherId, user: UserId) -> Result<bool, DbErr> {
        let gone = waiter::Entity::delete_many()
            .filter(Column::VoucherId.eq(voucher.0))
            .filter(Column::UserId.eq(user.0))
            .filter(Column::Status.eq(WaiterStatus::Waiting))
            .exec(self.infra.db.conn())
            .await?;
        Ok(gone.rows_affected == 1)
    }

    pub(super) async fn find(
        &self,
        voucher: VoucherId,
        user: UserId,
    ) -> Result<Option<Waiter>, DbErr> {
        waiter::Entity::find()
            .filter(Column::VoucherId.eq(voucher.0))
            .filter(Column::UserId.eq(user.0))
            .one(self.infra.db.conn())
            .await
    }

    /// The how-manieth of their list somebody is, from 1.
    pub(super) async fn position(&self, waiter: &Waiter) -> Result<i64, DbErr> {
        let before = waiting(VoucherId(waiter.voucher_id)).filter(Column::Place.lte(waiter.place));
        count(before, self.infra.db.conn()).await
    }

    /// How many wait.
    pub(super) async fn length(&self, voucher: VoucherId) -> Result<i64, DbErr> {
        length(voucher, self.infra.db.conn()).await
    }

    /// Those whose turn is next, in their order.
    pub(super) async fn first(&self, voucher: VoucherId, most: u64) -> Result<Vec<Waiter>, DbErr> {
        waiting(voucher)
            .order_by_asc(Column::Place)
            .limit(most)
            .all(self.infra.db.conn())
            .await
    }

    /// Those who have an order without a row, the longest called first.
    pub(super) async fn called(&self, voucher: VoucherId, most: u64) -> Result<Vec<Waiter>, DbErr> {
        waiter::Entity::find()
            .filter(Column::VoucherId.eq(voucher.0))
            .filter(Column::Status.eq(WaiterStatus::Called))
            .order_by_asc(Column::Place)
            .limit(most)
            .all(self.infra.db.conn())
            .await
    }

    /// Vouchers whose lists need a look.
    pub(super) async fn lists(&self) -> Result<Vec<VoucherId>, DbErr> {
        let active = waitlist::Entity::find()
            .filter(waitlist::Column::IsActive.eq(true))
            .order_by_asc(waitlist::Column::VoucherId);
        let found = active.all(self.infra.db.conn()).await?;
        Ok(found.into_iter().map(|l| VoucherId(l.voucher_id)).collect())
    }

    /// A unit is theirs; `false` when they have left meanwhile.
    pub(super) async fn set_called(&self, waiter: &Waiter, order: OrderId) -> Result<bool, DbErr> {
        let called = as_it_was(waiter)
            .col_expr(Column::Status, Expr::value(WaiterStatus::Called.to_value()))
            .col_expr(Column::OrderId, Expr::value(order.0));
        let called = called.exec(self.infra.db.conn()).await?;
        Ok(called.rows_affected == 1)
    }

    /// Puts somebody whose order was rejected back to their old place.
    pub(super) async fn call_again(&self, waiter: &Waiter) -> Result<(), DbErr> {
        as_it_was(waiter)
            .col_expr(
                Column::Status,
                Expr::value(WaiterStatus::Waiting.to_value()),
            )
            .col_expr(Column::OrderId, Expr::value(None::<i64>))
            .col_expr(Column::Round, Expr::col(Column::Round).add(1))
            .exec(self.infra.db.conn())
            .await?;
        Ok(())
    }

    /// Takes somebody off for good.
    pub(super) async fn remove(&self, waiter: &Waiter) -> Result<(), DbErr> {
        waiter::Entity::delete_by_id(waiter.id)
            .filter(Column::Status.eq(waiter.status))
            .exec(self.infra.db.conn())
            .await?;
        Ok(())
    }

    /// Takes everybody off.
    pub(super) async fn clear(&self, voucher: VoucherId) -> Result<(), DbErr> {
        waiter::Entity::delete_many()
            .filter(Column::VoucherId.eq(voucher.0))
            .exec(self.infra.db.conn())
            .await?;
        Ok(())
    }

    /// Lets a list rest that is empty; to be called once Redis knows that it is.
    pub(super) async fn rest(&self, voucher: VoucherId) -> Result<(), DbErr> {
        let step = self.infra.db.write(move |txn| {
            Box::pin(async move {
                if lock(txn, voucher.0).await?.is_none() {
                    return Ok(());
                }
                let any = waiter::Entity::find().filter(Column::VoucherId.eq(voucher.0));
                if count(any, txn).await? == 0 {
                    set_list(voucher.0)
                        .col_expr(waitlist::Column::IsActive, Expr::value(false))
                        .exec(txn)
                        .await?;
                }
                Ok(())
            })
        });
        step.await
    }

    /// Outside the transaction that needs it: a lost race would end that on PostgreSQL.
    async fn make_list(&self, voucher: VoucherId) -> Result<(), DbErr> {
        let first = waitlist::ActiveModel::from(waitlist::Model {
            voucher_id: voucher.0,
            last_place: 0,
            is_active: false,
        });
        match waitlist::Entity::insert(first.reset_all())
            .exec_without_returning(self.infra.db.conn())
            .await
        {
            Err(e) if !is_unique_violation(&e) => Err(e),
            _ => Ok(()),
        }
    }
}

/// How many wait for a unit of a sale.
pub(super) async fn length<C: ConnectionTrait>(voucher: VoucherId, conn: &C) -> Result<i64, DbErr> {
    count(waiting(voucher), conn).await
}

/// Under the lock of the list, so that places grow in the order of commits: nobody slips in before somebody who has
/// heard their position.
async fn enter(txn: &DatabaseTransaction, mut row: Waiter, most: i64) -> Result<Entered, DbErr> {
    let voucher = VoucherId(row.voucher_id);
    let Some(list) = lock(txn, row.voucher_id).await? else {
        return Ok(Entered::NoList);
    };
    let known = waiter::Entity::find()
        .filter(Column::VoucherId.eq(row.voucher_id))
        .filter(Column::UserId.eq(row.user_id));
    if let Some(known) = known.one(txn).await? {
        return Ok(Entered::On(known));
    }
    if length(voucher, txn).await? >= most {
        return Ok(Entered::Full);
    }
    row.place = list.last_place + 1;
    waiter::Entity::insert(waiter::ActiveModel::from(row.clone()).reset_all())
        .exec_without_returning(txn)
        .await?;
    set_list(row.voucher_id)
        .col_expr(waitlist::Column::LastPlace, Expr::value(row.place))
        .col_expr(waitlist::Column::IsActive, Expr::value(true))
        .exec(txn)
        .await?;
    Ok(Entered::On(row))
}

async fn lock(txn: &DatabaseTransaction, voucher: i64) -> Result<Option<waitlist::Model>, DbErr> {
    waitlist::Entity::find_by_id(voucher)
        .lock_exclusive()
        .one(txn)
        .await
}

fn set_list(voucher: i64) -> UpdateMany<waitlist::Entity> {
    waitlist::Entity::update_many().filter(waitlist::Column::VoucherId.eq(voucher))
}

fn waiting(voucher: VoucherId) -> Select<waiter::Entity> {
    waiter::Entity::find()
        .filter(Column::VoucherId.eq(voucher.0))
        .filter(Column::Status.eq(WaiterStatus::Waiting))
}

/// A change of somebody who is still as they were read.
fn as_it_was(waiter: &Waiter) -> UpdateMany<waiter::Entity> {
    waiter::Entity::update_many()
        .filter(Column::Id.eq(waiter.id))
        .filter(Column::Status.eq(waiter.status))
        .filter(Column::Round.eq(waiter.round))
}

async fn count<C: ConnectionTrait>(rows: Select<waiter::Entity>, conn: &C) -> Result<i64, DbErr> {
    Ok(i64::try_from(rows.count(conn).await?).unwrap_or(i64::MAX))
}
