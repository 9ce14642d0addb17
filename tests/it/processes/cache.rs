//! The cache of two server processes on one Redis, before a database that answers late.

use std::time::{Duration, Instant};

use deadpool_redis::redis::cmd;
use domain::infra::locks::{Locks, Owner};
use domain::infra::redis::Redis;
use entity::shop;
use sea_orm::{ConnectionTrait, DatabaseConnection, EntityTrait};
use serde_json::{Value, json};

use crate::processes::READY;
use crate::support::client::{Answer, Client};
use crate::support::process::{Process, run};
use crate::support::proxy::Proxy;
use crate::support::sale::create_shop;
use crate::support::stores::{Store, Stores, connect};
use crate::support::wait::eventually;

/// How much later each answer of the database comes. A read is three of them (is the connection alive, prepare,
/// execute): 200 ms and more.
const SLOW: Duration = Duration::from_millis(70);
const SOON: Duration = Duration::from_secs(20);
/// Below the five seconds that a copy lives: only the broadcast can be the reason.
const AT_ONCE: Duration = Duration::from_secs(2);
const STOP: Duration = Duration::from_secs(15);
const SHOP: &str = "query($id: ID!) { shop(id: $id) { name version } }";

/// Two servers, each behind a wire of its own to Redis, and both behind one to the database.
struct Pair {
    stores: Stores,
    nodes: [Process; 2],
    redis_wires: [Proxy; 2],
    database_wire: Proxy,
    /// The test's own ways to the stores.
    redis: Redis,
    database: DatabaseConnection,
    /// Somebody who may have shops, at the first server.
    merchant: Client,
}

impl Pair {
    async fn start() -> Self {
        let stores = Stores::create(Store::MariaDb).await;
        let url = |url: &Option<String>| url.clone().unwrap();
        let (database_url, redis_url) = (url(&stores.database_url), url(&stores.redis_url));
        let (database_wire, database_env) = wire("LIFEMATE_DATABASE_URL", &database_url).await;
        let mut env = stores.env();
        set(&mut env, database_env);
        let mut redis_wires = Vec::new();
        let mut nodes = Vec::new();
        // The first has the workers: without any, no server is ready to sell.
        for args in [&["serve"][..], &["serve", "--no-workers"]] {
            let (redis_wire, redis_env) = wire("LIFEMATE_REDIS_URL", &redis_url).await;
            let mut env = env.clone();
            set(&mut env, redis_env);
            redis_wires.push(redis_wire);
            nodes.push(Process::spawn(args, &env, stores.folder.path()));
        }
        for node in &mut nodes {
            node.wait_ready(READY).await;
            knows_the_ids(&node.client()).await;
        }
        let token = merchant(&stores).await;
        Self {
            redis: Redis::new(&redis_url, &stores.deployment).unwrap(),
            database: connect(&database_url).await,
            merchant: nodes[0].client().with_token(&token),
            nodes: nodes.try_into().ok().unwrap(),
            redis_wires: redis_wires.try_into().ok().unwrap(),
            database_wire,
            stores,
        }
    }

    /// What a metric of the cache says, both servers together.
    async fn sum(&self, name: &str, labels: &[&str]) -> u64 {
        let mut sum = 0;
        for node in &self.nodes {
            sum += metric(&node.client(), name, labels).await;
        }
        sum
    }

    /// How often the database was read for a kind.
    async fn rebuilds(&self, kind: &str) -> u64 {
        let kind = format!("kind=\"{kind}\"");
        self.sum("lifemate_cache_rebuilds_total", &[&kind]).await
    }

    /// Takes a row from the memory of both servers, as if its copies had grown old.
    async fn forget_copies(&self, key: &str) {
        let hears = |n| self.heard(n, key);
        let before = [hears(0).await, hears(1).await];
        self.redis
            .publish("cache", &format!("{key}:0"))
            .await
            .unwrap();
        eventually(SOON, "both servers to hear", async || {
            hears(0).await > before[0] && hears(1).await > before[1]
        })
        .await;
    }

    /// What both servers say of their caches, for the message of a failure.
    async fn story(&self) -> String {
        let mut story = String::new();
        for node in &self.nodes {
            let text = node.client().get("/metrics").await.text().await.unwrap();
            let lines = text
                .lines()
                .filter(|line| line.starts_with("lifemate_cache"));
            story.extend(lines.map(|line| format!("{line}\n")));
        }
        story
    }

    async fn heard(&self, node: usize, key: &str) -> u64 {
        let kind = format!("kind=\"{}\"", key.split(':').next().unwrap());
        let labels = [&*kind, "source=\"broadcast\""];
        let client = self.nodes[node].client();
        metric(&client, "lifemate_cache_invalidations_total", &labels).await
    }

    async fn end(mut self) {
        self.database_wire.slow(Duration::ZERO);
        for node in &mut self.nodes {
            let status = node.term(STOP).await;
            assert!(status.success(), "{status}: {}", node.log());
            node.assert_no_panic();
        }
        self.database.close().await.unwrap();
        self.stores.drop_database().await;
    }
}

/// The same query 500 times at each server at once; the answers, and how long the slowest took.
async fn crowd(
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

/// A wire to the host of a URL, and the variable that leads along it.
async fn wire(variable: &'static str, url: &str) -> (Proxy, (&'static str, String)) {
    let after_scheme = url.find("://").unwrap() + 3;
    let host = url[after_scheme..].split('/').next().unwrap();
    let host = host.rsplit('@').next().unwrap();
    let proxy = Proxy::to(host).await;
    let along = url.replacen(host, &format!("127.0.0.1:{}", proxy.port()), 1);
    (proxy, (variable, along))
}

fn set(env: &mut Vec<(String, String)>, (name, value): (&str, String)) {
    env.retain(|(known, _)| known != name);
    env.push((name.to_owned(), value));
}

/// The token of somebody who may have shops.
async fn merchant(stores: &Stores) -> String {
    let (env, file) = (stores.env(), stores.folder.path().join("sessions"));
    let out = file.display().to_string();
    let minted = run(&["admin", "sessions", "--count", "1", "--out", &out], &env).await;
    assert!(minted.status.success(), "{}", minted.stderr);
    let session: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let phone = session["phone"].as_str().unwrap();
    let granted = run(&["admin", "grant", phone, "merchant"], &env).await;
    assert!(granted.status.success(), "{}", granted.stderr);
    session["token"].as_str().unwrap().to_owned()
}

/// The sum of a metric's lines that carry all these labels.
async fn metric(client: &Client, name: &str, labels: &[&str]) -> u64 {
    let text = client.get("/metrics").await.text().await.unwrap();
    let lines = text.lines().filter(|line| {
        let named = line
            .strip_prefix(name)
            .is_some_and(|rest| rest.starts_with('{'));
        named && labels.iter().all(|label| line.contains(label))
    });
    lines
        .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
        .sum()
}

async fn knows_the_ids(client: &Client) {
    eventually(SOON, "the filters", async || {
        metric(client, "lifemate_cache_filter_rebuilds_total", &[]).await >= 4
    })
    .await;
}

fn number(id: &str) -> i64 {
    let id = async_graphql::ID(id.to_owned());
    schema::scalars::parse_id(&id, "Shop", "id").unwrap()
}

async fn rename(merchant: &Client, shop: &str, name: &str) -> Answer {
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
    let (answers, took) = crowd(&clients, SHOP, &variables).await;
    let refused = answers.iter().filter(|a| !a.errors().is_empty()).count();
    assert_eq!(refused, 0, "{took:?}\n{}", pair.story().await);
    for answer in answers {
        assert_eq!(answer.text("shop.version"), "1");
    }
    let reads = pair.rebuilds("shop").await - before;
    assert_eq!(reads, 1, "{}", pair.story().await);
    assert!(took < SOON, "{took:?}");

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
    assert!(began.elapsed() < SLOW, "{:?}", began.elapsed());
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
    assert!(began.elapsed() < SLOW, "{:?}", began.elapsed());
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
    let mut is_marked = cmd("HEXISTS");
    is_marked.arg(pair.redis.key(&key)).arg("until");
    eventually(SOON, "the mark", async || {
        pair.redis.query::<bool>(&is_marked).await.unwrap()
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
