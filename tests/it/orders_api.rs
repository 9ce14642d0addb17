//! Orders as the API hands them out: the viewer's list page by page, anything by its id, and nothing of anybody else's.

use std::collections::HashMap;
use std::time::Duration;

use domain::orders::{OrderId, OrderKey};
use domain::users::UserId;
use domain::vouchers::VoucherId;
use entity::order_reject::{self, RejectReason};
use schema::scalars::global_id;
use sea_orm::{EntityTrait, IntoActiveModel};
use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::client::Client;
use crate::support::sale::{cancel, order as read_order, pay, sandbox_pay, seckill};
use crate::support::subscription::{Event, Subscription};
use crate::support::wait::eventually;

const LIMIT: Duration = Duration::from_secs(20);
const PAGE: &str = "query($first: Int, $after: String, $status: OrderStatus) { viewer { orders(first: $first, after: $after, status: $status) {
    edges { cursor node { id status rejection } } pageInfo { hasNextPage endCursor } } } }";

/// The viewer's orders of a status, from pages of this size, as (id, status).
async fn listed(viewer: &Client, status: Option<&str>, first: usize) -> Vec<(String, String)> {
    let (mut found, mut after) = (Vec::new(), Value::Null);
    loop {
        let variables = json!({ "first": first, "after": after, "status": status });
        let answer = viewer.gql(PAGE, variables).await;
        let edges = answer.list("viewer.orders.edges");
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        found.extend(
            edges
                .iter()
                .map(|e| (text(&e["node"]["id"]), text(&e["node"]["status"]))),
        );
        if answer.at("viewer.orders.pageInfo.hasNextPage") == false {
            return found;
        }
        assert_eq!(edges.len(), first);
        after = answer.at("viewer.orders.pageInfo.endCursor").clone();
    }
}

async fn until(buyer: &Client, order: &str, status: &str) {
    eventually(LIMIT, status, async || {
        read_order(buyer, order).await["status"] == status
    })
    .await;
}

/// A reject as recovery would write it, newer than all orders there are.
async fn reject(app: &TestApp, buyer: i64, voucher: VoucherId) -> OrderKey {
    let id = app.services().infra().ids.next().unwrap();
    let row = order_reject::Model {
        order_id: id,
        voucher_id: voucher.0,
        user_id: buyer,
        slot: 1,
        reason: RejectReason::NotPlaced,
        price_minor: 990,
        currency: "CNY".to_owned(),
        request_id: "lost".to_owned(),
        reserved_at: app.services().infra().clock.now_ms(),
        created_at: app.services().infra().clock.now_ms(),
    };
    order_reject::Entity::insert(row.into_active_model())
        .exec_without_returning(app.db())
        .await
        .unwrap();
    OrderKey {
        order: OrderId(id),
        voucher,
        buyer: UserId(buyer),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_viewers_orders_come_newest_first_by_status_and_in_whole_pages() {
    let app = TestApp::build()
        .config(|c| c.clicks_per_second = 100)
        .start()
        .await;
    let sale = app
        .sale()
        .await
        .stock(30)
        .limit(10)
        .attempts(20)
        .create()
        .await;
    let user = app.user().await;
    let (buyer, other) = (app.as_user(&user), app.as_user(&app.user().await));
    assert_eq!(listed(&buyer, None, 20).await, []);
    let mut expected: Vec<(String, String)> = Vec::new();
    for n in 0..10 {
        let order = seckill(&buyer, &sale.voucher, &format!("r{n}"))
            .await
            .accepted();
        until(&buyer, &order, "UNPAID").await;
        let status = ["UNPAID", "CLOSED", "PAID"][n % 3];
        match status {
            "CLOSED" => drop(cancel(&buyer, &order).await.data()),
            "PAID" => drop(sandbox_pay(&buyer, &order, "SUCCEED").await.data()),
            _ => (),
        }
        until(&buyer, &order, status).await;
        expected.insert(0, (order, status.to_owned()));
    }
    let rejected = reject(&app, user.id, sale.voucher_id).await;
    expected.insert(
        0,
        (app.services().orders.seal(rejected), "REJECTED".to_owned()),
    );
    for first in [1, 4, 11, 50] {
        assert_eq!(
            listed(&buyer, None, first).await,
            expected,
            "pages of {first}"
        );
    }
    let mut counts = HashMap::new();
    for status in [
        "QUEUED",
        "UNPAID",
        "PAID",
        "USED",
        "CLOSED",
        "REFUNDING",
        "REFUNDED",
        "REJECTED",
    ] {
        let of_status: Vec<_> = expected
            .iter()
            .filter(|(_, s)| s == status)
            .cloned()
            .collect();
        assert_eq!(listed(&buyer, Some(status), 2).await, of_status, "{status}");
        counts.insert(status, of_status.len());
    }
    assert_eq!(
        (
            counts["UNPAID"],
            counts["PAID"],
            counts["CLOSED"],
            counts["REJECTED"]
        ),
        (4, 3, 3, 1)
    );

    // Another's list is another list, and an order that comes meanwhile moves no page.
    assert_eq!(listed(&other, None, 20).await, []);
    let first = buyer.gql(PAGE, json!({ "first": 3 })).await;
    let cursor = first.text("viewer.orders.pageInfo.endCursor").to_owned();
    let newest = seckill(&other, &sale.voucher, "r1").await.accepted();
    let mine = seckill(&buyer, &sale.voucher, "r10").await.accepted();
    until(&buyer, &mine, "UNPAID").await;
    until(&other, &newest, "UNPAID").await;
    let next = buyer
        .gql(PAGE, json!({ "first": 2, "after": cursor }))
        .await;
    assert_eq!(next.text("viewer.orders.edges.0.node.id"), expected[3].0);
    assert_eq!(next.text("viewer.orders.edges.1.node.id"), expected[4].0);
    assert_eq!(
        listed(&other, None, 20).await,
        [(newest, "UNPAID".to_owned())]
    );

    other
        .gql(PAGE, json!({ "after": cursor }))
        .await
        .expect_code("BAD_CURSOR");
    buyer
        .gql(PAGE, json!({ "after": cursor, "status": "PAID" }))
        .await
        .expect_code("BAD_CURSOR");
    let of_paid = buyer
        .gql(PAGE, json!({ "first": 1, "status": "PAID" }))
        .await;
    let of_paid = of_paid.text("viewer.orders.pageInfo.endCursor").to_owned();
    buyer
        .gql(PAGE, json!({ "after": of_paid }))
        .await
        .expect_code("BAD_CURSOR");
    for garbled in ["", "x", &cursor[1..], &format!("{cursor}A")] {
        buyer
            .gql(PAGE, json!({ "after": garbled }))
            .await
            .expect_code("BAD_CURSOR");
    }
    for first in [0, -1, 51] {
        let refused = buyer.gql(PAGE, json!({ "first": first })).await;
        assert_eq!(
            refused.expect_code("BAD_INPUT")["extensions"]["argument"],
            "first"
        );
    }
    assert_eq!(
        app.gql(PAGE, json!({})).await.data(),
        &json!({ "viewer": null })
    );
    order_reject::Entity::delete_by_id(rejected.order.0)
        .exec(app.db())
        .await
        .unwrap();
    app.finish().await;
}

/// Everything that takes an order's id, for an id that is none of the viewer's.
async fn assert_unknown(client: &Client, id: &str) {
    let query = "query($id: ID!) { node(id: $id) { id } nodes(ids: [$id]) { id } viewer { order(id: $id) { id } } }";
    let seen = client.gql(query, json!({ "id": id })).await;
    let nothing = json!({ "node": null, "nodes": [null], "viewer": { "order": null } });
    assert_eq!(seen.data(), &nothing, "{id}");
    for refused in [
        pay(client, id).await,
        cancel(client, id).await,
        sandbox_pay(client, id, "SUCCEED").await,
    ] {
        let error = refused.expect_code("NOT_FOUND");
        assert_eq!(
            error["message"], "no such thing",
            "another's is as unknown as none: {id}"
        );
    }
    let watch = "subscription($id: ID!) { orderStatus(orderId: $id) { id } }";
    let mut watching = Subscription::open(client, watch, json!({ "id": id })).await;
    let event = watching.event(LIMIT).await;
    let Event::Errors(errors) = event else {
        panic!("{event:?}")
    };
    assert!(errors.to_string().contains("NOT_FOUND"), "{errors}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_of_somebody_else_and_an_id_that_was_made_up_are_equally_unknown() {
    let app = TestApp::start().await;
    let sale = app.sale().await.create().await;
    let (owner, stranger) = (app.user().await, app.user().await);
    let buyer = app.as_user(&owner);
    let order = seckill(&buyer, &sale.voucher, "r1").await.accepted();
    let clients = [
        app.as_user(&stranger),
        app.as_user(&sale.merchant),
        app.as_user(&app.admin().await),
    ];
    for client in &clients {
        assert_unknown(client, &order).await;
    }
    // Signed out, nobody has orders.
    let query = "query($id: ID!) { node(id: $id) { id } viewer { order(id: $id) { id } } }";
    let seen = app.gql(query, json!({ "id": order })).await;
    assert_eq!(seen.data(), &json!({ "node": null, "viewer": null }));
    let nobody = app.client();
    for refused in [
        pay(&nobody, &order).await,
        cancel(&nobody, &order).await,
        sandbox_pay(&nobody, &order, "SUCCEED").await,
    ] {
        refused.expect_code("UNAUTHENTICATED");
    }

    let open = app.services().orders.open(&order).unwrap();
    let sealed = |key: OrderKey| {
        domain::orders::OrderKey::seal(&key, &domain::settings::Secret::new("not the secret"))
    };
    let mut tampered = order.clone().into_bytes();
    tampered[30] = if tampered[30] == b'A' { b'B' } else { b'A' };
    let made_up = [
        String::from_utf8(tampered).unwrap(),
        sealed(open),
        sealed(OrderKey {
            buyer: UserId(stranger.id),
            ..open
        }),
        order[..order.len() - 1].to_owned(),
        format!("{order}="),
        global_id("Order", open.order.0).to_string(),
    ];
    for id in &made_up {
        assert_unknown(&buyer, id).await;
    }
    assert_unknown(&clients[0], &made_up[2]).await;
    // The id that no sale can have sold, though it is ours.
    let of_no_sale = app.services().orders.seal(OrderKey {
        voucher: VoucherId(1),
        order: OrderId(1),
        ..open
    });
    let seen = buyer.gql(query, json!({ "id": of_no_sale })).await;
    assert_eq!(
        seen.data(),
        &json!({ "node": null, "viewer": { "order": null } })
    );
    until(&buyer, &order, "UNPAID").await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn anything_is_found_by_its_id_and_nothing_by_one_that_is_none() {
    let app = TestApp::start().await;
    let sale = app.sale().await.create().await;
    let user = app.user().await;
    let buyer = app.as_user(&user);
    let order = seckill(&buyer, &sale.voucher, "r1").await.accepted();
    let person = global_id("User", user.id).to_string();
    let things = [
        ("User", &person),
        ("Shop", &sale.shop),
        ("Voucher", &sale.voucher),
        ("Order", &order),
    ];
    let query = "query($id: ID!) { node(id: $id) { __typename id
        ... on User { nickname } ... on Shop { name } ... on Voucher { title } ... on Order { amount { amount } buyer { id } voucher { id shop { id } } } } }";
    for (name, id) in things {
        let found = buyer.gql(query, json!({ "id": id })).await;
        assert_eq!(
            (found.text("node.__typename"), found.text("node.id")),
            (name, id.as_str())
        );
    }
    let found = buyer.gql(query, json!({ "id": order })).await;
    assert_eq!(found.text("node.amount.amount"), "9.90");
    assert_eq!(found.text("node.buyer.id"), person);
    assert_eq!(found.text("node.voucher.shop.id"), sale.shop);

    let long = "A".repeat(10_000);
    let mut none: Vec<String> = ["", "x", "🍜", "VXNlcjo=", "null", &long]
        .map(str::to_owned)
        .to_vec();
    for name in ["User", "Shop", "Voucher", "Order", "ShopType", "Nothing"] {
        none.extend([1, i64::MAX].map(|number| global_id(name, number).to_string()));
    }
    none.retain(|id| id != &global_id("ShopType", 1).to_string());
    none.push(global_id("ShopType", 1).to_string());
    for id in &none {
        let seen = buyer.gql(query, json!({ "id": id })).await;
        assert_eq!(seen.data(), &json!({ "node": null }), "{id}");
    }

    // A hundred at once, in their order, each as often as it is asked for.
    let many = "query($ids: [ID!]!) { nodes(ids: $ids) { id } }";
    let hundred: Vec<&str> = (0..100)
        .map(|n| {
            if n % 5 == 4 {
                "x"
            } else {
                things[n % 5].1.as_str()
            }
        })
        .collect();
    let found = buyer.gql(many, json!({ "ids": hundred })).await;
    for (found, asked) in found.list("nodes").iter().zip(&hundred) {
        let expected = if *asked == "x" {
            Value::Null
        } else {
            json!({ "id": asked })
        };
        assert_eq!(found, &expected);
    }
    assert_eq!(found.list("nodes").len(), 100);
    let refused = buyer.gql(many, json!({ "ids": vec!["x"; 101] })).await;
    assert_eq!(
        refused.expect_code("BAD_INPUT")["extensions"]["argument"],
        "ids"
    );
    assert_eq!(
        buyer.gql(many, json!({ "ids": [] })).await.data(),
        &json!({ "nodes": [] })
    );
    app.finish().await;
}
