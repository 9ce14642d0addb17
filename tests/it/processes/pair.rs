//! Two server processes on one Redis and one database, with wires to both that can be cut or be long.

use std::time::Duration;

use domain::infra::redis::Redis;
use sea_orm::DatabaseConnection;
use serde_json::Value;

use crate::processes::READY;
use crate::support::client::Client;
use crate::support::process::{Process, run};
use crate::support::proxy::Proxy;
use crate::support::stores::{Store, Stores, connect};
use crate::support::wait::eventually;

const SOON: Duration = Duration::from_secs(20);
pub(crate) const STOP: Duration = Duration::from_secs(15);

/// Two servers, each behind a wire of its own to Redis, and both behind one to the database.
pub(crate) struct Pair {
    pub(crate) stores: Stores,
    pub(crate) nodes: [Process; 2],
    pub(crate) redis_wires: [Proxy; 2],
    pub(crate) database_wire: Proxy,
    second_env: Vec<(String, String)>,
    /// The test's own ways to the stores.
    pub(crate) redis: Redis,
    pub(crate) database: DatabaseConnection,
    /// Somebody who may have shops, at the first server.
    pub(crate) merchant: Client,
}

impl Pair {
    pub(crate) async fn start() -> Self {
        let stores = Stores::create(Store::MariaDb).await;
        let url = |url: &Option<String>| url.clone().unwrap();
        let (database_url, redis_url) = (url(&stores.database_url), url(&stores.redis_url));
        let (database_wire, database_env) = wire("LIFEMATE_DATABASE_URL", &database_url).await;
        let mut env = stores.env();
        set(&mut env, database_env);
        let mut redis_wires = Vec::new();
        let (mut nodes, mut envs) = (Vec::new(), Vec::new());
        // The first has the workers: without any, no server is ready to sell.
        for args in [&["serve"][..], &["serve", "--no-workers"]] {
            let (redis_wire, redis_env) = wire("LIFEMATE_REDIS_URL", &redis_url).await;
            let mut env = env.clone();
            set(&mut env, redis_env);
            redis_wires.push(redis_wire);
            nodes.push(Process::spawn(args, &env, stores.folder.path()));
            envs.push(env);
        }
        for node in &mut nodes {
            node.wait_ready(READY).await;
            knows_the_ids(&node.client()).await;
        }
        let token = signed_in(&stores, "merchant").await;
        Self {
            redis: Redis::new(&redis_url, &stores.deployment).unwrap(),
            database: connect(&database_url).await,
            merchant: nodes[0].client().with_token(&token),
            nodes: nodes.try_into().ok().unwrap(),
            redis_wires: redis_wires.try_into().ok().unwrap(),
            database_wire,
            second_env: envs.remove(1),
            stores,
        }
    }

    /// What a metric of the cache says, both servers together.
    pub(crate) async fn sum(&self, name: &str, labels: &[&str]) -> u64 {
        let mut sum = 0;
        for node in &self.nodes {
            sum += metric(&node.client(), name, labels).await;
        }
        sum
    }

    /// How often the database was read for a kind.
    pub(crate) async fn rebuilds(&self, kind: &str) -> u64 {
        let kind = format!("kind=\"{kind}\"");
        self.sum("lifemate_cache_rebuilds_total", &[&kind]).await
    }

    /// The token of somebody new with a role.
    pub(crate) async fn signed_in(&self, role: &str) -> String {
        signed_in(&self.stores, role).await
    }

    /// Takes a row from the memory of both servers, as if its copies had grown old.
    pub(crate) async fn forget_copies(&self, key: &str) {
        let hears = |n| self.heard(n, key);
        let before = [hears(0).await, hears(1).await];
        // Said again until it is heard: a server that has just found Redis again may not listen yet.
        let word = format!("{key}:0");
        eventually(SOON, "both servers to hear", async || {
            self.redis.publish("cache", &word).await.unwrap();
            hears(0).await > before[0] && hears(1).await > before[1]
        })
        .await;
    }

    /// What both servers say of their caches, for the message of a failure.
    pub(crate) async fn story(&self) -> String {
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

    /// How often a server has heard of writes of this kind of row.
    pub(crate) async fn heard(&self, node: usize, key: &str) -> u64 {
        let kind = format!("kind=\"{}\"", key.split(':').next().unwrap());
        let labels = [&*kind, "source=\"broadcast\""];
        let client = self.nodes[node].client();
        metric(&client, "lifemate_cache_invalidations_total", &labels).await
    }

    /// Stops the second server and starts it again.
    pub(crate) async fn restart_second(&mut self) {
        let second = &mut self.nodes[1];
        assert!(second.term(STOP).await.success(), "{}", second.log());
        *second = Process::spawn(
            &["serve", "--no-workers"],
            &self.second_env,
            self.stores.folder.path(),
        );
        second.wait_ready(READY).await;
    }

    pub(crate) async fn end(mut self) {
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

/// The token of somebody new with a role.
async fn signed_in(stores: &Stores, role: &str) -> String {
    let (env, file) = (stores.env(), stores.folder.path().join(role));
    let out = file.display().to_string();
    let minted = run(&["admin", "sessions", "--count", "1", "--out", &out], &env).await;
    assert!(minted.status.success(), "{}", minted.stderr);
    let session: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let phone = session["phone"].as_str().unwrap();
    let granted = run(&["admin", "grant", phone, role], &env).await;
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
