//! The books of ordinary vouchers, as part of I1.

use sea_orm::{DbBackend, DbErr, FromQueryResult, Statement};

use crate::infra::db::Db;

/// Offers in one statement.
const PAGE: usize = 200;

#[derive(FromQueryResult)]
struct OfferSums {
    voucher_id: i64,
    total: Option<i64>,
    sold: i64,
    live: i64,
    ledger_sold: i64,
    ledger_total: i64,
}

impl OfferSums {
    fn problem(&self) -> Option<String> {
        let Self {
            voucher_id,
            total,
            sold,
            live,
            ledger_sold,
            ledger_total,
        } = self;
        let holds = total.is_none_or(|total| *live <= total)
            && sold == live
            && ledger_sold == sold
            && *ledger_total == total.unwrap_or(0);
        (!holds).then(|| {
            format!(
                "ordinary voucher {voucher_id}: total {total:?}, sold {sold}, live units {live}, \
                 the ledger says total {ledger_total}, sold {ledger_sold}"
            )
        })
    }
}

/// How many offers there are, and what is wrong with their books.
pub(super) async fn check_offers(db: &Db) -> Result<(usize, Vec<String>), DbErr> {
    let (mut offers, mut findings, mut after) = (0, Vec::new(), i64::MIN);
    loop {
        let page = sums(db, after).await?;
        let Some(last) = page.last() else {
            return Ok((offers, findings));
        };
        after = last.voucher_id;
        offers += page.len();
        findings.extend(page.iter().filter_map(OfferSums::problem));
    }
}

async fn sums(db: &Db, after: i64) -> Result<Vec<OfferSums>, DbErr> {
    // A sum is no bigint in MariaDB and PostgreSQL.
    let bigint = if db.backend() == DbBackend::MySql {
        "SIGNED"
    } else {
        "BIGINT"
    };
    let sum = |column: &str, rows: &str| {
        format!("(SELECT CAST(COALESCE(SUM({column}), 0) AS {bigint}) FROM {rows})")
    };
    let ledger = "stock_ledger l WHERE l.voucher_id = f.voucher_id";
    let sql = format!(
        "SELECT f.voucher_id, f.total, f.sold, {} AS live, {} AS ledger_sold, {} AS ledger_total \
         FROM offers f WHERE f.voucher_id > {after} ORDER BY f.voucher_id LIMIT {PAGE}",
        sum(
            "o.quantity",
            "orders o WHERE o.voucher_id = f.voucher_id AND o.active = 1"
        ),
        sum("l.sold_delta", ledger),
        sum("l.total_delta", ledger),
    );
    OfferSums::find_by_statement(Statement::from_string(db.backend(), sql))
        .all(db.conn())
        .await
}
