//! One batch of queued orders, one transaction: lock the sales in id order, read what is known, decide, write.

use std::collections::{BTreeSet, HashMap};

use entity::giveback::{GivebackKind, GivebackStatus};
use entity::order::OrderStatus;
use entity::stock_entry::StockReason;
use entity::{giveback, order, order_reject, sale, stock_entry};
use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{
    ActiveValue::Set, ColumnTrait, DatabaseTransaction, DbErr, EntityTrait, IntoActiveModel,
    QueryFilter, QueryOrder, QuerySelect,
};

use super::sql::{CHUNK, SqlStore};
use crate::orders::apply::{Decision, Judge, Known, Outcome, SaleCount};
use crate::orders::queued::QueuedOrderV1;
use crate::orders::{OrderId, OrderRow, RejectReason, RejectRow};
use crate::users::UserId;
use crate::vouchers::{Sale, VoucherId};

/// What a batch will write.
#[derive(Default)]
struct Writes {
    orders: Vec<OrderRow>,
    rejects: Vec<RejectRow>,
    give_back_again: Vec<i64>,
    ledger: Vec<stock_entry::ActiveModel>,
}

impl SqlStore {
    pub(super) async fn apply_batch(&self, batch: &[QueuedOrderV1]) -> Result<Vec<Outcome>, DbErr> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        let (batch, store) = (batch.to_vec(), self.clone());
        self.db
            .write(move |txn| {
                let (batch, store) = (batch.clone(), store.clone());
                Box::pin(async move { store.apply_in(txn, &batch).await })
            })
            .await
    }

    async fn apply_in(
        &self,
        txn: &DatabaseTransaction,
        batch: &[QueuedOrderV1],
    ) -> Result<Vec<Outcome>, DbErr> {
        let vouchers: BTreeSet<i64> = batch.iter().map(|i| i.voucher_id).collect();
        let sales = lock_sales(txn, vouchers).await?;
        let ids: Vec<i64> = batch.iter().map(|i| i.order_id).collect();
        let mut rows = rows_of(txn, &ids).await?;
        let mut rejects = rejects_of(txn, &ids).await?;
        let mut judge = judge(&sales, &rows, &rejects);
        judge.units = units_of(txn, batch).await?;

        let now = self.clock.now_ms();
        let mut writes = Writes::default();
        let mut decisions = Vec::with_capacity(batch.len());
        for item in batch {
            let decision = judge.decide(item);
            decisions.push(decision);
            let Some(sale) = sales.get(&item.voucher_id) else {
                continue;
            };
            match decision {
                Decision::Insert => {
                    let row = self.new_row(item, sale, now);
                    let after = judge.sales[&VoucherId(item.voucher_id)];
                    writes.ledger.push(sold_one(item, after, now));
                    rows.insert(item.order_id, row.clone());
                    writes.orders.push(row);
                }
                Decision::Reject(reason) => {
                    let row = new_reject(item, reason, now);
                    rejects.insert(item.order_id, row.clone());
                    writes.rejects.push(row);
                }
                Decision::GiveBackAgain => writes.give_back_again.push(item.order_id),
                Decision::DoneBefore | Decision::Foreign | Decision::NoSale => {}
            }
        }
        write(txn, writes, now).await?;
        update_sold(txn, &sales, &judge).await?;
        Ok(batch
            .iter()
            .zip(decisions)
            .map(|(item, decision)| outcome(item, decision, &rows, &rejects))
            .collect())
    }

    fn new_row(&self, item: &QueuedOrderV1, sale: &Sale, now: i64) -> OrderRow {
        let pay_window_ms =
            i64::try_from(self.settings.pay_window.as_millis()).unwrap_or(i64::MAX / 4);
        OrderRow {
            id: item.order_id,
            voucher_id: item.voucher_id,
            shop_id: sale.shop_id,
            user_id: item.user_id,
            slot: item.slot,
            active: Some(1),
            status: OrderStatus::Unpaid,
            price_minor: item.price_minor,
            currency: item.currency.clone(),
            request_id: item.request_id.clone(),
            reserved_at: item.reserved_at,
            epoch: item.epoch,
            created_at: now,
            pay_by: now + pay_window_ms,
            paid_at: None,
            closed_at: None,
            close_reason: None,
            used_at: None,
            version: 1,
            quantity: 1,
            redeem_tag: None,
        }
    }
}

/// Locks sale rows in id order; every transaction that locks orders too does this first.
pub(super) async fn lock_sales(
    txn: &DatabaseTransaction,
    vouchers: BTreeSet<i64>,
) -> Result<HashMap<i64, Sale>, DbErr> {
    let sales = sale::Entity::find()
        .filter(sale::Column::VoucherId.is_in(vouchers))
        .order_by_asc(sale::Column::VoucherId)
        .lock_exclusive()
        .all(txn)
        .await?;
    Ok(sales.into_iter().map(|s| (s.voucher_id, s)).collect())
}

/// The reject row of an order.
pub(super) fn new_reject(item: &QueuedOrderV1, reason: RejectReason, now: i64) -> RejectRow {
    RejectRow {
        order_id: item.order_id,
        voucher_id: item.voucher_id,
        user_id: item.user_id,
        slot: item.slot,
        reason,
        price_minor: item.price_minor,
        currency: item.currency.clone(),
        request_id: item.request_id.clone(),
        reserved_at: item.reserved_at,
        created_at: now,
    }
}

/// The giveback of a rejected order.
pub(super) fn giveback_of_reject(row: &RejectRow, now: i64) -> giveback::ActiveModel {
    giveback::ActiveModel {
        order_id: Set(row.order_id),
        voucher_id: Set(row.voucher_id),
        user_id: Set(row.user_id),
        slot: Set(row.slot),
        kind: Set(GivebackKind::Reject),
        status: Set(GivebackStatus::Pending),
        round: Set(1),
        attempts: Set(0),
        next_at: Set(now),
        created_at: Set(now),
        done_at: Set(None),
    }
}

fn judge(
    sales: &HashMap<i64, Sale>,
    rows: &HashMap<i64, OrderRow>,
    rejects: &HashMap<i64, RejectRow>,
) -> Judge {
    let count = |s: &Sale| SaleCount {
        epoch: s.epoch,
        total: s.total,
        sold: s.sold,
    };
    let known = |r: &OrderRow| Known {
        user: UserId(r.user_id),
        live: r.active.is_some(),
    };
    Judge {
        sales: sales
            .iter()
            .map(|(id, s)| (VoucherId(*id), count(s)))
            .collect(),
        rows: rows
            .iter()
            .map(|(id, r)| (OrderId(*id), known(r)))
            .collect(),
        rejects: rejects.keys().map(|id| OrderId(*id)).collect(),
        ..Judge::default()
    }
}

async fn rows_of(txn: &DatabaseTransaction, ids: &[i64]) -> Result<HashMap<i64, OrderRow>, DbErr> {
    let mut rows = HashMap::new();
    for chunk in ids.chunks(CHUNK) {
        let found = order::Entity::find()
            .filter(order::Column::Id.is_in(chunk.iter().copied()))
            .all(txn)
            .await?;
        rows.extend(found.into_iter().map(|r| (r.id, r)));
    }
    Ok(rows)
}

async fn rejects_of(
    txn: &DatabaseTransaction,
    ids: &[i64],
) -> Result<HashMap<i64, RejectRow>, DbErr> {
    let mut rows = HashMap::new();
    for chunk in ids.chunks(CHUNK) {
        let found = order_reject::Entity::find()
            .filter(order_reject::Column::OrderId.is_in(chunk.iter().copied()))
            .all(txn)
            .await?;
        rows.extend(found.into_iter().map(|r| (r.order_id, r)));
    }
    Ok(rows)
}

async fn units_of(
    txn: &DatabaseTransaction,
    batch: &[QueuedOrderV1],
) -> Result<std::collections::HashSet<(VoucherId, UserId, i32)>, DbErr> {
    let vouchers: BTreeSet<i64> = batch.iter().map(|i| i.voucher_id).collect();
    let users: Vec<i64> = batch
        .iter()
        .map(|i| i.user_id)
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    let mut units = std::collections::HashSet::new();
    for chunk in users.chunks(CHUNK) {
        let held = order::Entity::find()
            .select_only()
            .columns([
                order::Column::VoucherId,
                order::Column::UserId,
                order::Column::Slot,
            ])
            .filter(order::Column::VoucherId.is_in(vouchers.iter().copied()))
            .filter(order::Column::UserId.is_in(chunk.iter().copied()))
            .filter(order::Column::Active.eq(1_i16))
            .into_tuple::<(i64, i64, i32)>()
            .all(txn)
            .await?;
        units.extend(
            held.into_iter()
                .map(|(voucher, user, slot)| (VoucherId(voucher), UserId(user), slot)),
        );
    }
    Ok(units)
}

fn sold_one(item: &QueuedOrderV1, after: SaleCount, now: i64) -> stock_entry::ActiveModel {
    stock_entry::ActiveModel {
        voucher_id: Set(item.voucher_id),
        order_id: Set(Some(item.order_id)),
        reason: Set(StockReason::Order),
        sold_delta: Set(1),
        total_delta: Set(0),
        sold_before: Set(after.sold - 1),
        sold_after: Set(after.sold),
        total_before: Set(after.total),
        total_after: Set(after.total),
        created_at: Set(now),
        ..Default::default()
    }
}

async fn write(txn: &DatabaseTransaction, writes: Writes, now: i64) -> Result<(), DbErr> {
    for chunk in writes.orders.chunks(CHUNK) {
        let rows = chunk
            .iter()
            .cloned()
            .map(IntoActiveModel::into_active_model);
        order::Entity::insert_many(rows)
            .exec_without_returning(txn)
            .await?;
    }
    for chunk in writes.ledger.chunks(CHUNK) {
        stock_entry::Entity::insert_many(chunk.to_vec())
            .exec_without_returning(txn)
            .await?;
    }
    for chunk in writes.rejects.chunks(CHUNK) {
        let givebacks: Vec<_> = chunk.iter().map(|r| giveback_of_reject(r, now)).collect();
        let rows = chunk
            .iter()
            .cloned()
            .map(IntoActiveModel::into_active_model);
        order_reject::Entity::insert_many(rows)
            .exec_without_returning(txn)
            .await?;
        giveback::Entity::insert_many(givebacks)
            .exec_without_returning(txn)
            .await?;
    }
    for chunk in writes.give_back_again.chunks(CHUNK) {
        giveback::Entity::update_many()
            .col_expr(
                giveback::Column::Status,
                Expr::value(GivebackStatus::Pending),
            )
            .col_expr(
                giveback::Column::Round,
                Expr::col(giveback::Column::Round).add(1),
            )
            .col_expr(giveback::Column::NextAt, Expr::value(now))
            .filter(giveback::Column::OrderId.is_in(chunk.iter().copied()))
            .exec(txn)
            .await?;
    }
    Ok(())
}

async fn update_sold(
    txn: &DatabaseTransaction,
    sales: &HashMap<i64, Sale>,
    judge: &Judge,
) -> Result<(), DbErr> {
    for (id, before) in sales {
        let sold = judge.sales[&VoucherId(*id)].sold;
        if sold != before.sold {
            sale::Entity::update_many()
                .col_expr(sale::Column::Sold, Expr::value(sold))
                .filter(sale::Column::VoucherId.eq(*id))
                .exec(txn)
                .await?;
        }
    }
    Ok(())
}

fn outcome(
    item: &QueuedOrderV1,
    decision: Decision,
    rows: &HashMap<i64, OrderRow>,
    rejects: &HashMap<i64, RejectRow>,
) -> Outcome {
    let row = rows.get(&item.order_id).cloned();
    let reject = rejects.get(&item.order_id).cloned();
    match (decision, row, reject) {
        (Decision::NoSale, ..) => Outcome::NoSale,
        (Decision::Insert, Some(row), _) => Outcome::Inserted(row),
        (Decision::DoneBefore, Some(row), _) => Outcome::DoneBefore(row),
        (Decision::GiveBackAgain, Some(row), _) => Outcome::Closed(row),
        (Decision::GiveBackAgain | Decision::Reject(_), _, Some(reject)) => {
            Outcome::Rejected(reject)
        }
        _ => Outcome::Foreign,
    }
}
