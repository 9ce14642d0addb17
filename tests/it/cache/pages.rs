//! First pages of lists, and what the API says while the cache's Redis is away.

use std::time::Duration;

use deadpool_redis::redis::cmd;
use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::client::Client;
use crate::support::private::PrivateRedis;
use crate::support::sale::create_shop;
use crate::support::wait::eventually;

const SOON: Duration = Duration::from_secs(20);
/// Before a page that is kept would be read again by itself.
const AT_ONCE: Duration = Duration::from_secs(2);

async fn listed(client: &Client, query: &str, field: &str) -> Vec<String> {
    let answer = client.gql(query, Value::Null).await;
    let edges = answer.list(&format!("{field}.edges"));
    let id = |edge: &Value| edge["node"]["id"].as_str().unwrap().to_owned();
    edges.iter().map(id).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_page_follows_the_shops_on_both_servers() {
    let mut app = TestApp::start().await;
    let second = app.second_node().await;
    let merchant = app.as_user(&app.merchant().await);
    let newest = "{ shops(first: 20) { edges { node { id } } pageInfo { hasNextPage } } }";
    assert!(listed(&merchant, newest, "shops").await.is_empty());
    assert!(listed(&second, newest, "shops").await.is_empty());
    let (old, new) = (create_shop(&merchant).await, create_shop(&merchant).await);
    let both = [new.clone(), old.clone()];
    assert_eq!(
        listed(&merchant, newest, "shops").await,
        both,
        "who wrote sees it at once"
    );
    eventually(AT_ONCE, "the other server", async || {
        listed(&second, newest, "shops").await == both
    })
    .await;
    let close = "mutation($id: ID!) { closeShop(input: { shopId: $id }) { shop { status } } }";
    merchant.gql(close, json!({ "id": new })).await.data();
    assert_eq!(
        listed(&merchant, newest, "shops").await,
        std::slice::from_ref(&old)
    );
    eventually(AT_ONCE, "the other server", async || {
        listed(&second, newest, "shops").await == std::slice::from_ref(&old)
    })
    .await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_page_is_full_and_the_next_one_goes_on_after_it() {
    let app = TestApp::start().await;
    let merchant = app.as_user(&app.merchant().await);
    let mut shops = Vec::new();
    for _ in 0..23 {
        shops.insert(0, create_shop(&merchant).await);
    }
    for sort in ["NEWEST", "SCORE", "SOLD"] {
        for first in [1, 7, 20, 21, 50] {
            let query = format!(
                "query($after: String) {{ shops(sort: {sort}, first: {first}, after: $after) {{
                    edges {{ node {{ id }} }} pageInfo {{ hasNextPage endCursor }} }} }}"
            );
            let (mut found, mut after) = (Vec::new(), Value::Null);
            loop {
                let answer = merchant.gql(&query, json!({ "after": after })).await;
                for edge in answer.list("shops.edges") {
                    found.push(edge["node"]["id"].as_str().unwrap().to_owned());
                }
                if answer.at("shops.pageInfo.hasNextPage") == &json!(false) {
                    break;
                }
                after = answer.at("shops.pageInfo.endCursor").clone();
            }
            assert_eq!(found, shops, "{sort} by {first}");
        }
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_of_sales_follows_its_merchants_at_once_and_the_clock_soon() {
    let mut app = TestApp::start().await;
    let second = app.second_node().await;
    let running = "{ flashSales(state: RUNNING) { edges { node { id } } } }";
    assert!(listed(&second, running, "flashSales").await.is_empty());
    let later = Duration::from_secs(3_600);
    let sale = app
        .sale()
        .await
        .opens_in(later)
        .ends_in(later * 2)
        .create()
        .await;
    let merchant = app.as_user(&sale.merchant);
    assert!(listed(&merchant, running, "flashSales").await.is_empty());
    app.shift_clocks(later + Duration::from_secs(1));
    for client in [&merchant, &second] {
        eventually(Duration::from_secs(4), "the opening", async || {
            listed(client, running, "flashSales").await == [sale.voucher.clone()]
        })
        .await;
    }
    let end = "mutation($id: ID!) { endVoucher(input: { voucherId: $id }) { voucher { id } } }";
    let voucher = json!({ "id": sale.voucher });
    merchant.gql(end, voucher).await.data();
    assert!(
        listed(&merchant, running, "flashSales").await.is_empty(),
        "at once"
    );
    app.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cache_redis_of_its_own_has_the_cache_alone_and_the_api_says_when_it_is_away() {
    let mut cache = PrivateRedis::start().await;
    let url = cache.url();
    let app = TestApp::build()
        .config(move |config| config.cache_redis_url = Some(url))
        .start()
        .await;
    let sale = app.sale().await.create().await;
    let query = "query($shop: ID!, $voucher: ID!) { shop(id: $shop) { name type { name } }
        voucher(id: $voucher) { title shop { name } sale { total } }
        shops { edges { node { id } } } serverTime }";
    let wish = json!({ "shop": sale.shop, "voucher": sale.voucher });
    let answer = app.gql(query, wish.clone()).await;
    assert_eq!(answer.body.get("extensions"), None);
    let keys = async |redis: &domain::infra::redis::Redis| -> Vec<String> {
        let mut scan = cmd("KEYS");
        scan.arg(redis.key("*"));
        let mut keys: Vec<String> = redis.query(&scan).await.unwrap();
        keys.sort();
        keys
    };
    let prefix = app.redis().key("cache:");
    let locks = app.redis().key("lock");
    let there = keys(app.services().infra().cache.redis()).await;
    let is_cache = |key: &String| key.starts_with(&prefix) || key.starts_with(&locks);
    assert!(there.iter().all(is_cache), "{there:?}");
    for kind in ["shop:", "shop_types:", "shop_page:", "voucher:", "sale:"] {
        let named = format!("{prefix}{kind}");
        assert!(
            there.iter().any(|key| key.starts_with(&named)),
            "no {kind} in {there:?}"
        );
    }
    let sold = keys(app.redis()).await;
    assert!(
        !sold.is_empty() && !sold.iter().any(|key| key.starts_with(&prefix)),
        "{sold:?}"
    );

    cache.kill9();
    let fields = async || {
        let answer = app.gql(query, wish.clone()).await;
        answer.data();
        answer.body["extensions"]["degraded"].clone()
    };
    let all = json!(["sale", "shop", "shops", "type", "voucher"]);
    eventually(SOON, "the confession", async || fields().await == all).await;
    cache.start_again().await;
    eventually(SOON, "the return", async || fields().await.is_null()).await;
    app.finish().await;
}
