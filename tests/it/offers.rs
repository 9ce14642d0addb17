//! Vouchers as merchants make them and buyers list them, and orders as the API hands them out: to their buyer alone.

use chrono::{DateTime, Duration, Utc};
use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::client::{Answer, Client};
use crate::support::sale::{create_shop, publish, seckill};
use crate::support::subscription::{Event, Subscription};

async fn create(merchant: &Client, input: &Value) -> Answer {
    let query = "mutation($input: CreateVoucherInput!) { createVoucher(input: $input) { voucher {
        id payPrice { amount currencyCode } value { amount } sale { total perUserLimit maxAttempts state } } } }";
    merchant.gql(query, json!({ "input": input })).await
}

fn at(wait: Duration) -> String {
    let moment: DateTime<Utc> = Utc::now() + wait;
    moment.to_rfc3339()
}

fn offer(shop: &str) -> Value {
    json!({
        "shopId": shop, "kind": "SECKILL", "title": "Egg coffee ☕", "payPrice": "12.50", "value": "20", "currencyCode": "USD",
        "sale": { "startsAt": at(Duration::minutes(5)), "endsAt": at(Duration::minutes(10)), "total": 5 },
    })
}

/// The offer with one thing changed, `path` parted by dots.
fn with(shop: &str, path: &str, value: Value) -> Value {
    let mut offer = offer(shop);
    let pointer = format!("/{}", path.replace('.', "/"));
    match offer.pointer_mut(&pointer) {
        Some(place) => *place = value,
        None => {
            let (parent, name) = pointer.rsplit_once('/').unwrap();
            offer.pointer_mut(parent).unwrap()[name] = value;
        }
    }
    offer
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_voucher_that_makes_no_sense_is_refused_by_the_arguments_name() {
    let app = TestApp::start().await;
    let merchant = app.as_user(&app.merchant().await);
    let shop = create_shop(&merchant).await;
    let cases = [
        ("title", json!(""), "input.title"),
        ("title", json!("x".repeat(129)), "input.title"),
        ("title", json!("a\u{202e}b"), "input.title"),
        ("rules", json!("x".repeat(2_001)), "input.rules"),
        ("payPrice", json!("12.505"), "input.payPrice"),
        ("payPrice", json!("-1"), "input.payPrice"),
        ("payPrice", json!("1e3"), "input.payPrice"),
        ("value", json!("12.49"), "input.value"),
        ("shopId", json!("x"), "input.shopId"),
        ("sale", Value::Null, "input.sale"),
        ("kind", json!("ORDINARY"), "input.sale"),
        (
            "sale.endsAt",
            json!(at(Duration::minutes(5))),
            "input.sale.endsAt",
        ),
        (
            "sale.endsAt",
            json!(at(Duration::minutes(1))),
            "input.sale.endsAt",
        ),
        (
            "sale.startsAt",
            json!(at(Duration::minutes(11))),
            "input.sale.endsAt",
        ),
        ("sale.total", json!(0), "input.sale.total"),
        ("sale.total", json!(1_000_001), "input.sale.total"),
        ("sale.perUserLimit", json!(0), "input.sale.perUserLimit"),
        ("sale.perUserLimit", json!(11), "input.sale.perUserLimit"),
        ("sale.maxAttempts", json!(0), "input.sale.maxAttempts"),
    ];
    for (path, value, named) in cases {
        let answer = create(&merchant, &with(&shop, path, value.clone())).await;
        let argument = &answer.expect_code("BAD_INPUT")["extensions"]["argument"];
        assert_eq!(argument, named, "{path}: {value}");
    }
    let unknown = create(&merchant, &with(&shop, "currencyCode", json!("XXX"))).await;
    unknown.expect_code("BAD_INPUT");
    let past = json!({ "startsAt": at(Duration::hours(-2)), "endsAt": at(Duration::hours(-1)), "total": 5 });
    create(&merchant, &with(&shop, "sale", past))
        .await
        .expect_code("BAD_INPUT");
    create(&app.as_user(&app.merchant().await), &offer(&shop))
        .await
        .expect_code("FORBIDDEN");

    let made = create(&merchant, &with(&shop, "sale.perUserLimit", json!(5))).await;
    let voucher = made.at("createVoucher.voucher");
    assert_eq!(
        voucher["payPrice"],
        json!({ "amount": "12.50", "currencyCode": "USD" })
    );
    assert_eq!(voucher["value"]["amount"], "20.00");
    assert_eq!(
        voucher["sale"],
        json!({ "total": 5, "perUserLimit": 5, "maxAttempts": 5, "state": "DRAFT" }),
        "attempts are never below the limit"
    );
    let id = voucher["id"].as_str().unwrap().to_owned();
    let query = "query($s: ID!) { shop(id: $s) { vouchers { edges { node { id } } } } flashSales(shopId: $s) { edges { node { id } } } }";
    let seen = app.gql(query, json!({ "s": shop })).await;
    assert!(
        seen.list("shop.vouchers.edges").is_empty() && seen.list("flashSales.edges").is_empty(),
        "a draft is nobody's"
    );
    app.gql(
        "{ flashSales(state: DRAFT) { edges { cursor } } }",
        Value::Null,
    )
    .await
    .expect_code("UNAUTHENTICATED");
    let drafts = "query($s: ID) { flashSales(state: DRAFT, shopId: $s) { edges { node { id } } } }";
    let own = merchant.gql(drafts, json!({ "s": shop })).await;
    assert_eq!(own.list("flashSales.edges").len(), 1);
    merchant
        .gql(drafts, json!({}))
        .await
        .expect_code("FORBIDDEN");
    let stranger = app.as_user(&app.merchant().await);
    stranger
        .gql(drafts, json!({ "s": shop }))
        .await
        .expect_code("FORBIDDEN");
    let admin = app.as_user(&app.admin().await);
    let by_id =
        "query($v: ID!) { voucher(id: $v) { id } node(id: $v) { id } nodes(ids: [$v]) { id } }";
    let known = json!({ "id": id });
    for (viewer, sees) in [
        (&app.client(), &Value::Null),
        (&app.as_user(&app.user().await), &Value::Null),
        (&stranger, &Value::Null),
        (&merchant, &known),
        (&admin, &known),
    ] {
        let seen = viewer.gql(by_id, json!({ "v": id })).await;
        assert_eq!(
            seen.data(),
            &json!({ "voucher": sees, "node": sees, "nodes": [sees] })
        );
    }
    assert_eq!(
        admin
            .gql(drafts, json!({}))
            .await
            .list("flashSales.edges")
            .len(),
        1
    );
    publish(&merchant, &id).await.data();
    let seen = app.gql(query, json!({ "s": shop })).await;
    assert_eq!(
        (
            seen.list("shop.vouchers.edges").len(),
            seen.list("flashSales.edges").len()
        ),
        (1, 1)
    );
    let close = "mutation($id: ID!) { closeShop(input: { shopId: $id }) { shop { status } } }";
    merchant.gql(close, json!({ "id": shop })).await.data();
    let closed = create(&merchant, &offer(&shop)).await;
    assert_eq!(
        closed.expect_code("BAD_INPUT")["extensions"]["argument"],
        "input.shopId"
    );
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_is_its_buyers_alone_by_whatever_way_it_is_asked_for() {
    let app = TestApp::start().await;
    let sale = app.sale().await.create().await;
    let (buyer, other) = (
        app.as_user(&app.user().await),
        app.as_user(&app.user().await),
    );
    let order = seckill(&buyer, &sale.voucher, "r1").await.accepted();
    let query = "query($id: ID!) { node(id: $id) { __typename id } nodes(ids: [$id, \"x\", $id]) { id } viewer { order(id: $id) { id } } }";
    let own = buyer.gql(query, json!({ "id": order })).await;
    assert_eq!(own.text("node.__typename"), "Order");
    assert_eq!(
        own.at("nodes"),
        &json!([{ "id": order }, null, { "id": order }])
    );
    let foreign = other.gql(query, json!({ "id": order })).await;
    assert_eq!(
        foreign.data(),
        &json!({ "node": null, "nodes": [null, null, null], "viewer": { "order": null } })
    );
    let mut forged = order.clone().into_bytes();
    forged[4] = if forged[4] == b'A' { b'B' } else { b'A' };
    let forged = String::from_utf8(forged).unwrap();
    assert_eq!(
        buyer.gql(query, json!({ "id": forged })).await.at("node"),
        &Value::Null
    );

    for id in [&order, &forged] {
        let watch = "subscription($id: ID!) { orderStatus(orderId: $id) { id } }";
        let mut watching = Subscription::open(&other, watch, json!({ "id": id })).await;
        let event = watching.event(std::time::Duration::from_secs(10)).await;
        let Event::Errors(errors) = event else {
            panic!("{event:?}")
        };
        assert!(errors.to_string().contains("NOT_FOUND"), "{errors}");
    }
    let many = vec![order.as_str(); 101];
    let answer = buyer
        .gql(
            "query($ids: [ID!]!) { nodes(ids: $ids) { id } }",
            json!({ "ids": many }),
        )
        .await;
    assert_eq!(
        answer.expect_code("BAD_INPUT")["extensions"]["argument"],
        "ids"
    );

    // A page's place belongs to one list of one viewer.
    let list =
        "query($after: String) { viewer { orders(first: 1, after: $after) { edges { cursor } } } }";
    let seen = crate::support::wait::eventually(
        std::time::Duration::from_secs(10),
        "the row",
        async || {
            let answer = buyer.gql(list, Value::Null).await;
            (!answer.list("viewer.orders.edges").is_empty()).then_some(answer)
        },
    )
    .await;
    let cursor = seen.text("viewer.orders.edges.0.cursor").to_owned();
    buyer.gql(list, json!({ "after": cursor })).await.data();
    other
        .gql(list, json!({ "after": cursor }))
        .await
        .expect_code("BAD_CURSOR");
    let of_voucher = "query($v: ID!) { voucher(id: $v) { viewerOrder { id } } }";
    assert_eq!(
        buyer
            .gql(of_voucher, json!({ "v": sale.voucher }))
            .await
            .text("voucher.viewerOrder.id"),
        order
    );
    assert_eq!(
        other
            .gql(of_voucher, json!({ "v": sale.voucher }))
            .await
            .at("voucher.viewerOrder"),
        &Value::Null
    );
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_draft_of_a_shop_that_has_closed_is_not_published() {
    let app = TestApp::start().await;
    let draft = app.sale().await.draft().create().await;
    let merchant = app.as_user(&draft.merchant);
    let close = "mutation($id: ID!) { closeShop(input: { shopId: $id }) { shop { status } } }";
    merchant
        .gql(close, json!({ "id": draft.shop }))
        .await
        .data();
    let refused = publish(&merchant, &draft.voucher).await;
    assert_eq!(
        refused.expect_code("BAD_INPUT")["extensions"]["argument"],
        "input.voucherId"
    );
    app.finish().await;
}
