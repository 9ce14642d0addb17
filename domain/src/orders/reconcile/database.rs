//! The invariants that the database alone can answer: I1, I2, I4 and I6. Each question is one statement, so that it
//! sees one moment.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use entity::giveback::{self, GivebackStatus};
use entity::order;
use entity::refund::{self, RefundStatus};
use sea_orm::{
    ColumnTrait, DbBackend, DbErr, EntityTrait, FromQueryResult, QueryFilter, QueryOrder,
    QuerySelect, Statement,
};

use super::Check;
use super::offers::check_offers;
use crate::infra::db::Db;
use crate::orders::{Error, OrderRow, Orders};
use crate::vouchers::VoucherId;

/// Sales in one statement.
const PAGE: u64 = 50;
/// Rows read at a time for a report.
const ROWS_PAGE: u64 = 5_000;
/// Things that are named where a check is broken; the first few tell.
const NAMED: u64 = 5;
/// Pieces of pending work that are watched; more are as good as these.
const WATCHED: u64 = 500;
/// How long pending work has to be done before it counts as left lying.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How much longer than promised money may wait for its order: the worker's own period and a retry.
const ORPHAN_GRACE_MS: i64 = 30_000;

/// One question about payments or work: what is wrong with the orders whose ids the statement finds.
struct Question {
    wrong: &'static str,
    sql: &'static str,
}

const PAYMENTS: &[Question] = &[
    Question {
        wrong: "a payment counts, but the order is not paid",
        sql: "SELECT p.order_id AS id FROM payments p LEFT JOIN orders o ON o.id = p.order_id \
              WHERE p.outcome = 'PAID' AND o.paid_at IS NULL",
    },
    Question {
        wrong: "more than one payment counts for an order",
        sql: "SELECT order_id AS id FROM payments WHERE outcome = 'PAID' GROUP BY order_id HAVING COUNT(*) > 1",
    },
    Question {
        wrong: "an order is paid without a payment",
        sql: "SELECT o.id AS id FROM orders o LEFT JOIN payments p ON p.order_id = o.id AND p.outcome = 'PAID' \
              WHERE o.paid_at IS NOT NULL AND o.price_minor > 0 AND p.id IS NULL",
    },
    Question {
        wrong: "money is to go back, but there is no refund of it",
        sql: "SELECT p.order_id AS id FROM payments p LEFT JOIN refunds r \
              ON r.provider = p.provider AND r.transaction_id = p.transaction_id \
              WHERE p.outcome = 'REFUND' AND (r.id IS NULL OR r.amount_minor <> p.amount_minor OR r.currency <> p.currency)",
    },
    Question {
        wrong: "a payment counts and is refunded too",
        sql: "SELECT p.order_id AS id FROM payments p JOIN refunds r \
              ON r.provider = p.provider AND r.transaction_id = p.transaction_id \
              WHERE p.outcome = 'PAID' AND r.reason <> 'BUYER'",
    },
    Question {
        wrong: "a refund has no payment, or one that still waits for its order",
        sql: "SELECT r.order_id AS id FROM refunds r LEFT JOIN payments p \
              ON p.provider = r.provider AND p.transaction_id = r.transaction_id \
              WHERE p.id IS NULL OR p.outcome = 'ORPHAN'",
    },
    Question {
        wrong: "an order was given back, but its money was not, or not as far as the order says",
        sql: "SELECT o.id AS id FROM orders o LEFT JOIN refunds r ON r.order_id = o.id AND r.reason = 'BUYER' \
              WHERE o.status IN ('REFUNDING', 'REFUNDED') AND o.price_minor > 0 \
              AND (r.id IS NULL OR (o.status = 'REFUNDED' AND r.status <> 'DONE'))",
    },
    Question {
        wrong: "money of an order goes back to its buyer, but the order was not given back",
        sql: "SELECT o.id AS id FROM orders o JOIN refunds r ON r.order_id = o.id AND r.reason = 'BUYER' \
              WHERE o.status NOT IN ('REFUNDING', 'REFUNDED')",
    },
];

const WORK: &[Question] = &[
    Question {
        wrong: "an order is closed, but its unit is not recorded to go back",
        sql: "SELECT o.id AS id FROM orders o JOIN sales s ON s.voucher_id = o.voucher_id \
              LEFT JOIN givebacks g ON g.order_id = o.id \
              WHERE o.status = 'CLOSED' AND g.order_id IS NULL",
    },
    Question {
        wrong: "an order is rejected, but its unit is not recorded to go back",
        sql: "SELECT j.order_id AS id FROM order_rejects j LEFT JOIN givebacks g ON g.order_id = j.order_id \
              WHERE g.order_id IS NULL",
    },
    Question {
        wrong: "a unit is recorded to go back, but its order holds it",
        sql: "SELECT g.order_id AS id FROM givebacks g JOIN orders o ON o.id = g.order_id WHERE o.active = 1",
    },
    Question {
        wrong: "an order is both placed and rejected",
        sql: "SELECT j.order_id AS id FROM order_rejects j JOIN orders o ON o.id = j.order_id",
    },
];

#[derive(FromQueryResult)]
struct SaleSums {
    voucher_id: i64,
    total: i64,
    sold: i64,
    live: i64,
    ledger_sold: i64,
    ledger_total: i64,
}

impl SaleSums {
    fn problem(&self) -> Option<String> {
        let Self {
            voucher_id,
            total,
            sold,
            live,
            ledger_sold,
            ledger_total,
        } = self;
        let holds = live <= total && sold == live && ledger_sold == sold && ledger_total == total;
        (!holds).then(|| {
            format!(
                "voucher {voucher_id}: total {total}, sold {sold}, live orders {live}, \
                 the ledger says total {ledger_total}, sold {ledger_sold}"
            )
        })
    }
}

#[derive(FromQueryResult)]
struct Id {
    id: i64,
}

impl Orders {
    /// All orders of a sale that have a row, in the order of their ids. For reports: reads the whole sale.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn rows_of_sale(&self, voucher: VoucherId) -> Result<Vec<OrderRow>, Error> {
        let (mut rows, mut after) = (Vec::new(), i64::MIN);
        loop {
            let page = self
                .ask_database(move |db| async move { rows_after(&db, voucher, after).await })
                .await?;
            let Some(last) = page.last() else {
                return Ok(rows);
            };
            after = last.id;
            rows.extend(page);
        }
    }

    /// I1: live units = sold ≤ total, and the ledger's entries add up to both.
    pub(super) async fn check_sold(&self) -> Result<Check, Error> {
        let (mut sales, mut findings, mut after) = (0, Vec::new(), i64::MIN);
        loop {
            let page = self
                .ask_database(move |db| async move { sale_sums(&db, after).await })
                .await?;
            let Some(last) = page.last() else { break };
            after = last.voucher_id;
            sales += page.len();
            findings.extend(page.iter().filter_map(SaleSums::problem));
        }
        let (offers, others) = self
            .ask_database(|db| async move { check_offers(&db).await })
            .await?;
        findings.extend(others);
        Ok(Check::of(
            "I1",
            format!(
                "live units = sold = ledger, at most total ({sales} sales, {offers} ordinary vouchers)"
            ),
            &findings,
        ))
    }

    /// I2: one live order for each (user, voucher, slot).
    pub(super) async fn check_units(&self) -> Result<Check, Error> {
        const TWICE: Question = Question {
            wrong: "a unit is held by more than one order",
            sql: "SELECT MIN(id) AS id FROM orders WHERE active = 1 GROUP BY voucher_id, user_id, slot HAVING COUNT(*) > 1",
        };
        let findings = self.put(&[TWICE]).await?;
        Ok(Check::of(
            "I2",
            "one live order for each user, voucher and slot",
            &findings,
        ))
    }

    /// I4: each payment counts for its order, or is refunded, once.
    pub(super) async fn check_payments(&self) -> Result<Check, Error> {
        let findings = self.put(PAYMENTS).await?;
        Ok(Check::of(
            "I4",
            "each payment counts or is refunded, once",
            &findings,
        ))
    }

    /// I6: no unit and no money is left on its way.
    pub(super) async fn check_work(&self) -> Result<Check, Error> {
        let mut findings = self.put(WORK).await?;
        findings.extend(self.left_lying().await?);
        Ok(Check::of(
            "I6",
            "no giveback, refund or reject left undone",
            &findings,
        ))
    }

    async fn put(&self, questions: &'static [Question]) -> Result<Vec<String>, Error> {
        let mut findings = Vec::new();
        for Question { wrong, sql } in questions {
            let ids = self
                .ask_database(move |db| async move {
                    find_ids(&db, format!("{sql} LIMIT {NAMED}")).await
                })
                .await?;
            if !ids.is_empty() {
                findings.push(format!("{wrong}: order {}", listed(&ids)));
            }
        }
        Ok(findings)
    }

    /// Pending work that does not get done while we look.
    async fn left_lying(&self) -> Result<Vec<String>, Error> {
        let mut pending = self
            .ask_database(|db| async move { pending_work(&db, None).await })
            .await?;
        let began = Instant::now();
        while !pending.is_empty() && began.elapsed() < PATIENCE {
            tokio::time::sleep(LOOK_EVERY).await;
            let before = pending;
            pending = self
                .ask_database(move |db| async move { pending_work(&db, Some(before)).await })
                .await?;
        }
        let mut findings = Vec::new();
        for (wrong, orders) in [
            ("givebacks are pending", &pending.givebacks),
            ("refunds are pending", &pending.refunds),
        ] {
            if !orders.is_empty() {
                let ids: Vec<i64> = orders.iter().map(|(order, _)| *order).collect();
                findings.push(format!("{} {wrong}: order {}", ids.len(), listed(&ids)));
            }
        }
        let wait_ms =
            i64::try_from(self.inner.settings.sale.orphan_wait.as_millis()).unwrap_or(i64::MAX / 4);
        let latest = self.inner.infra.clock.now_ms() - wait_ms - ORPHAN_GRACE_MS;
        let orphans = format!(
            "SELECT order_id AS id FROM payments WHERE outcome = 'ORPHAN' AND received_at < {latest} LIMIT {NAMED}"
        );
        let orphans = self
            .ask_database(move |db| async move { find_ids(&db, orphans).await })
            .await?;
        if !orphans.is_empty() {
            findings.push(format!(
                "money waits for its order for too long: order {}",
                listed(&orphans)
            ));
        }
        Ok(findings)
    }

    /// Runs a read in a task of its own: a database future must not be dropped half-way.
    async fn ask_database<T, R>(&self, ask: impl FnOnce(Db) -> R) -> Result<T, DbErr>
    where
        T: Send + 'static,
        R: Future<Output = Result<T, DbErr>> + Send + 'static,
    {
        self.inner
            .infra
            .db
            .run(ask(self.inner.infra.db.clone()))
            .await
    }
}

async fn sale_sums(db: &Db, after: i64) -> Result<Vec<SaleSums>, DbErr> {
    // A sum of bigint is no bigint in MariaDB and PostgreSQL.
    let bigint = if db.backend() == DbBackend::MySql {
        "SIGNED"
    } else {
        "BIGINT"
    };
    let sum = |column: &str| {
        format!(
            "(SELECT CAST(COALESCE(SUM(l.{column}), 0) AS {bigint}) FROM stock_ledger l WHERE l.voucher_id = s.voucher_id)"
        )
    };
    let sql = format!(
        "SELECT s.voucher_id, s.total, s.sold, \
         (SELECT COUNT(*) FROM orders o WHERE o.voucher_id = s.voucher_id AND o.active = 1) AS live, \
         {} AS ledger_sold, {} AS ledger_total \
         FROM sales s WHERE s.stage <> 'DRAFT' AND s.voucher_id > {after} ORDER BY s.voucher_id LIMIT {PAGE}",
        sum("sold_delta"),
        sum("total_delta"),
    );
    SaleSums::find_by_statement(Statement::from_string(db.backend(), sql))
        .all(db.conn())
        .await
}

async fn rows_after(db: &Db, voucher: VoucherId, after: i64) -> Result<Vec<OrderRow>, DbErr> {
    order::Entity::find()
        .filter(order::Column::VoucherId.eq(voucher.0))
        .filter(order::Column::Id.gt(after))
        .order_by_asc(order::Column::Id)
        .limit(ROWS_PAGE)
        .all(db.conn())
        .await
}

async fn find_ids(db: &Db, sql: String) -> Result<Vec<i64>, DbErr> {
    let found = Id::find_by_statement(Statement::from_string(db.backend(), sql))
        .all(db.conn())
        .await?;
    Ok(found.into_iter().map(|row| row.id).collect())
}

/// Orders with work pending; of givebacks with the round, for a new round is new work.
#[derive(Default)]
struct Pending {
    givebacks: Vec<(i64, i32)>,
    refunds: Vec<(i64, i32)>,
}

impl Pending {
    fn is_empty(&self) -> bool {
        self.givebacks.is_empty() && self.refunds.is_empty()
    }
}

/// Pending work, or what is still pending of `before`.
async fn pending_work(db: &Db, before: Option<Pending>) -> Result<Pending, DbErr> {
    let mut givebacks = giveback::Entity::find()
        .select_only()
        .columns([giveback::Column::OrderId, giveback::Column::Round])
        .filter(giveback::Column::Status.eq(GivebackStatus::Pending))
        .order_by_asc(giveback::Column::NextAt)
        .limit(WATCHED);
    let mut refunds = refund::Entity::find()
        .select_only()
        .columns([refund::Column::Id, refund::Column::OrderId])
        .filter(refund::Column::Status.eq(RefundStatus::Pending))
        .order_by_asc(refund::Column::NextAt)
        .limit(WATCHED);
    if let Some(before) = &before {
        givebacks = givebacks.filter(
            giveback::Column::OrderId.is_in(before.givebacks.iter().map(|(order, _)| *order)),
        );
        refunds = refunds
            .filter(refund::Column::OrderId.is_in(before.refunds.iter().map(|(order, _)| *order)));
    }
    let mut givebacks = givebacks.into_tuple::<(i64, i32)>().all(db.conn()).await?;
    let refunds = refunds.into_tuple::<(i64, i64)>().all(db.conn()).await?;
    if let Some(before) = before {
        let before: HashSet<(i64, i32)> = before.givebacks.into_iter().collect();
        givebacks.retain(|g| before.contains(g));
    }
    Ok(Pending {
        givebacks,
        refunds: refunds.into_iter().map(|(_, order)| (order, 0)).collect(),
    })
}

fn listed(ids: &[i64]) -> String {
    let named = usize::try_from(NAMED).unwrap_or(usize::MAX);
    let mut text = ids
        .iter()
        .take(named)
        .map(i64::to_string)
        .collect::<Vec<_>>()
        .join(", ");
    if ids.len() >= named {
        text.push_str(", …");
    }
    text
}
