//! The cache of two server processes on one Redis, before a database that answers late.

use std::time::{Duration, Instant};

use deadpool_redis::redis::cmd;
use domain::infra::locks::{Locks, Owner};
use entity::shop;
use sea_orm::{ConnectionTrait, EntityTrait};
use serde_json::{Value, json};

use crate::processes::pair::{Pair, STOP};
use crate::support::client::{Answer, Client};
use crate::support::process::Process;
use crate::support::sale::create_shop;
use crate::support::wait::eventually;

/// How much later each answer of the database comes. A read is three of them (is the connection alive, prepare,
/// execute): 200 ms and more. Who answers within three has not waited for one.
const SLOW: Duration = Duration::from_millis(70);
const SOON: Duration = Duration::from_secs(20);
/// Below the five seconds that a copy lives: only the broadcast can be the reason.
const AT_ONCE: Duration = Duration::from_secs(2);
const SHOP: &str = "query($id: ID!) { shop(id: $id) { name version } }";

/// The same query 500 times at each server at once; the answers, and how long the slowest took.
pub(crate) async fn crowd(
    clients: &[Client; 2],
    query: &'static str,
    variables: &Value,
) -> (Vec<Answer>, Duration) {
    let began = Instant::now();
    let tasks: Vec<_> = (0..1_000)
        .map(|n| {
            let (client, variables) = (clients[n % 2].clone(), variables.clone());
            tokio::spawn(async move { client.gql(query, variables).await })
        })
        .collect();
    let mut answers = Vec::new();
    for task in tasks {
        answers.push(task.await.unwrap());
    }
    (answers, began.elapsed())
}

pub(crate) fn number(id: &str) -> i64 {
    let id = async_graphql::ID(id.to_owned());
    schema::scalars::parse_id(&id, "Shop", "id").unwrap()
}

pub(crate) async fn rename(merchant: &Client, shop: &str, name: &str) -> Answer {
    let types = merchant.gql("{ shopTypes { id } }", Value::Null).await;
    let input = json!({ "shopId": shop, "name": name, "typeId": types.text("shopTypes.0.id"),
        "location": { "latitude": 21.02, "longitude": 105.85 } });
    let update =
        "mutation($input: UpdateShopInput!) { updateShop(input: $input) { shop { version } } }";
    merchant.gql(update, json!({ "input": input })).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_readers_of_an_expired_shop_are_one_read_of_a_slow_database() {
    let pair = Pair::start().await;
    let shop = create_shop(&pair.merchant).await;
    let key = format!("shop:{}", number(&shop));
    let variables = json!({ "id": shop });
    for node in &pair.nodes {
        assert_eq!(
            node.client()
                .gql(SHOP, variables.clone())
                .await
                .text("shop.version"),
            "1"
        );
    }
    // The value's time is over in every tier.
    pair.database_wire.slow(SLOW);
    let expire = async || {
        let mut forget = cmd("HDEL");
        forget
            .arg(pair.redis.key(format!("cache:{key}")))
            .arg("body");
        assert_eq!(pair.redis.query::<i64>(&forget).await.unwrap(), 1);
        pair.forget_copies(&key).await;
    };
    // Readers who are there already, so that a thousand handshakes are not what is measured.
    let clients = pair.nodes.each_ref().map(Process::client);
    crowd(&clients, SHOP, &variables).await;
    expire().await;
    let before = pair.rebuilds("shop").await;
    let redis = ["kind=\"shop\"", "tier=\"redis\""];
    let looks = pair.sum("lifemate_cache_requests_total", &redis).await;
    let (answers, took) = crowd(&clients, SHOP, &variables).await;
    let refused = answers.iter().filter(|a| !a.errors().is_empty()).count();
    assert_eq!(refused, 0, "{took:?}\n{}", pair.story().await);
    for answer in answers {
        assert_eq!(answer.text("shop.version"), "1");
    }
    let reads = pair.rebuilds("shop").await - before;
    assert_eq!(reads, 1, "{}", pair.story().await);
    assert!(took < SOON, "{took:?}");
    // Nobody spins: a thousand readers looked into Redis as often as one at each server does, give or take a copy.
    let looks = pair.sum("lifemate_cache_requests_total", &redis).await - looks;
    assert!(looks <= 8, "{looks} looks; {}", pair.story().await);

    // After a write the server that wrote is new at once, the other by the broadcast.
    pair.database_wire.slow(Duration::ZERO);
    rename(&pair.merchant, &shop, "Second").await.data();
    let ask = async |n: usize| pair.nodes[n].client().gql(SHOP, variables.clone()).await;
    assert_eq!(ask(0).await.text("shop.name"), "Second");
    eventually(AT_ONCE, "the other server", async || {
        ask(1).await.text("shop.name") == "Second"
    })
    .await;

    // Somebody else holds the lock, and holds it long: nobody hangs.
    expire().await;
    let locks = Locks::new(vec![pair.redis.clone()]);
    let (owner, lease) = (Owner::default(), Duration::from_secs(30));
    let held = locks
        .acquire(&key, &owner, lease, Duration::ZERO)
        .await
        .unwrap();
    let began = Instant::now();
    let refused = ask(1).await;
    let error = refused.expect_code("TRY_LATER");
    assert!(error["extensions"]["retryAfterMs"].as_i64().unwrap() > 0);
    assert_eq!(refused.body["data"], json!({ "shop": null }));
    assert!(
        began.elapsed() < Duration::from_secs(3),
        "{:?}",
        began.elapsed()
    );
    held.unwrap().release().await.unwrap();
    assert_eq!(ask(1).await.text("shop.name"), "Second");

    // All of it can be read from the metrics.
    let kind = "kind=\"shop\"";
    let requests = "lifemate_cache_requests_total";
    for (tier, result) in [
        ("local", "hit"),
        ("local", "miss"),
        ("redis", "hit"),
        ("redis", "miss"),
        ("database", "load"),
    ] {
        let labels = [
            kind,
            &format!("tier=\"{tier}\""),
            &format!("result=\"{result}\""),
        ];
        assert!(pair.sum(requests, &labels).await >= 1, "{tier} {result}");
    }
    assert_eq!(pair.sum("lifemate_cache_try_later_total", &[kind]).await, 1);
    for source in ["source=\"own\"", "source=\"broadcast\""] {
        let invalidations = "lifemate_cache_invalidations_total";
        assert!(
            pair.sum(invalidations, &[kind, source]).await >= 2,
            "{source}"
        );
    }
    pair.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_logical_expiry_a_thousand_readers_get_the_old_value_and_one_read_brings_the_new() {
    const TYPES: &str = "{ shopTypes { name } }";
    let pair = Pair::start().await;
    let name = async |n: usize| {
        let answer = pair.nodes[n].client().gql(TYPES, Value::Null).await;
        answer.text("shopTypes.0.name").to_owned()
    };
    assert_eq!(
        (name(0).await, name(1).await),
        ("Noodles".into(), "Noodles".into())
    );
    let clients = pair.nodes.each_ref().map(Process::client);
    crowd(&clients, TYPES, &Value::Null).await;
    let rename = "UPDATE shop_types SET name = 'Soups', version = version + 1";
    pair.database.execute_unprepared(rename).await.unwrap();
    // Old, but not forgotten: half an hour is left of the hour that an old value is told.
    let mut age = cmd("PEXPIRE");
    age.arg(pair.redis.key("cache:shop_types:all"))
        .arg(30 * 60 * 1_000);
    assert_eq!(pair.redis.query::<i64>(&age).await.unwrap(), 1);
    pair.database_wire.slow(SLOW);
    pair.forget_copies("shop_types:all").await;
    let before = pair.rebuilds("shop_types").await;
    let began = Instant::now();
    assert_eq!(name(0).await, "Noodles", "at once, the old one");
    assert!(began.elapsed() < SLOW * 3, "{:?}", began.elapsed());
    let (answers, _) = crowd(&clients, TYPES, &Value::Null).await;
    for answer in answers {
        let told = answer.text("shopTypes.0.name");
        assert!(["Noodles", "Soups"].contains(&told), "{told}");
    }
    eventually(AT_ONCE, "the new name", async || {
        name(0).await == "Soups" && name(1).await == "Soups"
    })
    .await;
    let reads = pair.rebuilds("shop_types").await - before;
    assert_eq!(reads, 1, "{}", pair.story().await);
    let stale = ["kind=\"shop_types\"", "result=\"stale\""];
    assert!(pair.sum("lifemate_cache_requests_total", &stale).await >= 1);

    // The lock is held elsewhere: the old value again, and no waiting.
    assert_eq!(pair.redis.query::<i64>(&age).await.unwrap(), 1);
    let locks = Locks::new(vec![pair.redis.clone()]);
    let (owner, lease) = (Owner::default(), Duration::from_secs(30));
    let held = locks.acquire("shop_types:all", &owner, lease, Duration::ZERO);
    let _held = held.await.unwrap().unwrap();
    pair.forget_copies("shop_types:all").await;
    let began = Instant::now();
    assert_eq!(name(1).await, "Soups");
    assert!(began.elapsed() < SLOW * 3, "{:?}", began.elapsed());
    pair.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_ids_that_never_were_cost_no_read_and_a_new_shop_is_found_at_once() {
    let pair = Pair::start().await;
    let before = [pair.rebuilds("shop").await, pair.rebuilds("voucher").await];
    let ids: Vec<String> = (0..10_000_i64)
        .map(|n| {
            let kind = if n % 2 == 0 { "Shop" } else { "Voucher" };
            // From the first moment of 2026 to the end of all ids.
            let number = 1 + n * 900_000_000_000_000 + n;
            schema::scalars::global_id(kind, number).to_string()
        })
        .collect();
    let nodes = "query($ids: [ID!]!) { nodes(ids: $ids) { id } }";
    for (n, ids) in ids.chunks(100).enumerate() {
        let client = pair.nodes[n % 2].client();
        let answer = client.gql(nodes, json!({ "ids": ids })).await;
        assert!(answer.list("nodes").iter().all(Value::is_null));
    }
    let after = [pair.rebuilds("shop").await, pair.rebuilds("voucher").await];
    let reads = after[0] - before[0] + after[1] - before[1];
    assert!(reads <= 10, "{reads} reads");
    let told = pair
        .sum("lifemate_cache_requests_total", &["tier=\"filter\""])
        .await;
    assert!(told >= 9_990, "{told} by the filters");

    // Found on the other server before any message could be sure to be there, and nothing is in anybody's way.
    pair.redis_wires[1].cut();
    let shop = create_shop(&pair.merchant).await;
    pair.redis_wires[1].mend();
    for node in &pair.nodes {
        let answer = node.client().gql(SHOP, json!({ "id": shop })).await;
        assert_eq!(answer.text("shop.version"), "1");
    }
    pair.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_between_its_commit_and_its_word_leaves_nothing_old_behind() {
    let pair = Pair::start().await;
    let shop = create_shop(&pair.merchant).await;
    let key = format!("cache:shop:{}", number(&shop));
    let second = pair.nodes[1].client();
    let name = async || {
        let answer = second.gql(SHOP, json!({ "id": shop })).await;
        answer.text("shop.name").to_owned()
    };
    let old = name().await;
    pair.database_wire.slow(SLOW * 3);
    let (merchant, id) = (pair.merchant.clone(), shop.clone());
    let types = merchant.gql("{ shopTypes { id } }", Value::Null).await;
    let input = json!({ "shopId": id, "name": "Second", "typeId": types.text("shopTypes.0.id"),
        "location": { "latitude": 21.02, "longitude": 105.85 } });
    let update =
        "mutation($input: UpdateShopInput!) { updateShop(input: $input) { shop { version } } }";
    let unheard = tokio::spawn(async move {
        let answer = merchant.try_gql(update, json!({ "input": input })).await;
        assert!(answer.is_err(), "{answer:?}");
    });
    // Marked: from now on the server's word reaches nobody.
    let mut fields = cmd("HKEYS");
    fields.arg(pair.redis.key(&key));
    eventually(SOON, "the mark", async || {
        let fields: Vec<String> = pair.redis.query(&fields).await.unwrap();
        fields.iter().any(|field| field.starts_with("w:"))
    })
    .await;
    pair.redis_wires[0].cut();
    eventually(SOON, "the commit", async || {
        let row = shop::Entity::find_by_id(number(&shop))
            .one(&pair.database)
            .await;
        row.unwrap().unwrap().version == 2
    })
    .await;
    let committed = Instant::now();
    let Pair {
        nodes: [mut first, mut second_node],
        database_wire,
        database,
        stores,
        ..
    } = pair;
    first.kill9();
    database_wire.slow(Duration::ZERO);
    unheard.await.unwrap();
    assert_eq!(name().await, old, "a copy");
    eventually(SOON, "the new name", async || name().await == "Second").await;
    let late = committed.elapsed();
    assert!(late <= Duration::from_millis(5_500), "{late:?}");

    assert!(
        second_node.term(STOP).await.success(),
        "{}",
        second_node.log()
    );
    database.close().await.unwrap();
    stores.drop_database().await;
}
