//! The click in a flash sale, and what becomes of it: every answer, one order for one request, units back once.

use std::collections::HashSet;
use std::time::Duration;

use entity::{dead_letter, order};
use futures_util::future::join_all;
use sea_orm::{EntityTrait, PaginatorTrait};
use serde_json::{Value, json};

use domain::infra::bus::Delivery;

use crate::support::app::TestApp;
use crate::support::client::Client;
use crate::support::sale::{TestSale, cancel, order as read_order, publish, seckill};
use crate::support::wait::eventually;

const LIMIT: Duration = Duration::from_secs(20);

async fn change(merchant: &Client, mutation: &str, voucher: &str) -> Value {
    let query = format!(
        "mutation($v: ID!) {{ {mutation}Voucher(input: {{ voucherId: $v }}) {{ sale {{ state stock }} voucher {{ id }} }} }}"
    );
    merchant.gql(&query, json!({ "v": voucher })).await.body
}

fn code(body: &Value) -> &str {
    body.pointer("/errors/0/extensions/code")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

async fn stock(app: &TestApp, sale: &TestSale) -> i64 {
    let query = "query($v: ID!) { voucher(id: $v) { sale { stock } } }";
    app.gql(query, json!({ "v": sale.voucher }))
        .await
        .int("voucher.sale.stock")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sale_answers_by_its_window_and_its_merchants_wishes() {
    let app = TestApp::build()
        .config(|c| c.clicks_per_second = 100)
        .start()
        .await;
    let user = app.user().await;
    let buyer = app.as_user(&user);
    let announced = app
        .sale()
        .await
        .opens_in(Duration::from_secs(600))
        .create()
        .await;
    let click = seckill(&buyer, &announced.voucher, "r1").await;
    assert_eq!(click.kind(), "SaleNotStarted");

    let sale = app.sale().await.stock(5).create().await;
    let merchant = app.as_user(&sale.merchant);
    assert_eq!(
        change(&merchant, "pause", &sale.voucher).await["data"]["pauseVoucher"]["sale"]["state"],
        "PAUSED"
    );
    assert_eq!(
        seckill(&buyer, &sale.voucher, "r1").await.kind(),
        "SalePaused"
    );
    assert_eq!(
        change(&merchant, "resume", &sale.voucher).await["data"]["resumeVoucher"]["sale"]["state"],
        "RUNNING"
    );
    seckill(&buyer, &sale.voucher, "r1").await.accepted();
    assert_eq!(
        change(&merchant, "end", &sale.voucher).await["data"]["endVoucher"]["sale"]["state"],
        "ENDED"
    );
    let other = app.as_user(&app.user().await);
    assert_eq!(
        seckill(&other, &sale.voucher, "r1").await.kind(),
        "SaleEnded"
    );
    assert_eq!(
        code(&change(&merchant, "pause", &sale.voucher).await),
        "BAD_INPUT",
        "what is over cannot be paused"
    );
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_click_needs_a_user_a_sale_and_a_request_id() {
    let app = TestApp::build()
        .config(|c| c.clicks_per_second = 100)
        .start()
        .await;
    let sale = app.sale().await.create().await;
    let draft = app.sale().await.draft().create().await;
    let buyer = app.as_user(&app.user().await);
    assert_eq!(
        seckill(&app.client(), &sale.voucher, "r1").await.kind(),
        "UNAUTHENTICATED"
    );
    for bad in ["", "a b", "ü", &"x".repeat(65)] {
        let click = seckill(&buyer, &sale.voucher, bad).await;
        assert_eq!(
            click.answer.expect_code("BAD_INPUT")["extensions"]["argument"],
            "input.clientRequestId",
            "{bad:?}"
        );
    }
    let click = seckill(&buyer, "nonsense", "r1").await;
    assert_eq!(
        click.answer.expect_code("BAD_INPUT")["extensions"]["argument"],
        "input.voucherId"
    );
    assert_eq!(
        seckill(&buyer, &draft.voucher, "r1").await.kind(),
        "NOT_FOUND",
        "nobody buys from a draft"
    );
    let unknown = schema::scalars::global_id("Voucher", 12345).to_string();
    assert_eq!(seckill(&buyer, &unknown, "r1").await.kind(), "NOT_FOUND");
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_shops_merchant_runs_its_sale_and_a_draft_is_published_once() {
    let app = TestApp::start().await;
    let draft = app.sale().await.draft().create().await;
    let stranger = app.as_user(&app.merchant().await);
    publish(&stranger, &draft.voucher)
        .await
        .expect_code("FORBIDDEN");
    publish(&app.as_user(&app.user().await), &draft.voucher)
        .await
        .expect_code("FORBIDDEN");
    publish(&app.client(), &draft.voucher)
        .await
        .expect_code("UNAUTHENTICATED");
    assert_eq!(
        code(&change(&stranger, "pause", &draft.voucher).await),
        "FORBIDDEN"
    );
    let merchant = app.as_user(&draft.merchant);
    assert_eq!(
        code(&change(&merchant, "pause", &draft.voucher).await),
        "BAD_INPUT",
        "a draft cannot be paused"
    );
    publish(&merchant, &draft.voucher).await.data();
    publish(&merchant, &draft.voucher)
        .await
        .expect_code("BAD_INPUT");
    publish(
        &app.as_user(&app.admin().await),
        &app.sale().await.draft().create().await.voucher,
    )
    .await
    .data();
    app.finish().await;
}

/// One user, 300 clicks at once at two nodes: half of them the same request, the rest others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_user_who_clicks_at_two_nodes_at_once_has_one_order() {
    let mut app = TestApp::build()
        .config(|c| c.clicks_per_second = 10_000)
        .start()
        .await;
    let second = app.second_node().await;
    let sale = app.sale().await.stock(50).create().await;
    let user = app.user().await;
    let nodes = [app.as_user(&user), second.as_user(&user)];
    let clicks = (0..300).map(|n| {
        let (node, voucher) = (nodes[n % 2].clone(), sale.voucher.clone());
        let request = if n < 150 {
            "same".to_owned()
        } else {
            format!("other-{n}")
        };
        async move { seckill(&node, &voucher, &request).await }
    });
    let clicks = join_all(clicks).await;
    let orders: HashSet<_> = clicks.iter().filter_map(|c| c.order()).collect();
    assert_eq!(orders.len(), 1, "{orders:?}");
    let kinds: HashSet<_> = clicks.iter().map(|c| c.kind()).collect();
    assert!(
        kinds.is_subset(&HashSet::from(["SeckillAccepted", "AlreadyOrdered"])),
        "{kinds:?}"
    );
    let won: Vec<_> = (0..300).filter(|n| clicks[*n].is_accepted()).collect();
    let same_request_won = won.iter().all(|n| *n < 150) && won.len() == 150;
    assert!(
        same_request_won || won.len() == 1,
        "only repeats of the winning request hear yes: {won:?}"
    );
    eventually(LIMIT, "one row", async || {
        order::Entity::find().count(app.db()).await.unwrap() == 1
    })
    .await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_buyers_of_the_last_three_units_get_three() {
    let mut app = TestApp::start().await;
    let second = app.second_node().await;
    let sale = app.sale().await.stock(3).create().await;
    let users = app.users(500).await;
    let nodes = [app.client(), second];
    let clicks = users.iter().enumerate().map(|(n, user)| {
        let (node, voucher) = (nodes[n % 2].as_user(user), sale.voucher.clone());
        async move { seckill(&node, &voucher, "r1").await }
    });
    let clicks = join_all(clicks).await;
    assert_eq!(clicks.iter().filter(|c| c.is_accepted()).count(), 3);
    assert!(
        clicks
            .iter()
            .all(|c| c.is_accepted() || c.kind() == "SoldOut"),
        "{:?}",
        clicks[0].kind()
    );
    assert_eq!(stock(&app, &sale).await, 0);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_who_clicks_too_fast_is_told_when_to_click_again() {
    let app = TestApp::build()
        .config(|c| c.clicks_per_second = 3)
        .start()
        .await;
    let sale = app.sale().await.create().await;
    let (buyer, other) = (
        app.as_user(&app.user().await),
        app.as_user(&app.user().await),
    );
    let clicks =
        join_all((0..10).map(|n| seckill(&buyer, &sale.voucher, if n < 9 { "r1" } else { "r2" })))
            .await;
    let limited: Vec<_> = clicks
        .iter()
        .filter(|c| c.kind() == "RateLimited")
        .collect();
    assert!(
        limited.len() >= 4,
        "{:?}",
        clicks.iter().map(|c| c.kind()).collect::<Vec<_>>()
    );
    let wait = limited[0].answer.int("seckillVoucher.result.retryAfterMs");
    assert!((0..=1_000).contains(&wait), "{wait}");
    seckill(&other, &sale.voucher, "r1").await.accepted();
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unpaid_order_closes_at_its_deadline_and_its_unit_sells_again() {
    let app = TestApp::build()
        .config(|c| c.pay_window_secs = 1)
        .start()
        .await;
    let sale = app.sale().await.stock(1).attempts(2).create().await;
    let buyer = app.as_user(&app.user().await);
    let first = seckill(&buyer, &sale.voucher, "r1").await.accepted();
    let closed = eventually(LIMIT, "the close", async || {
        let order = read_order(&buyer, &first).await;
        (order["status"] == "CLOSED").then_some(order)
    })
    .await;
    assert_eq!(closed["closeReason"], "DEADLINE");
    eventually(LIMIT, "the unit", async || stock(&app, &sale).await == 1).await;

    // The request that got the closed order still means that order; a new one buys again, twice in all.
    assert_eq!(
        seckill(&buyer, &sale.voucher, "r1").await.order(),
        Some(first.as_str())
    );
    let second = seckill(&buyer, &sale.voucher, "r2").await.accepted();
    assert_ne!(first, second);
    eventually(LIMIT, "the close", async || {
        read_order(&buyer, &second).await["status"] == "CLOSED"
    })
    .await;
    eventually(LIMIT, "the unit", async || stock(&app, &sale).await == 1).await;
    assert_eq!(
        seckill(&buyer, &sale.voucher, "r3").await.kind(),
        "NoAttemptsLeft"
    );
    seckill(&app.as_user(&app.user().await), &sale.voucher, "r1")
        .await
        .accepted();
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_is_cancelled_by_its_buyer_alone_also_before_it_has_a_row() {
    let app = TestApp::build().without_workers().start().await;
    let sale = app.sale().await.stock(2).create().await;
    let buyer = app.as_user(&app.user().await);
    let order = seckill(&buyer, &sale.voucher, "r1").await.accepted();
    assert_eq!(
        read_order(&buyer, &order).await["status"],
        "QUEUED",
        "nobody writes rows here"
    );
    cancel(&app.as_user(&app.user().await), &order)
        .await
        .expect_code("NOT_FOUND");
    cancel(&app.client(), &order)
        .await
        .expect_code("UNAUTHENTICATED");
    assert_eq!(
        cancel(&buyer, &order).await.text("cancelOrder.__typename"),
        "CancelOrderPayload"
    );
    let closed = read_order(&buyer, &order).await;
    assert_eq!(
        (closed["status"].as_str(), closed["closeReason"].as_str()),
        (Some("CLOSED"), Some("BUYER"))
    );

    let orders = &app.services().orders;
    assert_eq!(orders.give_back_due().await.unwrap(), 1);
    assert_eq!(orders.give_back_due().await.unwrap(), 0);
    let query =
        "mutation($id: ID!) { cancelOrder(input: { orderId: $id }) { result { __typename } } }";
    let again = buyer.gql(query, json!({ "id": order })).await;
    assert_eq!(
        again.text("cancelOrder.result.__typename"),
        "OrderNotCancellable"
    );
    app.finish().await;
}

/// Two units for each buyer: slots, and a repeat of each request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sale_with_a_limit_of_two_gives_two_orders_to_a_user() {
    let app = TestApp::build()
        .config(|c| c.clicks_per_second = 100)
        .start()
        .await;
    let sale = app.sale().await.stock(10).limit(2).create().await;
    let buyer = app.as_user(&app.user().await);
    let first = seckill(&buyer, &sale.voucher, "r1").await.accepted();
    let second = seckill(&buyer, &sale.voucher, "r2").await.accepted();
    assert_ne!(first, second);
    assert_eq!(seckill(&buyer, &sale.voucher, "r1").await.accepted(), first);
    assert_eq!(
        seckill(&buyer, &sale.voucher, "r3").await.kind(),
        "AlreadyOrdered"
    );
    eventually(LIMIT, "both rows", async || {
        read_order(&buyer, &second).await["status"] == "UNPAID"
    })
    .await;
    let slots = [
        read_order(&buyer, &first).await["slot"].clone(),
        read_order(&buyer, &second).await["slot"].clone(),
    ];
    assert_eq!(slots, [json!(1), json!(2)]);
    let list = buyer
        .gql(
            "{ viewer { orders { edges { node { id } } } } }",
            Value::Null,
        )
        .await;
    assert_eq!(list.list("viewer.orders.edges").len(), 2);
    app.finish().await;
}

/// A poisoned message between good ones, and every message twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn poison_is_buried_its_neighbours_are_written_and_twice_is_once() {
    let app = TestApp::build().without_workers().start().await;
    let sale = app.sale().await.stock(5).create().await;
    let buyers = app.users(3).await;
    for buyer in &buyers {
        seckill(&app.as_user(buyer), &sale.voucher, "r1")
            .await
            .accepted();
    }
    let key = app.redis().key(format!("{{v:{}}}:outbox", sale.voucher_id));
    let mut command = deadpool_redis::redis::cmd("HGETALL");
    let outbox: std::collections::HashMap<String, String> =
        app.redis().query(command.arg(key)).await.unwrap();
    let good: Vec<_> = outbox
        .into_iter()
        .filter(|(order, _)| order != "epoch")
        .map(|(_, payload)| payload)
        .collect();
    assert_eq!(good.len(), 3);
    let poisons = [
        "",
        "{",
        "null",
        r#"{"v":2}"#,
        "\0",
        &"x".repeat(2_000_000),
        &good[0].replace(r#""slot":1"#, r#""slot":-1"#),
        &good[0].replace(&sale.voucher_id.to_string(), "77"),
    ]
    .map(str::to_owned);
    let delivery = |payload: &String| Delivery {
        payload: payload.clone().into_bytes(),
        position: None,
    };
    let mut batch: Vec<Delivery> = good
        .iter()
        .chain(&poisons)
        .chain(&good)
        .map(delivery)
        .collect();
    // No text at all, and three times as long once it is made one.
    batch.push(Delivery {
        payload: vec![0xff; 60_000],
        position: None,
    });
    let orders = &app.services().orders;
    let written = orders.write(&batch).await.unwrap();
    assert_eq!(
        (written.inserted, written.repeated, written.dead),
        (3, 3, 9)
    );
    let again = orders.write(&batch).await.unwrap();
    assert_eq!((again.inserted, again.repeated, again.dead), (0, 6, 9));
    assert_eq!(orders.write(&batch[..3]).await.unwrap().repeated, 3);
    assert_eq!(order::Entity::find().count(app.db()).await.unwrap(), 3);
    assert_eq!(
        dead_letter::Entity::find().count(app.db()).await.unwrap(),
        9,
        "a batch that comes again buries nothing twice"
    );
    app.finish().await;
}
