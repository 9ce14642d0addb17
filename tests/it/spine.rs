//! The whole way, once on each kind of stores: somebody logs in, takes a voucher, watches the order, pays. The corners
//! of each step have tests of their own.

use std::time::Duration;

use serde_json::json;

use crate::support::app::{Builder, TestApp};
use crate::support::people::random_phone;
use crate::support::sale::{pay, sandbox_pay, seckill};
use crate::support::stores::Store;

const LIMIT: Duration = Duration::from_secs(20);

async fn walk(builder: Builder) {
    let app = builder.start().await;
    let sale = app.sale().await.stock(3).create().await;
    let buyer = app.as_user(&app.log_in(&random_phone()).await);

    let order = seckill(&buyer, &sale.voucher, "once").await.accepted();
    let watch = "subscription($id: ID!) { orderStatus(orderId: $id) { id status } }";
    let mut status =
        crate::support::subscription::Subscription::open(&buyer, watch, json!({ "id": order }))
            .await;
    let seen = status
        .until(LIMIT, |data| data["orderStatus"]["status"] == "UNPAID")
        .await;
    assert!(
        seen.iter()
            .all(|data| data["orderStatus"]["id"] == order.as_str()),
        "{seen:?}"
    );

    pay(&buyer, &order).await.data();
    sandbox_pay(&buyer, &order, "SUCCEED").await.data();
    status
        .until(LIMIT, |data| data["orderStatus"]["status"] == "PAID")
        .await;
    status.stop().await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_mariadb_with_the_bus_in_the_process() {
    walk(TestApp::build()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_mariadb_with_kafka() {
    walk(TestApp::build().with_kafka()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_postgres() {
    walk(TestApp::build().on(Store::Postgres)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_sqlite() {
    walk(TestApp::build().on(Store::Sqlite)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_the_embedded_stores() {
    walk(TestApp::build().embedded()).await;
}
