//! The cache as clients of two servers see it: what a merchant changes is there, and a wanted version is kept.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::client::Client;
use crate::support::sale::create_shop;
use crate::support::wait::eventually;

/// Below the five seconds that a copy lives: only the broadcast can be the reason.
const AT_ONCE: Duration = Duration::from_secs(2);

const SHOP: &str =
    "query($id: ID!, $min: String) { shop(id: $id, minVersion: $min) { name version } }";

async fn rename(merchant: &Client, shop: &str, name: &str) -> String {
    let types = merchant.gql("{ shopTypes { id } }", Value::Null).await;
    let input = json!({ "shopId": shop, "name": name, "typeId": types.text("shopTypes.0.id"),
        "location": { "latitude": 21.02, "longitude": 105.85 } });
    let update =
        "mutation($input: UpdateShopInput!) { updateShop(input: $input) { shop { version } } }";
    let answer = merchant.gql(update, json!({ "input": input })).await;
    answer.text("updateShop.shop.version").to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shop_that_changes_is_new_on_both_servers_and_a_wanted_version_is_kept() {
    let mut app = TestApp::start().await;
    let second = app.second_node().await;
    let merchant = app.as_user(&app.merchant().await);
    let shop = create_shop(&merchant).await;
    let ask = async |client: &Client, min: Option<&str>| {
        client.gql(SHOP, json!({ "id": shop, "min": min })).await
    };
    for client in [&merchant, &second] {
        assert_eq!(ask(client, None).await.text("shop.version"), "1");
    }
    let version = rename(&merchant, &shop, "Second").await;
    assert_eq!(version, "2");
    assert_eq!(ask(&merchant, None).await.text("shop.name"), "Second");
    // Exactly, whether the broadcast is there yet or not.
    let wanted = ask(&second, Some(&version)).await;
    assert_eq!(wanted.text("shop.name"), "Second");
    rename(&merchant, &shop, "Third").await;
    eventually(AT_ONCE, "the other server", async || {
        ask(&second, None).await.text("shop.name") == "Third"
    })
    .await;

    let later = ask(&second, Some("4")).await;
    let error = later.expect_code("TRY_LATER");
    assert_eq!(error["path"], json!(["shop"]));
    assert!(error["extensions"]["retryAfterMs"].as_i64().unwrap() > 0);
    assert_eq!(later.body["data"], json!({ "shop": null }));
    for no_version in ["x", "-1", "1000000000001", "9223372036854775807", "1e3"] {
        ask(&second, Some(no_version))
            .await
            .expect_code("BAD_INPUT");
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn merchants_who_change_one_shop_at_once_make_one_version_each() {
    let app = TestApp::start().await;
    let merchant = app.as_user(&app.merchant().await);
    let shop = create_shop(&merchant).await;
    let tasks: Vec<_> = (0..4)
        .map(|n| {
            let (merchant, shop) = (merchant.clone(), shop.clone());
            tokio::spawn(async move { rename(&merchant, &shop, &format!("Name {n}")).await })
        })
        .collect();
    let mut versions = Vec::new();
    for task in tasks {
        versions.push(task.await.unwrap());
    }
    versions.sort();
    assert_eq!(versions, ["2", "3", "4", "5"]);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sales_and_people_that_change_are_new_on_the_other_server_too() {
    let mut app = TestApp::start().await;
    let second = app.second_node().await;
    let sale = app.sale().await.stock(5).create().await;
    let merchant = app.as_user(&sale.merchant);
    let card = async || {
        let query = "query($id: ID!) { voucher(id: $id) { version sale { total endsAt } } }";
        second.gql(query, json!({ "id": sale.voucher })).await
    };
    let before = card().await;
    assert_eq!(before.int("voucher.sale.total"), 5);
    let adjust = "mutation($id: ID!) { adjustVoucherStock(input: { voucherId: $id, total: 7 }) { sale { total } } }";
    let voucher = json!({ "id": sale.voucher });
    merchant.gql(adjust, voucher.clone()).await.data();
    eventually(AT_ONCE, "the new total", async || {
        card().await.int("voucher.sale.total") == 7
    })
    .await;
    let end = "mutation($id: ID!) { endVoucher(input: { voucherId: $id }) { voucher { id } } }";
    merchant.gql(end, voucher).await.data();
    eventually(AT_ONCE, "the new end", async || {
        card().await.text("voucher.sale.endsAt") != before.text("voucher.sale.endsAt")
    })
    .await;

    let id = schema::scalars::global_id("User", sale.merchant.id).to_string();
    let name = async || {
        let query = "query($id: ID!) { user(id: $id) { nickname } }";
        let answer = second.gql(query, json!({ "id": id })).await;
        answer.text("user.nickname").to_owned()
    };
    assert_ne!(name().await, "Lan");
    let update = "mutation { updateProfile(input: { nickname: \"Lan\" }) { user { nickname } } }";
    merchant.gql(update, Value::Null).await.data();
    eventually(AT_ONCE, "the new name", async || name().await == "Lan").await;
    app.finish().await;
}
