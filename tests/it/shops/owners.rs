//! Whose a shop is, and what may be said of it.

use entity::shop;
use sea_orm::{EntityTrait, PaginatorTrait};
use serde_json::{Value, json};

use super::{shop_id, type_id};
use crate::support::app::TestApp;
use crate::support::client::{Answer, Client};
use crate::support::sale::create_shop;
use crate::support::stores::Store;

pub(super) const CREATE: &str =
    "mutation($input: CreateShopInput!) { createShop(input: $input) { shop { id version } } }";
pub(super) const UPDATE: &str =
    "mutation($input: UpdateShopInput!) { updateShop(input: $input) { shop { id version } } }";
const CLOSE: &str =
    "mutation($input: CloseShopInput!) { closeShop(input: $input) { shop { id status } } }";

fn details() -> Value {
    json!({ "name": "Tea", "typeId": type_id(1), "location": { "latitude": 21.03, "longitude": 105.85 } })
}

pub(super) fn with(field: &str, value: Value) -> Value {
    let mut input = details();
    input[field] = value;
    input
}

pub(super) fn of_shop(shop: &str) -> Value {
    with("shopId", json!(shop))
}

pub(super) async fn run(client: &Client, mutation: &str, input: Value) -> Answer {
    client.gql(mutation, json!({ "input": input })).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shop_is_its_merchants_and_the_administrators_and_nobody_elses() {
    let app = TestApp::build().on(Store::Sqlite).start().await;
    let (buyer, nobody) = (app.as_user(&app.user().await), app.client());
    let merchant = app.as_user(&app.merchant().await);
    let stranger = app.as_user(&app.merchant().await);
    let admin = app.as_user(&app.admin().await);
    run(&buyer, CREATE, details())
        .await
        .expect_code("FORBIDDEN");
    run(&nobody, CREATE, details())
        .await
        .expect_code("UNAUTHENTICATED");
    assert_eq!(shop::Entity::find().count(app.db()).await.unwrap(), 0);

    let shop = create_shop(&merchant).await;
    let before = shop::Entity::find().all(app.db()).await.unwrap();
    let close = json!({ "shopId": shop });
    for (client, code) in [
        (&buyer, "FORBIDDEN"),
        (&stranger, "FORBIDDEN"),
        (&nobody, "UNAUTHENTICATED"),
    ] {
        run(client, UPDATE, of_shop(&shop)).await.expect_code(code);
        run(client, CLOSE, close.clone()).await.expect_code(code);
    }
    assert_eq!(
        shop::Entity::find().all(app.db()).await.unwrap(),
        before,
        "nothing happened"
    );
    for client in [&merchant, &admin] {
        run(client, UPDATE, of_shop(&shop_id(77)))
            .await
            .expect_code("NOT_FOUND");
        run(client, CLOSE, json!({ "shopId": shop_id(77) }))
            .await
            .expect_code("NOT_FOUND");
        run(client, UPDATE, of_shop(&shop)).await.data();
    }
    let closed = run(&admin, CLOSE, close).await;
    assert_eq!(closed.text("closeShop.shop.status"), "CLOSED");
    // It is in no list; who knows it still reads it.
    let query = "query($id: ID!) { shop(id: $id) { status } shops { edges { cursor } } }";
    let seen = nobody.gql(query, json!({ "id": shop })).await;
    assert_eq!(
        seen.data(),
        &json!({ "shop": { "status": "CLOSED" }, "shops": { "edges": [] } })
    );
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shop_that_does_not_exist_is_null_and_an_id_that_is_none_is_refused() {
    let app = TestApp::build().on(Store::Sqlite).start().await;
    let merchant = app.as_user(&app.merchant().await);
    let query = "query($id: ID!) { shop(id: $id) { id } }";
    for number in [1, i64::MAX] {
        let unknown = app.gql(query, json!({ "id": shop_id(number) })).await;
        assert_eq!(unknown.data(), &json!({ "shop": null }));
    }
    let voucher = schema::scalars::global_id("Voucher", 1).to_string();
    for malformed in [
        "",
        "1",
        "x",
        "🍜",
        &voucher,
        &type_id(1),
        &format!("{}=", shop_id(1)),
    ] {
        let refused = app.gql(query, json!({ "id": malformed })).await;
        let error = refused.expect_code("BAD_INPUT");
        assert_eq!(error["extensions"]["argument"], "id", "{malformed:?}");
        assert_eq!(
            refused.body["data"],
            json!({ "shop": null }),
            "the field alone fails"
        );
        let refused = run(&merchant, UPDATE, of_shop(malformed)).await;
        assert_eq!(
            refused.expect_code("BAD_INPUT")["extensions"]["argument"],
            "input.shopId"
        );
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_may_not_be_said_of_a_shop_is_refused_by_the_arguments_name() {
    let app = TestApp::build().on(Store::Sqlite).start().await;
    let merchant = app.as_user(&app.merchant().await);
    let place =
        |latitude: f64, longitude: f64| json!({ "latitude": latitude, "longitude": longitude });
    let price = |amount: &str, code: &str| json!({ "amount": amount, "currencyCode": code });
    let mut cases = vec![
        ("name", json!("")),
        ("name", json!(" \u{3000}\n")),
        ("name", json!("x".repeat(256))),
        ("address", json!("x".repeat(256))),
        ("area", json!("x".repeat(129))),
        ("openHours", json!("x".repeat(256))),
        ("typeId", json!("x")),
        ("typeId", json!(type_id(99))),
        ("averagePrice", price("12.505", "USD")),
        ("averagePrice", price("-1", "VND")),
        ("averagePrice", price("1", "XXX")),
        ("location", place(85.06, 0.0)),
        ("location", place(0.0, -180.5)),
    ];
    for text in ["a\0b", "a\u{202e}b", "a\u{2066}b", "\u{200f}a", "a\u{61c}"] {
        cases.extend(["name", "address", "area", "openHours"].map(|field| (field, json!(text))));
    }
    for (field, value) in &cases {
        let refused = run(&merchant, CREATE, with(field, value.clone())).await;
        let argument = &refused.expect_code("BAD_INPUT")["extensions"]["argument"];
        assert_eq!(argument, &json!(format!("input.{field}")), "{value}");
    }
    assert_eq!(shop::Entity::find().count(app.db()).await.unwrap(), 0);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_person_spends_on_average_is_told_and_sorts_a_list() {
    let app = TestApp::build().on(Store::Sqlite).start().await;
    let merchant = app.as_user(&app.merchant().await);
    let mut ids = Vec::new();
    for amount in ["90000", "35000"] {
        let price = json!({ "amount": amount, "currencyCode": "VND" });
        let made = run(&merchant, CREATE, with("averagePrice", price)).await;
        ids.push(made.text("createShop.shop.id").to_owned());
    }
    let query =
        "{ shops(sort: PRICE) { edges { node { id averagePrice { amount currencyCode } } } } }";
    let cheapest = merchant.gql(query, Value::Null).await;
    assert_eq!(cheapest.text("shops.edges.0.node.id"), ids[1]);
    let price = json!({ "amount": "35000", "currencyCode": "VND" });
    assert_eq!(cheapest.at("shops.edges.0.node.averagePrice"), &price);
    // What an update leaves out becomes unknown.
    run(&merchant, UPDATE, of_shop(&ids[1])).await.data();
    let after = merchant.gql(query, Value::Null).await;
    assert_eq!(after.text("shops.edges.0.node.id"), ids[0]);
    assert_eq!(after.at("shops.edges.1.node.averagePrice"), &Value::Null);
    app.finish().await;
}

async fn words_come_back_byte_for_byte_on(store: Store) {
    let app = TestApp::build().on(store).start().await;
    let merchant = app.as_user(&app.merchant().await);
    // Joined emoji, letters of several planes and both ways to write an accent; nothing is normalised or trimmed.
    let texts = [
        "👩‍👩‍👧‍👦 🏳️‍🌈 𠮷野家",
        "é e\u{301} phở ﬁ İ ß",
        "  \"quotes\" \\ 'and' <b>&amp;</b>\t\n ",
    ];
    let mut all: Vec<String> = texts.map(str::to_owned).to_vec();
    all.push("🍜".repeat(128));
    for text in &all {
        let mut input = details();
        for field in ["name", "address", "area", "openHours"] {
            input[field] = json!(text);
        }
        let made = run(&merchant, CREATE, input).await;
        let id = made.text("createShop.shop.id");
        let query = "query($id: ID!) { shop(id: $id) { name address area openHours } shops(first: 1) { edges { node { name } } } }";
        let seen = app.gql(query, json!({ "id": id })).await;
        let expected = json!({ "name": text, "address": text, "area": text, "openHours": text });
        assert_eq!(seen.at("shop"), &expected);
        assert_eq!(seen.text("shops.edges.0.node.name"), text);
    }
    let rows = shop::Entity::find().all(app.db()).await.unwrap();
    let mut stored: Vec<String> = rows.into_iter().map(|s| s.name).collect();
    stored.sort();
    all.sort();
    assert_eq!(stored, all);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn emoji_and_rare_letters_survive_byte_for_byte() {
    for store in [Store::MariaDb, Store::Postgres, Store::Sqlite] {
        words_come_back_byte_for_byte_on(store).await;
    }
}
