//! Ordinary vouchers: claimed in one transaction, never beyond stock or limit, once a request, and then orders like others.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use entity::{giveback, offer, order as orders, stock_entry};
use futures_util::future::join_all;
use sea_orm::{EntityTrait, PaginatorTrait};
use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::client::{Answer, Client};
use crate::support::sale::{cancel, create_shop, order as read_order, sandbox_pay};
use crate::support::stores::Store;
use crate::support::subscription::Subscription;
use crate::support::wait::eventually;

const LIMIT: Duration = Duration::from_secs(20);

/// An ordinary voucher of a shop; the fields given replace those of the offer.
async fn try_offer(merchant: &Client, shop: &str, fields: Value) -> Answer {
    let mut input = json!({
        "shopId": shop, "kind": "ORDINARY", "title": "Lunch for two", "payPrice": "9.90", "value": "20.00", "currencyCode": "CNY",
    });
    for (name, value) in fields.as_object().unwrap() {
        input[name] = value.clone();
    }
    let query = "mutation($input: CreateVoucherInput!) { createVoucher(input: $input) { voucher { id kind stock perUserLimit } } }";
    merchant.gql(query, json!({ "input": input })).await
}

async fn offer(app: &TestApp, fields: Value) -> String {
    let merchant = app.as_user(&app.merchant().await);
    let shop = create_shop(&merchant).await;
    let answer = try_offer(&merchant, &shop, fields).await;
    answer.text("createVoucher.voucher.id").to_owned()
}

async fn claim(buyer: &Client, voucher: &str, request: &str, quantity: i32) -> Answer {
    let query =
        "mutation($input: ClaimVoucherInput!) { claimVoucher(input: $input) { result { __typename
        ... on ClaimAccepted { order { id status quantity slot amount { amount } clientRequestId } }
        ... on NotEnoughLeft { left } ... on LimitReached { perUserLimit held } } } }";
    let input = json!({ "voucherId": voucher, "clientRequestId": request, "quantity": quantity });
    buyer.gql(query, json!({ "input": input })).await
}

fn kind(answer: &Answer) -> &str {
    answer.text("claimVoucher.result.__typename")
}

fn order_id(answer: &Answer) -> String {
    answer.text("claimVoucher.result.order.id").to_owned()
}

async fn stock(app: &TestApp, voucher: &str) -> Value {
    let query = "query($id: ID!) { voucher(id: $id) { stock perUserLimit sale { total } } }";
    let answer = app.gql(query, json!({ "id": voucher })).await;
    answer.at("voucher").clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_is_answered_by_an_order_or_by_what_stands_against_it() {
    let app = TestApp::start().await;
    let voucher = offer(&app, json!({ "stock": 3, "perUserLimit": 2 })).await;
    assert_eq!(
        stock(&app, &voucher).await,
        json!({ "stock": 3, "perUserLimit": 2, "sale": null })
    );
    let (one, two) = (
        app.as_user(&app.user().await),
        app.as_user(&app.user().await),
    );
    let taken = claim(&one, &voucher, "r1", 2).await;
    let order = taken.at("claimVoucher.result.order");
    assert_eq!(
        (
            &order["status"],
            &order["quantity"],
            &order["amount"]["amount"],
            &order["slot"]
        ),
        (&json!("UNPAID"), &json!(2), &json!("19.80"), &json!(1))
    );
    assert_eq!(stock(&app, &voucher).await["stock"], 1);
    let limit = claim(&one, &voucher, "r2", 1).await;
    assert_eq!(
        limit.at("claimVoucher.result"),
        &json!({ "__typename": "LimitReached", "perUserLimit": 2, "held": 2 })
    );
    let few = claim(&two, &voucher, "r1", 2).await;
    assert_eq!(
        few.at("claimVoucher.result"),
        &json!({ "__typename": "NotEnoughLeft", "left": 1 })
    );
    assert_eq!(
        kind(&claim(&two, &voucher, "r1", 1).await),
        "ClaimAccepted",
        "a refusal binds no id"
    );
    let third = app.as_user(&app.user().await);
    assert_eq!(kind(&claim(&third, &voucher, "r1", 1).await), "SoldOut");

    for (request, quantity, argument) in [
        ("r9", 0, "input.quantity"),
        ("r9", 101, "input.quantity"),
        ("not an id", 1, "input.clientRequestId"),
    ] {
        let refused = claim(&third, &voucher, request, quantity).await;
        let error = refused.expect_code("BAD_INPUT");
        assert_eq!(error["extensions"]["argument"], argument);
    }
    let sale = app.sale().await.create().await;
    claim(&third, &sale.voucher, "r1", 1)
        .await
        .expect_code("NOT_FOUND");
    let merchant = app.as_user(&sale.merchant);
    for (fields, argument) in [
        (json!({ "stock": 0 }), "input.stock"),
        (json!({ "perUserLimit": 0 }), "input.perUserLimit"),
    ] {
        let refused = try_offer(&merchant, &sale.shop, fields).await;
        assert_eq!(
            refused.expect_code("BAD_INPUT")["extensions"]["argument"],
            argument
        );
    }
    let answer = try_offer(&merchant, &sale.shop, json!({})).await;
    let endless = answer.text("createVoucher.voucher.id").to_owned();
    assert_eq!(
        stock(&app, &endless).await,
        json!({ "stock": null, "perUserLimit": null, "sale": null })
    );
    assert_eq!(
        kind(&claim(&one, &endless, "e1", 100).await),
        "ClaimAccepted"
    );
    let close = "mutation($id: ID!) { closeShop(input: { shopId: $id }) { shop { id } } }";
    merchant.gql(close, json!({ "id": sale.shop })).await.data();
    assert_eq!(kind(&claim(&one, &endless, "e2", 1).await), "NotOnSale");
    assert_eq!(
        kind(&claim(&one, &endless, "e1", 100).await),
        "ClaimAccepted",
        "a repeat still hears"
    );
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_stock_of_a_voucher_is_raised_lowered_and_made_endless_by_its_merchant() {
    let app = TestApp::start().await;
    let voucher = offer(&app, json!({ "stock": 3 })).await;
    let adjust = async |client: &Client, total: Value| {
        let query = "mutation($id: ID!, $total: Int) { adjustVoucherStock(input: { voucherId: $id, total: $total }) {
            sale { total } voucher { stock } } }";
        client
            .gql(query, json!({ "id": voucher, "total": total }))
            .await
    };
    let admin = app.as_user(&app.admin().await);
    let buyer = app.as_user(&app.user().await);
    claim(&buyer, &voucher, "r1", 2).await.data();
    let is_now = |stock: Value| json!({ "adjustVoucherStock": { "sale": null, "voucher": { "stock": stock } } });
    for (total, left) in [
        (json!(5), json!(3)),
        (json!(2), json!(0)),
        (Value::Null, Value::Null),
        (json!(4), json!(2)),
    ] {
        assert_eq!(adjust(&admin, total).await.data(), &is_now(left));
    }
    for total in [1, 0, -1, 1_000_001] {
        let refused = adjust(&admin, json!(total)).await;
        let argument = &refused.expect_code("BAD_INPUT")["extensions"]["argument"];
        assert_eq!(argument, "input.total", "{total}");
    }
    adjust(&buyer, json!(9)).await.expect_code("FORBIDDEN");
    assert_eq!(stock(&app, &voucher).await["stock"], 2);
    claim(&buyer, &voucher, "r2", 2).await.data();
    assert_eq!(kind(&claim(&buyer, &voucher, "r3", 1).await), "SoldOut");
    // The books are right: `finish` looks.
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claimed_order_lives_like_one_of_a_sale() {
    let app = TestApp::start().await;
    let voucher = offer(&app, json!({ "stock": 5 })).await;
    let user = app.user().await;
    let buyer = app.as_user(&user);
    let updates = "subscription { orderUpdates { status quantity } }";
    let mut heard = Subscription::open(&buyer, updates, Value::Null).await;
    let order = order_id(&claim(&buyer, &voucher, "r1", 3).await);
    let written = json!({ "orderUpdates": { "status": "UNPAID", "quantity": 3 } });
    heard.until(LIMIT, |data| *data == written).await;
    sandbox_pay(&buyer, &order, "SUCCEED").await.data();
    assert_eq!(read_order(&buyer, &order).await["status"], "PAID");
    let refund =
        "mutation($id: ID!) { refundOrder(input: { orderId: $id }) { result { __typename } } }";
    buyer.gql(refund, json!({ "id": order })).await.data();
    let back = eventually(LIMIT, "the refund", async || {
        let seen = read_order(&buyer, &order).await;
        (seen["status"] == "REFUNDED").then_some(seen)
    })
    .await;
    assert_eq!(back["refund"]["amount"]["amount"], "29.70");

    // Cancelled, or not paid in time: the units are there again at once, and no giveback waits for Redis.
    let cancelled = order_id(&claim(&buyer, &voucher, "r2", 2).await);
    assert_eq!(stock(&app, &voucher).await["stock"], 0);
    cancel(&buyer, &cancelled).await.data();
    assert_eq!(stock(&app, &voucher).await["stock"], 2);
    let late = order_id(&claim(&buyer, &voucher, "r3", 1).await);
    app.shift_clocks(Duration::from_secs(3600));
    eventually(LIMIT, "the deadline", async || {
        read_order(&buyer, &late).await["closeReason"] == "DEADLINE"
    })
    .await;
    assert_eq!(stock(&app, &voucher).await["stock"], 2);
    assert_eq!(giveback::Entity::find().count(app.db()).await.unwrap(), 0);
    let again = claim(&buyer, &voucher, "r3", 1).await;
    assert_eq!(
        order_id(&again),
        late,
        "the same request is the same order, closed or not"
    );

    let free = offer(&app, json!({ "payPrice": "0" })).await;
    let taken = claim(&buyer, &free, "f1", 1).await;
    assert_eq!(taken.text("claimVoucher.result.order.status"), "PAID");
    let code = "query($id: ID!) { viewer { order(id: $id) { redeemCode } } }";
    let answer = buyer.gql(code, json!({ "id": order_id(&taken) })).await;
    assert_eq!(answer.text("viewer.order.redeemCode").len(), 12);
    buyer
        .gql(refund, json!({ "id": order_id(&taken) }))
        .await
        .data();
    assert_eq!(
        read_order(&buyer, &order_id(&taken)).await["status"],
        "REFUNDED"
    );
    heard.stop().await;
    app.finish().await;
}

/// A hundred at once: neither stock nor limit is passed by one unit, and the books say what happened.
async fn a_hundred_at_once(store: Store) {
    let app = TestApp::build()
        .on(store)
        .config(|c| c.rate_limits = false)
        .start()
        .await;
    let voucher = offer(&app, json!({ "stock": 50, "perUserLimit": 4 })).await;
    let buyers: Vec<_> = app
        .users(20)
        .await
        .iter()
        .map(|user| app.as_user(user))
        .collect();
    // Five claims of each of twenty, each of one or two units.
    let claims = (0..100).map(|n| {
        let (buyer, voucher) = (&buyers[n % 20], &voucher);
        let quantity = 1 + i32::try_from(n / 20 % 2).unwrap();
        async move {
            let answer = claim(buyer, voucher, &format!("r{n}"), quantity).await;
            let taken = if kind(&answer) == "ClaimAccepted" {
                quantity
            } else {
                0
            };
            (n % 20, i64::from(taken))
        }
    });
    let mut held: BTreeMap<usize, i64> = BTreeMap::new();
    for (buyer, taken) in join_all(claims).await {
        *held.entry(buyer).or_default() += taken;
    }
    let total: i64 = held.values().sum();
    assert!(held.values().all(|units| *units <= 4), "{held:?}");
    assert!((49..=50).contains(&total), "{total} of 50: {held:?}");
    let row = offer::Entity::find().one(app.db()).await.unwrap().unwrap();
    assert_eq!(row.sold, total);
    let entries = stock_entry::Entity::find().all(app.db()).await.unwrap();
    assert_eq!(entries.iter().map(|e| e.sold_delta).sum::<i64>(), total);
    assert_eq!(entries.iter().map(|e| e.total_delta).sum::<i64>(), 50);
    let rows = orders::Entity::find().all(app.db()).await.unwrap();
    let slots: BTreeSet<_> = rows
        .iter()
        .flat_map(|row| (row.slot..row.slot + row.quantity).map(move |slot| (row.user_id, slot)))
        .collect();
    assert_eq!(
        slots.len(),
        usize::try_from(total).unwrap(),
        "no slot is held twice"
    );
    app.finish().await;
}

/// Twenty repeats at once are one order; the id stands for no other voucher or quantity.
async fn one_request_is_one_order(store: Store) {
    let app = TestApp::build()
        .on(store)
        .config(|c| c.rate_limits = false)
        .start()
        .await;
    let voucher = offer(&app, json!({})).await;
    let other = offer(&app, json!({})).await;
    let buyer = app.as_user(&app.user().await);
    let answers = join_all((0..20).map(|_| claim(&buyer, &voucher, "same", 1))).await;
    let orders: BTreeSet<_> = answers.iter().map(order_id).collect();
    assert_eq!(orders.len(), 1, "{orders:?}");
    for (voucher, quantity) in [(&voucher, 2), (&other, 1)] {
        let refused = claim(&buyer, voucher, "same", quantity).await;
        let error = refused.expect_code("BAD_INPUT");
        assert_eq!(error["extensions"]["argument"], "input.clientRequestId");
    }
    // Two vouchers under one id at the same moment: one of them has it.
    for round in 0..10 {
        let id = format!("both-{round}");
        let (here, there) = tokio::join!(
            claim(&buyer, &voucher, &id, 1),
            claim(&buyer, &other, &id, 1)
        );
        let accepted = [&here, &there]
            .iter()
            .filter(|a| a.code().is_none())
            .count();
        assert_eq!(accepted, 1, "{} {}", here.body, there.body);
    }
    let another = app.as_user(&app.user().await);
    assert_eq!(
        kind(&claim(&another, &voucher, "same", 3).await),
        "ClaimAccepted"
    );
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_claims_at_once_on_mariadb() {
    a_hundred_at_once(Store::MariaDb).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_claims_at_once_on_postgres() {
    a_hundred_at_once(Store::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_claims_at_once_on_sqlite() {
    a_hundred_at_once(Store::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_is_one_order_on_mariadb() {
    one_request_is_one_order(Store::MariaDb).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_is_one_order_on_postgres() {
    one_request_is_one_order(Store::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_is_one_order_on_sqlite() {
    one_request_is_one_order(Store::Sqlite).await;
}
