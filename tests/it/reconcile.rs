//! The check that nothing was lost: clean after an honest sale, and loud about each way in which stores can differ.

use std::time::Duration;

use deadpool_redis::redis::cmd;
use sea_orm::ConnectionTrait;

use crate::support::app::TestApp;
use crate::support::process::run;
use crate::support::sale::{cancel, sandbox_pay, seckill};
use crate::support::stores::Store;
use crate::support::wait::eventually;

const SOON: Duration = Duration::from_secs(10);

/// The invariants that fail, for example `["I1", "I6"]`.
async fn failed(app: &TestApp) -> Vec<&'static str> {
    let checks = app.services().orders.verify().await.unwrap();
    checks
        .into_iter()
        .filter(|check| check.is_failed())
        .map(|check| check.name)
        .collect()
}

/// Sells to three buyers, of whom one cancels and one pays.
async fn small_sale(app: &TestApp) -> i64 {
    let sale = app.sale().await.stock(3).create().await;
    for (number, user) in app.users(3).await.iter().enumerate() {
        let buyer = app.as_user(user);
        let order = seckill(&buyer, &sale.voucher, "request-1").await.accepted();
        match number {
            0 => drop(sandbox_pay(&buyer, &order, "SUCCEED").await.data().clone()),
            1 => drop(cancel(&buyer, &order).await.data().clone()),
            _ => {}
        }
    }
    eventually(SOON, "a clean check", async || failed(app).await.is_empty()).await;
    sale.voucher_id.0
}

async fn breaks(store: Store) {
    let app = TestApp::build().on(store).without_workers().start().await;
    // The steps that workers take, by hand, so that nothing mends what is broken here.
    let voucher = {
        let orders = app.services().orders.clone();
        let stop = tokio_util::sync::CancellationToken::new();
        let working = tokio::spawn({
            let stop = stop.clone();
            async move { orders.run_workers(stop).await }
        });
        let voucher = small_sale(&app).await;
        stop.cancel();
        working.await.unwrap();
        voucher
    };
    let execute = async |sql: String| app.db().execute_unprepared(&sql).await.unwrap();
    let broken = async |names: &[&str], break_it: String, mend: String| {
        execute(break_it.clone()).await;
        assert_eq!(failed(&app).await, names, "{break_it}");
        execute(mend).await;
        assert_eq!(
            failed(&app).await,
            Vec::<&str>::new(),
            "{break_it}, and back"
        );
    };
    broken(
        &["I1"],
        format!("UPDATE sales SET sold = sold + 1 WHERE voucher_id = {voucher}"),
        format!("UPDATE sales SET sold = sold - 1 WHERE voucher_id = {voucher}"),
    )
    .await;
    broken(
        &["I1"],
        format!("UPDATE stock_ledger SET total_delta = total_delta + 1 WHERE voucher_id = {voucher} AND reason = 'OPEN'"),
        format!("UPDATE stock_ledger SET total_delta = total_delta - 1 WHERE voucher_id = {voucher} AND reason = 'OPEN'"),
    )
    .await;
    broken(
        &["I4"],
        "UPDATE payments SET outcome = 'REFUND' WHERE outcome = 'PAID'".to_owned(),
        "UPDATE payments SET outcome = 'PAID' WHERE outcome = 'REFUND'".to_owned(),
    )
    .await;
    broken(
        &["I6"],
        "UPDATE givebacks SET status = 'PENDING' WHERE status = 'DONE'".to_owned(),
        "UPDATE givebacks SET status = 'DONE' WHERE status = 'PENDING'".to_owned(),
    )
    .await;

    let stock = app.redis().key(format_args!("{{v:{voucher}}}:stock"));
    app.redis()
        .query::<i64>(cmd("INCR").arg(&stock))
        .await
        .unwrap();
    assert_eq!(failed(&app).await, ["I5"], "a bare INCR");
    app.redis()
        .query::<i64>(cmd("DECR").arg(&stock))
        .await
        .unwrap();
    // Redis that adds up, but holds the units of other orders than the database.
    let orders = app.redis().key(format_args!("{{v:{voucher}}}:orders"));
    let held: Vec<(String, String)> = app
        .redis()
        .query(cmd("HGETALL").arg(&orders))
        .await
        .unwrap();
    let (order, unit) = &held[0];
    app.redis()
        .query::<i64>(cmd("HDEL").arg(&orders).arg(order))
        .await
        .unwrap();
    app.redis()
        .query::<i64>(cmd("HSET").arg(&orders).arg("12345").arg(unit))
        .await
        .unwrap();
    assert_eq!(
        failed(&app).await,
        ["I5"],
        "a unit of an order that is not there"
    );
    app.redis()
        .query::<i64>(cmd("HDEL").arg(&orders).arg("12345"))
        .await
        .unwrap();
    app.redis()
        .query::<i64>(cmd("HSET").arg(&orders).arg(order).arg(unit))
        .await
        .unwrap();
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_difference_is_found_on_mariadb() {
    breaks(Store::MariaDb).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_difference_is_found_on_postgres() {
    breaks(Store::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_difference_is_found_on_sqlite() {
    breaks(Store::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_prints_a_line_an_invariant_beside_a_running_server() {
    let app = TestApp::build().embedded().start().await;
    small_sale(&app).await;
    let output = run(&["verify"], &app.stores.env()).await;
    let lines: Vec<&str> = output.stdout.lines().collect();
    let begins = [
        "I1 ok", "I2 ok", "I3 n/a", "I4 ok", "I5 ok", "I6 ok", "I7 n/a", "I8 n/a",
    ];
    assert_eq!(
        lines.len(),
        begins.len(),
        "{}{}",
        output.stdout,
        output.stderr
    );
    for (line, begin) in lines.iter().zip(begins) {
        assert!(line.starts_with(begin), "{line}");
    }
    assert!(output.status.success());

    app.db()
        .execute_unprepared("UPDATE sales SET sold = sold - 1 WHERE sold > 0")
        .await
        .unwrap();
    let output = run(&["verify"], &app.stores.env()).await;
    assert!(output.stdout.starts_with("I1 FAIL"), "{}", output.stdout);
    assert_eq!(output.status.code(), Some(1));
    app.close().await;
}
