//! Money: signed callbacks early, late, twice, wrong; each payment counts once or goes back once.

use std::time::Duration;

use domain::infra::ids::made_at_ms;
use entity::{payment, refund};
use futures_util::future::join_all;
use hmac::{Hmac, Mac};
use sea_orm::{EntityTrait, PaginatorTrait};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::support::app::TestApp;
use crate::support::client::Client;
use crate::support::sale::{cancel, order as read_order, pay, sandbox_pay, seckill};
use crate::support::stores::WEBHOOK_SECRET;
use crate::support::wait::eventually;

const LIMIT: Duration = Duration::from_secs(20);
const PATH: &str = "/webhooks/payments/sandbox";

/// Where a callback goes, its time and signature, its body, and how it is answered.
type Case<'a> = (&'a str, Option<&'a str>, Option<&'a str>, &'a str, u16);

fn now_secs() -> i64 {
    chrono::Utc::now().timestamp()
}

fn sign(timestamp: &str, body: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(WEBHOOK_SECRET.as_bytes()).unwrap();
    mac.update(format!("{timestamp}.{body}").as_bytes());
    hex::encode(mac.finalize().into_bytes())
}

fn body(order: &str, transaction: &str, amount_minor: i64) -> String {
    let fields = json!({
        "transactionId": transaction, "orderId": order, "amountMinor": amount_minor, "currency": "CNY", "status": "SUCCEEDED",
    });
    fields.to_string()
}

/// Posts a callback as the provider does; returns the status.
async fn call_back(client: &Client, body: &str) -> u16 {
    let timestamp = now_secs().to_string();
    let signature = sign(&timestamp, body);
    post(client, PATH, Some(&timestamp), Some(&signature), body).await
}

async fn post(
    client: &Client,
    path: &str,
    timestamp: Option<&str>,
    signature: Option<&str>,
    body: &str,
) -> u16 {
    let mut headers = vec![("content-type", "application/json")];
    headers.extend(timestamp.map(|t| ("x-lifemate-timestamp", t)));
    headers.extend(signature.map(|s| ("x-lifemate-signature", s)));
    client
        .post(path, &headers, body.to_owned())
        .await
        .status()
        .as_u16()
}

async fn until(buyer: &Client, order: &str, status: &str) -> Value {
    eventually(LIMIT, status, async || {
        let seen = read_order(buyer, order).await;
        (seen["status"] == status).then_some(seen)
    })
    .await
}

async fn until_refunded(buyer: &Client, order: &str) -> Value {
    eventually(LIMIT, "a refund", async || {
        let seen = read_order(buyer, order).await;
        (seen["refund"]["status"] == "DONE").then_some(seen)
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_callback_that_is_not_the_providers_is_refused_and_changes_nothing() {
    let app = TestApp::start().await;
    let sale = app.sale().await.create().await;
    let buyer = app.as_user(&app.user().await);
    let order = seckill(&buyer, &sale.voucher, "r1").await.accepted();
    until(&buyer, &order, "UNPAID").await;
    let client = app.client();
    let good = body(&order, "t1", 990);
    let now = now_secs().to_string();
    let (old, early) = (
        (now_secs() - 400).to_string(),
        (now_secs() + 400).to_string(),
    );
    let signature = sign(&now, &good);
    let cases: [Case<'_>; 9] = [
        (PATH, None, None, &good, 401),
        (PATH, Some(&now), None, &good, 401),
        (PATH, None, Some(&signature), &good, 401),
        (PATH, Some(&now), Some("00ff"), &good, 401),
        (PATH, Some(&now), Some("not hex"), &good, 401),
        (PATH, Some(&old), Some(&sign(&old, &good)), &good, 401),
        (PATH, Some(&early), Some(&sign(&early, &good)), &good, 401),
        (
            PATH,
            Some(&now),
            Some(&signature),
            &body(&order, "t1", 1),
            401,
        ),
        (
            "/webhooks/payments/nobody",
            Some(&now),
            Some(&signature),
            &good,
            404,
        ),
    ];
    for (path, timestamp, signature, sent, status) in cases {
        assert_eq!(
            post(&client, path, timestamp, signature, sent).await,
            status,
            "{path} {timestamp:?} {signature:?}"
        );
    }
    for malformed in [
        "",
        "{}",
        r#"{"transactionId":1}"#,
        &good.replace("SUCCEEDED", "WHATEVER"),
        &good.replace("990", "-1"),
    ] {
        assert_eq!(call_back(&client, malformed).await, 400, "{malformed}");
    }
    let huge = format!("{good}{}", " ".repeat(17 * 1024));
    assert!([400, 413].contains(&call_back(&client, &huge).await));
    assert_eq!(payment::Entity::find().count(app.db()).await.unwrap(), 0);
    assert_eq!(read_order(&buyer, &order).await["status"], "UNPAID");
    assert_eq!(call_back(&client, &good).await, 200);
    assert_eq!(read_order(&buyer, &order).await["status"], "PAID");
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_transaction_counts_once_also_when_it_is_told_at_two_nodes_at_once() {
    let mut app = TestApp::start().await;
    let second = app.second_node().await;
    let sale = app.sale().await.create().await;
    let buyer = app.as_user(&app.user().await);
    let order = seckill(&buyer, &sale.voucher, "r1").await.accepted();
    until(&buyer, &order, "UNPAID").await;
    let nodes = [app.client(), second];
    let told = body(&order, "t1", 990);
    let statuses = join_all((0..20).map(|n| call_back(&nodes[n % 2], &told))).await;
    assert!(statuses.iter().all(|s| *s == 200), "{statuses:?}");
    assert_eq!(payment::Entity::find().count(app.db()).await.unwrap(), 1);
    assert_eq!(refund::Entity::find().count(app.db()).await.unwrap(), 0);
    let paid = read_order(&buyer, &order).await;
    assert_eq!(paid["status"], "PAID");

    assert_eq!(call_back(&nodes[0], &body(&order, "t2", 990)).await, 200);
    let seen = until_refunded(&buyer, &order).await;
    assert_eq!(
        (
            seen["status"].as_str(),
            seen["refund"]["amount"]["amount"].as_str()
        ),
        (Some("PAID"), Some("9.90"))
    );
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_can_be_paid_before_its_row_is_written() {
    let app = TestApp::build().without_workers().start().await;
    let sale = app.sale().await.create().await;
    let buyer = app.as_user(&app.user().await);
    let order = seckill(&buyer, &sale.voucher, "r1").await.accepted();
    assert_eq!(read_order(&buyer, &order).await["status"], "QUEUED");
    pay(&buyer, &order).await.data();
    assert_eq!(
        call_back(&app.client(), &body(&order, "t1", 990)).await,
        200
    );
    assert_eq!(
        read_order(&buyer, &order).await["status"],
        "PAID",
        "the intent brought the row"
    );
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn money_without_an_order_waits_for_it_and_then_goes_back() {
    let app = TestApp::build()
        .config(|c| c.orphan_wait_secs = 3)
        .without_workers()
        .start()
        .await;
    let sale = app.sale().await.create().await;
    let buyer = app.as_user(&app.user().await);
    let client = app.client();
    // Paid without an intent, before the row: the money waits, and then it counts.
    let order = seckill(&buyer, &sale.voucher, "r1").await.accepted();
    assert_eq!(call_back(&client, &body(&order, "t1", 990)).await, 200);
    assert_eq!(read_order(&buyer, &order).await["status"], "QUEUED");
    let orders = &app.services().orders;
    assert_eq!(orders.work_on_payments().await.unwrap(), 0);
    let key = orders.open(&order).unwrap();
    assert!(orders.write_queued(key).await.unwrap().is_some());
    assert_eq!(orders.work_on_payments().await.unwrap(), 1);
    assert_eq!(read_order(&buyer, &order).await["status"], "PAID");

    // For an order that nobody knows: it waits, and then it goes back, once.
    assert_eq!(call_back(&client, &body("nonsense", "t2", 990)).await, 200);
    assert_eq!(orders.work_on_payments().await.unwrap(), 0);
    app.shift_clocks(Duration::from_secs(4));
    assert_eq!(
        orders.work_on_payments().await.unwrap(),
        2,
        "judged, and refunded"
    );
    assert_eq!(orders.work_on_payments().await.unwrap(), 0);
    assert_eq!(call_back(&client, &body("nonsense", "t2", 990)).await, 200);
    assert_eq!(
        payment::Entity::find().count(app.db()).await.unwrap(),
        2,
        "told again, it is the same payment"
    );
    assert_eq!(orders.work_on_payments().await.unwrap(), 0);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_double_and_wrong_money_goes_back_and_leaves_the_state() {
    let app = TestApp::start().await;
    let sale = app.sale().await.stock(10).price("9.90").create().await;
    let buyers: Vec<_> = app
        .users(5)
        .await
        .iter()
        .map(|user| app.as_user(user))
        .collect();
    let mut orders = Vec::new();
    for buyer in &buyers {
        let order = seckill(buyer, &sale.voucher, "r1").await.accepted();
        until(buyer, &order, "UNPAID").await;
        orders.push(order);
    }
    sandbox_pay(&buyers[0], &orders[0], "PAY_TWICE")
        .await
        .data();
    sandbox_pay(&buyers[1], &orders[1], "WRONG_AMOUNT")
        .await
        .data();
    sandbox_pay(&buyers[2], &orders[2], "FAIL").await.data();
    sandbox_pay(&buyers[3], &orders[3], "LATE").await.data();
    sandbox_pay(&buyers[4], &orders[4], "REPEAT").await.data();
    cancel(&buyers[3], &orders[3]).await.data();

    let twice = until_refunded(&buyers[0], &orders[0]).await;
    assert_eq!(
        (
            twice["status"].as_str(),
            twice["refund"]["amount"]["amount"].as_str()
        ),
        (Some("PAID"), Some("9.90"))
    );
    let wrong = until_refunded(&buyers[1], &orders[1]).await;
    assert_eq!(
        (
            wrong["status"].as_str(),
            wrong["refund"]["amount"]["amount"].as_str()
        ),
        (Some("UNPAID"), Some("9.91"))
    );
    assert_eq!(read_order(&buyers[2], &orders[2]).await["status"], "UNPAID");
    let late = until_refunded(&buyers[3], &orders[3]).await;
    assert_eq!(late["status"], "CLOSED");
    let repeated = read_order(&buyers[4], &orders[4]).await;
    assert_eq!(
        (repeated["status"].as_str(), &repeated["refund"]),
        (Some("PAID"), &Value::Null)
    );
    assert_eq!(refund::Entity::find().count(app.db()).await.unwrap(), 3);

    let query =
        "mutation($id: ID!) { payOrder(input: { orderId: $id }) { result { __typename } } }";
    let answer = buyers[0].gql(query, json!({ "id": orders[0] })).await;
    assert_eq!(answer.text("payOrder.result.__typename"), "OrderNotPayable");
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sandbox_page_pays_and_another_user_cannot() {
    let app = TestApp::start().await;
    let sale = app.sale().await.create().await;
    let buyer = app.as_user(&app.user().await);
    let order = seckill(&buyer, &sale.voucher, "r1").await.accepted();
    let other = app.as_user(&app.user().await);
    pay(&other, &order).await.expect_code("NOT_FOUND");
    sandbox_pay(&other, &order, "SUCCEED")
        .await
        .expect_code("NOT_FOUND");
    pay(&app.client(), &order)
        .await
        .expect_code("UNAUTHENTICATED");

    let query = "mutation($id: ID!) { payOrder(input: { orderId: $id }) { result { ... on PaymentReady { paymentUrl } } } }";
    let url = async || {
        buyer
            .gql(query, json!({ "id": order }))
            .await
            .text("payOrder.result.paymentUrl")
            .to_owned()
    };
    let (first, again) = (url().await, url().await);
    assert_eq!(first, again, "repeats give the same address");
    let path = first
        .strip_prefix(app.client().base_url())
        .unwrap()
        .to_owned();
    let page = app.client().get(&path).await;
    assert_eq!(page.status(), 200);
    let page = page.text().await.unwrap();
    assert!(page.contains("9.90") && page.contains("<form"), "{page}");
    let missing = app.client().get("/sandbox/payments/00").await;
    assert_eq!(missing.status(), 404);
    let made = made_at_ms(app.services().orders.open(&order).unwrap().order.0);
    assert!((chrono::Utc::now().timestamp_millis() - made).abs() < 60_000);
    sandbox_pay(&buyer, &order, "SUCCEED").await.data();
    until(&buyer, &order, "PAID").await;
    app.finish().await;
}
