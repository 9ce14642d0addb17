//! Live orders and stocks: the present state first, nothing missed, whichever node a change is made at, and also when
//! the event about it is lost.

use std::time::{Duration, Instant};

use domain::orders::{CloseReason, OrderId, OrderKey};
use domain::users::UserId;
use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::client::Client;
use crate::support::people::TestUser;
use crate::support::private::PrivateRedis;
use crate::support::sale::{TestSale, cancel, order, sandbox_pay, seckill};
use crate::support::subscription::{Event, Subscription};
use crate::support::wait::eventually;

const STATUS: &str =
    "subscription($id: ID!) { orderStatus(orderId: $id) { id status rejection version } }";
const UPDATES: &str = "subscription { orderUpdates { id status version } }";
const STOCK: &str = "subscription($id: ID!) { voucherStock(voucherId: $id) { stock total state } }";
/// An event arrives at once; the limit is only for a loaded machine.
const SOON: Duration = Duration::from_secs(5);
/// Lost events are made good within 2 s.
const REPAIRED: Duration = Duration::from_secs(7);

fn status(data: &Value) -> &str {
    data["orderStatus"]["status"].as_str().unwrap()
}

/// A buyer's accepted order, as soon as it has its row.
async fn unpaid_order(buyer: &Client, sale: &TestSale) -> String {
    let id = seckill(buyer, &sale.voucher, "request-1").await.accepted();
    eventually(SOON, "the order's row", async || {
        order(buyer, &id).await["status"] == "UNPAID"
    })
    .await;
    id
}

async fn watch(client: &Client, order: &str) -> Subscription {
    Subscription::open(client, STATUS, json!({ "id": order })).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watcher_gets_the_present_state_first_and_then_the_change() {
    let app = TestApp::start().await;
    let sale = app.sale().await.create().await;
    let user = app.user().await;
    let buyer = app.as_user(&user);
    let id = unpaid_order(&buyer, &sale).await;

    let mut changes = watch(&buyer, &id).await;
    let first = changes.next(SOON).await;
    assert_eq!(
        first["orderStatus"],
        json!({ "id": id, "status": "UNPAID", "rejection": null, "version": "1" })
    );
    sandbox_pay(&buyer, &id, "SUCCEED").await.data();
    assert_eq!(status(&changes.next(SOON).await), "PAID");
    changes.stop().await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_stream_ends_with_a_final_state_and_a_final_order_is_told_once() {
    let app = TestApp::start().await;
    let sale = app.sale().await.create().await;
    let user = app.user().await;
    let buyer = app.as_user(&user);
    let id = unpaid_order(&buyer, &sale).await;

    let mut changes = watch(&buyer, &id).await;
    changes.next(SOON).await;
    cancel(&buyer, &id).await.data();
    assert_eq!(status(&changes.next(SOON).await), "CLOSED");
    changes.completes(SOON).await;

    let mut late = watch(&buyer, &id).await;
    assert_eq!(status(&late.next(SOON).await), "CLOSED");
    late.completes(SOON).await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn money_that_comes_after_the_close_is_seen_until_it_went_back() {
    let app = TestApp::start().await;
    let sale = app.sale().await.create().await;
    let user = app.user().await;
    let buyer = app.as_user(&user);
    let id = unpaid_order(&buyer, &sale).await;
    let updates = "subscription { orderUpdates { id status refund { status } } }";
    let mut changes = app.subscribe(&user, updates, Value::Null).await;
    cancel(&buyer, &id).await.data();
    changes
        .until(SOON, |data| data["orderUpdates"]["status"] == "CLOSED")
        .await;
    sandbox_pay(&buyer, &id, "LATE").await.data();
    changes
        .until(SOON, |data| {
            data["orderUpdates"]["refund"]["status"] == "DONE"
        })
        .await;
    changes.stop().await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watcher_at_one_node_sees_at_once_what_is_done_at_another() {
    let mut app = TestApp::start().await;
    let second = app.second_node().await;
    let sale = app.sale().await.create().await;
    let mut waits = Vec::new();
    for user in app.users(5).await {
        let buyer = app.as_user(&user);
        let id = unpaid_order(&buyer, &sale).await;
        let mut changes = watch(&second.as_user(&user), &id).await;
        assert_eq!(status(&changes.next(SOON).await), "UNPAID");
        sandbox_pay(&buyer, &id, "SUCCEED").await.data();
        let done = Instant::now();
        assert_eq!(status(&changes.next(SOON).await), "PAID");
        waits.push(done.elapsed());
        changes.stop().await;
    }
    // The look every 2 s would show a change too, but most of them a second later.
    waits.sort();
    assert!(waits[2] < Duration::from_millis(400), "{waits:?}");
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queued_order_is_watched_before_it_has_a_row() {
    let app = TestApp::build()
        .with_kafka()
        .without_workers()
        .start()
        .await;
    let sale = app.sale().await.create().await;
    let user = app.user().await;
    let buyer = app.as_user(&user);
    // Kafka has the order, and nobody reads it.
    let id = seckill(&buyer, &sale.voucher, "request-1").await.accepted();
    let mut changes = watch(&buyer, &id).await;
    assert_eq!(status(&changes.next(SOON).await), "QUEUED");
    let voucher =
        "query($id: ID!) { voucher(id: $id) { viewerOrder { id status slot clientRequestId } } }";
    let seen = buyer.gql(voucher, json!({ "id": sale.voucher })).await;
    let expected =
        json!({ "id": id, "status": "QUEUED", "slot": 1, "clientRequestId": "request-1" });
    assert_eq!(seen.at("voucher.viewerOrder"), &expected);

    let orders = &app.services().orders;
    orders
        .write_queued(orders.open(&id).unwrap())
        .await
        .unwrap();
    assert_eq!(status(&changes.next(SOON).await), "UNPAID");
    changes.stop().await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_without_an_event_is_found_by_the_next_look() {
    let mut app = TestApp::start().await;
    let second = app.second_node().await;
    let sale = app.sale().await.create().await;
    let user = app.user().await;
    let buyer = app.as_user(&user);
    // What is watched has been read by the time of its first event, so only a later look can show the next change.
    let mut all = Subscription::open(&second.as_user(&user), UPDATES, Value::Null).await;
    let id = unpaid_order(&buyer, &sale).await;
    all.until(REPAIRED, |data| data["orderUpdates"]["status"] == "UNPAID")
        .await;
    let mut one = watch(&second.as_user(&user), &id).await;
    one.next(SOON).await;

    // As when a node is killed after the commit: the row is changed, and nobody is told.
    let orders = &app.services().orders;
    let key = orders.open(&id).unwrap();
    let closed = orders
        .store()
        .close(&[(key.order, key.voucher)], CloseReason::Buyer)
        .await
        .unwrap();
    assert_eq!(closed.len(), 1);
    assert_eq!(status(&one.next(REPAIRED).await), "CLOSED");
    one.completes(SOON).await;
    let heard = all
        .until(REPAIRED, |data| data["orderUpdates"]["status"] == "CLOSED")
        .await;
    assert_eq!(heard.last().unwrap()["orderUpdates"]["id"], json!(id));
    all.stop().await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_event_connection_loses_no_change() {
    let redis = PrivateRedis::start().await;
    let mut app = TestApp::build().on_redis(redis.url()).start().await;
    let second = app.second_node().await;
    let sale = app.sale().await.create().await;
    let users = app.users(3).await;
    let mut conn = redis.connection().await;
    for user in &users {
        let mut all = Subscription::open(&second.as_user(user), UPDATES, Value::Null).await;
        let buyer = app.as_user(user);
        let cut = async |conn: &mut deadpool_redis::redis::aio::MultiplexedConnection| {
            let killed: i64 = deadpool_redis::redis::cmd("CLIENT")
                .arg("KILL")
                .arg("TYPE")
                .arg("pubsub")
                .query_async(conn)
                .await
                .unwrap();
            killed
        };
        cut(&mut conn).await;
        let id = seckill(&buyer, &sale.voucher, "request-1").await.accepted();
        all.until(REPAIRED, |data| data["orderUpdates"]["status"] == "UNPAID")
            .await;
        eventually(SOON, "the event connections", async || {
            cut(&mut redis.connection().await).await == 2
        })
        .await;
        cancel(&buyer, &id).await.data();
        all.until(REPAIRED, |data| data["orderUpdates"]["status"] == "CLOSED")
            .await;
        all.stop().await;
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_buyer_hears_of_all_his_orders_and_of_nobody_elses() {
    let mut app = TestApp::start().await;
    let second = app.second_node().await;
    let (noodles, tea) = (
        app.sale().await.create().await,
        app.sale().await.create().await,
    );
    let users = app.users(2).await;
    let (buyer, other) = (app.as_user(&users[0]), app.as_user(&users[1]));
    let mut changes = Subscription::open(&second.as_user(&users[0]), UPDATES, Value::Null).await;
    // A watch that has begun says so only by its first event, so the first order may come before it.
    let first = unpaid_order(&buyer, &noodles).await;
    changes
        .until(SOON, |data| data["orderUpdates"]["id"] == first.as_str())
        .await;

    let foreign = unpaid_order(&other, &noodles).await;
    let next = unpaid_order(&buyer, &tea).await;
    cancel(&buyer, &first).await.data();
    let (mut is_closed, mut is_next) = (false, false);
    let heard = changes.until(SOON, |data| {
        let id = data["orderUpdates"]["id"].as_str();
        is_closed |= id == Some(&first) && data["orderUpdates"]["status"] == "CLOSED";
        is_next |= id == Some(&next);
        is_closed && is_next
    });
    let heard = heard.await;
    let ids: Vec<&str> = heard
        .iter()
        .map(|data| data["orderUpdates"]["id"].as_str().unwrap())
        .collect();
    assert!(!ids.contains(&foreign.as_str()), "{heard:?}");
    changes.stop().await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_or_forged_order_cannot_be_watched() {
    let app = TestApp::start().await;
    let sale = app.sale().await.create().await;
    let users = app.users(2).await;
    let id = unpaid_order(&app.as_user(&users[0]), &sale).await;
    for (client, id) in [
        (app.as_user(&users[1]), id.as_str()),
        (app.as_user(&users[0]), "forged"),
    ] {
        let mut changes = watch(&client, id).await;
        let Event::Errors(errors) = changes.event(SOON).await else {
            panic!("an order was told to somebody else")
        };
        assert!(errors.to_string().contains("NOT_FOUND"), "{errors}");
    }
    app.finish().await;
}

/// A true ID of an order that was never placed anywhere, as after an answer that nobody knows.
fn unknown_order(app: &TestApp, sale: &TestSale, buyer: &TestUser) -> String {
    let order = OrderId(app.services().infra().ids.next().unwrap());
    app.services().orders.seal(OrderKey {
        order,
        voucher: sale.voucher_id,
        buyer: UserId(buyer.id),
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_that_is_nowhere_is_queued_for_ten_seconds_and_then_rejected() {
    let app = TestApp::start().await;
    let sale = app.sale().await.create().await;
    let user = app.user().await;
    let buyer = app.as_user(&user);
    let (watched, asked) = (
        unknown_order(&app, &sale, &user),
        unknown_order(&app, &sale, &user),
    );
    assert_eq!(order(&buyer, &asked).await["status"], "QUEUED");
    let mut changes = watch(&buyer, &watched).await;
    assert_eq!(status(&changes.next(SOON).await), "QUEUED");

    app.shift_clocks(Duration::from_secs(11));
    let rejected = changes.next(REPAIRED).await;
    assert_eq!(
        (status(&rejected), &rejected["orderStatus"]["rejection"]),
        ("REJECTED", &json!("NOT_PLACED"))
    );
    changes.completes(SOON).await;
    let found = order(&buyer, &asked).await;
    assert_eq!(
        (found["status"].as_str(), found["rejection"].as_str()),
        (Some("REJECTED"), Some("NOT_PLACED"))
    );
    // The buyer can still buy, for an order that was never placed is no attempt.
    seckill(&buyer, &sale.voucher, "request-2").await.accepted();
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_stock_is_told_at_most_twice_a_second_and_is_true_in_the_end() {
    const UNITS: u64 = 30;
    let mut app = TestApp::start().await;
    let second = app.second_node().await;
    let sale = app.sale().await.stock(UNITS).create().await;
    let mut at_other_node = Subscription::open(&second, STOCK, json!({ "id": sale.voucher })).await;
    let mut stocks = Subscription::open(&app.client(), STOCK, json!({ "id": sale.voucher })).await;
    let first = stocks.next(SOON).await;
    assert_eq!(
        first["voucherStock"],
        json!({ "stock": UNITS, "total": UNITS, "state": "RUNNING" })
    );

    let (client, voucher) = (app.client(), sale.voucher.clone());
    let users = app.users(u32::try_from(UNITS).unwrap()).await;
    let buying = tokio::spawn(async move {
        for user in users {
            seckill(&client.as_user(&user), &voucher, "request-1")
                .await
                .accepted();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    let mut told = vec![Instant::now()];
    loop {
        let stock = stocks.next(SOON).await["voucherStock"]["stock"]
            .as_u64()
            .unwrap();
        told.push(Instant::now());
        if stock == 0 {
            break;
        }
    }
    buying.await.unwrap();
    // The client reads a little later than the server tells.
    let slack = Duration::from_millis(150);
    for three in told.windows(3) {
        assert!(
            three[2] - three[0] + slack >= Duration::from_secs(1),
            "{told:?}"
        );
    }
    at_other_node
        .until(SOON, |data| data["voucherStock"]["stock"] == 0)
        .await;
    at_other_node.stop().await;
    stocks.stop().await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_shows_in_the_stock_that_is_watched() {
    let app = TestApp::start().await;
    let sale = app.sale().await.create().await;
    let mut stocks = Subscription::open(&app.client(), STOCK, json!({ "id": sale.voucher })).await;
    stocks
        .until(SOON, |data| data["voucherStock"]["state"] == "RUNNING")
        .await;
    let pause =
        "mutation($input: PauseVoucherInput!) { pauseVoucher(input: $input) { __typename } }";
    app.as_user(&sale.merchant)
        .gql(pause, json!({ "input": { "voucherId": sale.voucher } }))
        .await
        .data();
    stocks
        .until(SOON, |data| data["voucherStock"]["state"] == "PAUSED")
        .await;
    stocks.stop().await;
    app.finish().await;
}
