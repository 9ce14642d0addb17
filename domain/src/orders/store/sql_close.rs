//! Closing unpaid orders, and the record of units that go back.

use std::collections::{BTreeSet, HashMap};

use entity::giveback::{GivebackKind, GivebackStatus};
use entity::order::OrderStatus;
use entity::stock_entry::StockReason;
use entity::{giveback, order, sale, stock_entry};
use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{
    ActiveValue::Set, ColumnTrait, DatabaseTransaction, DbErr, EntityTrait, QueryFilter,
    QueryOrder, QuerySelect,
};

use super::sql::{CHUNK, SqlStore};
use super::sql_apply::{giveback_of_reject, lock_sales, new_reject};
use super::sql_claim::{count_left, lock_offers};
use super::{Barred, Found};
use crate::orders::queued::QueuedOrderV1;
use crate::orders::{CloseReason, OrderId, OrderKey, OrderRow, RejectReason};
use crate::vouchers::{Money, Sale, VoucherId};

impl SqlStore {
    pub(super) async fn close_orders(
        &self,
        orders: &[(OrderId, VoucherId)],
        reason: CloseReason,
    ) -> Result<Vec<OrderRow>, DbErr> {
        if orders.is_empty() {
            return Ok(Vec::new());
        }
        let (orders, clock) = (orders.to_vec(), self.clock.clone());
        self.db
            .write(move |txn| {
                let (orders, now) = (orders.clone(), clock.now_ms());
                Box::pin(async move {
                    let mut closed = Vec::new();
                    let mut vouchers: BTreeSet<i64> =
                        orders.iter().map(|(_, voucher)| voucher.0).collect();
                    let sales = lock_sales(txn, vouchers.clone()).await?;
                    vouchers.retain(|voucher| !sales.contains_key(voucher));
                    let offers = lock_offers(txn, vouchers).await?;
                    for chunk in orders.chunks(CHUNK) {
                        let rows = close_unpaid(txn, chunk, reason, now).await?;
                        give_back(txn, &sales, &rows, now).await?;
                        closed.extend(rows);
                    }
                    count_closed(txn, &sales, &closed, now).await?;
                    count_left(txn, &offers, &closed, now).await?;
                    Ok(closed)
                })
            })
            .await
    }

    pub(super) async fn mark_givebacks_done(
        &self,
        voucher: VoucherId,
        rounds: &[(OrderId, i32)],
        epoch: Option<i64>,
    ) -> Result<u64, DbErr> {
        let (rounds, clock) = (rounds.to_vec(), self.clock.clone());
        self.db
            .write(move |txn| {
                let (rounds, now) = (rounds.clone(), clock.now_ms());
                Box::pin(async move {
                    let sales = lock_sales(txn, BTreeSet::from([voucher.0])).await?;
                    let same_epoch = |sale: &Sale| epoch.is_none_or(|e| e == sale.epoch);
                    if !sales.get(&voucher.0).is_some_and(same_epoch) {
                        return Ok(0);
                    }
                    let mut done = 0;
                    for (round, orders) in by_round(&rounds) {
                        for chunk in orders.chunks(CHUNK) {
                            done += mark_done(txn, chunk, round, now).await?;
                        }
                    }
                    Ok(done)
                })
            })
            .await
    }

    pub(super) async fn bar_order(
        &self,
        key: OrderKey,
        price: Money,
        epoch: i64,
    ) -> Result<Barred, DbErr> {
        let clock = self.clock.clone();
        self.db
            .write(move |txn| {
                let now = clock.now_ms();
                Box::pin(async move {
                    let sales = lock_sales(txn, BTreeSet::from([key.voucher.0])).await?;
                    if let Some(row) = order::Entity::find_by_id(key.order.0).one(txn).await? {
                        return Ok(Barred::Found(Found::Row(row)));
                    }
                    if let Some(row) = entity::order_reject::Entity::find_by_id(key.order.0)
                        .one(txn)
                        .await?
                    {
                        return Ok(Barred::Found(Found::Reject(row)));
                    }
                    if sales.get(&key.voucher.0).is_none_or(|s| s.epoch != epoch) {
                        return Ok(Barred::OtherEpoch);
                    }
                    let row =
                        new_reject(&nowhere(key, &price, epoch), RejectReason::NotPlaced, now);
                    let giveback = giveback_of_reject(&row, now);
                    let insert = sea_orm::IntoActiveModel::into_active_model(row.clone());
                    entity::order_reject::Entity::insert(insert)
                        .exec_without_returning(txn)
                        .await?;
                    giveback::Entity::insert(giveback)
                        .exec_without_returning(txn)
                        .await?;
                    Ok(Barred::Rejected(row))
                })
            })
            .await
    }
}

/// Of an order that is nowhere only the key is known; its slot is taken as the first.
fn nowhere(key: OrderKey, price: &Money, epoch: i64) -> QueuedOrderV1 {
    QueuedOrderV1 {
        v: 1,
        order_id: key.order.0,
        user_id: key.buyer.0,
        voucher_id: key.voucher.0,
        slot: 1,
        price_minor: price.minor,
        currency: price.currency.to_string(),
        reserved_at: crate::infra::ids::made_at_ms(key.order.0),
        epoch,
        request_id: String::new(),
        trace_id: String::new(),
    }
}

async fn close_unpaid(
    txn: &DatabaseTransaction,
    orders: &[(OrderId, VoucherId)],
    reason: CloseReason,
    now: i64,
) -> Result<Vec<OrderRow>, DbErr> {
    let mut rows = order::Entity::find()
        .filter(order::Column::Id.is_in(orders.iter().map(|(order, _)| order.0)))
        .filter(order::Column::Status.eq(OrderStatus::Unpaid))
        .order_by_asc(order::Column::Id)
        .lock_exclusive()
        .all(txn)
        .await?;
    if rows.is_empty() {
        return Ok(rows);
    }
    order::Entity::update_many()
        .col_expr(order::Column::Status, Expr::value(OrderStatus::Closed))
        .col_expr(order::Column::Active, Expr::value(None::<i16>))
        .col_expr(order::Column::ClosedAt, Expr::value(now))
        .col_expr(order::Column::CloseReason, Expr::value(reason))
        .col_expr(
            order::Column::Version,
            Expr::col(order::Column::Version).add(1),
        )
        .filter(order::Column::Id.is_in(rows.iter().map(|r| r.id)))
        .exec(txn)
        .await?;
    for row in &mut rows {
        row.status = OrderStatus::Closed;
        row.active = None;
        row.closed_at = Some(now);
        row.close_reason = Some(reason);
        row.version += 1;
    }
    Ok(rows)
}

/// Records the units that Redis holds to go back; those of ordinary vouchers are in the database alone.
async fn give_back(
    txn: &DatabaseTransaction,
    sales: &HashMap<i64, Sale>,
    closed: &[OrderRow],
    now: i64,
) -> Result<(), DbErr> {
    let of_sales = closed.iter().filter(|r| sales.contains_key(&r.voucher_id));
    let givebacks: Vec<_> = of_sales.map(|r| giveback_of(r, now)).collect();
    if givebacks.is_empty() {
        return Ok(());
    }
    giveback::Entity::insert_many(givebacks)
        .exec_without_returning(txn)
        .await
        .map(|_| ())
}

fn giveback_of(row: &OrderRow, now: i64) -> giveback::ActiveModel {
    giveback::ActiveModel {
        order_id: Set(row.id),
        voucher_id: Set(row.voucher_id),
        user_id: Set(row.user_id),
        slot: Set(row.slot),
        kind: Set(GivebackKind::Close),
        status: Set(GivebackStatus::Pending),
        round: Set(1),
        attempts: Set(0),
        next_at: Set(now),
        created_at: Set(now),
        done_at: Set(None),
    }
}

/// Takes the closed orders out of `sold`, and writes each into the ledger.
async fn count_closed(
    txn: &DatabaseTransaction,
    sales: &HashMap<i64, Sale>,
    closed: &[OrderRow],
    now: i64,
) -> Result<(), DbErr> {
    for (voucher, sale) in sales {
        let mut sold = sale.sold;
        let mut entries = Vec::new();
        for row in closed.iter().filter(|r| r.voucher_id == *voucher) {
            entries.push(stock_entry::ActiveModel {
                voucher_id: Set(*voucher),
                order_id: Set(Some(row.id)),
                reason: Set(StockReason::Close),
                sold_delta: Set(-1),
                total_delta: Set(0),
                sold_before: Set(sold),
                sold_after: Set(sold - 1),
                total_before: Set(sale.total),
                total_after: Set(sale.total),
                created_at: Set(now),
                ..Default::default()
            });
            sold -= 1;
        }
        if entries.is_empty() {
            continue;
        }
        sale::Entity::update_many()
            .col_expr(sale::Column::Sold, Expr::value(sold))
            .filter(sale::Column::VoucherId.eq(*voucher))
            .exec(txn)
            .await?;
        for chunk in entries.chunks(CHUNK) {
            stock_entry::Entity::insert_many(chunk.to_vec())
                .exec_without_returning(txn)
                .await?;
        }
    }
    Ok(())
}

fn by_round(rounds: &[(OrderId, i32)]) -> HashMap<i32, Vec<i64>> {
    let mut orders: HashMap<i32, Vec<i64>> = HashMap::new();
    for (order, round) in rounds {
        orders.entry(*round).or_default().push(order.0);
    }
    orders
}

async fn mark_done(
    txn: &DatabaseTransaction,
    orders: &[i64],
    round: i32,
    now: i64,
) -> Result<u64, DbErr> {
    let done = giveback::Entity::update_many()
        .col_expr(giveback::Column::Status, Expr::value(GivebackStatus::Done))
        .col_expr(giveback::Column::DoneAt, Expr::value(now))
        .filter(giveback::Column::OrderId.is_in(orders.iter().copied()))
        .filter(giveback::Column::Round.eq(round))
        .filter(giveback::Column::Status.eq(GivebackStatus::Pending))
        .exec(txn)
        .await?;
    Ok(done.rows_affected)
}
