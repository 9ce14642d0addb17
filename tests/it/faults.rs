//! Sales in which something dies. Whatever it is: nobody who was told "yes" ends with nothing, and the sale goes on.

use std::time::Duration;

use deadpool_redis::redis::aio::MultiplexedConnection;
use deadpool_redis::redis::{Client, cmd};
use entity::order;
use sea_orm::{EntityTrait, PaginatorTrait};

use crate::processes::{Cluster, assert_clean, drill};
use crate::support::private::{PrivateKafka, PrivateRedis};
use crate::support::process::{Output, Process, run};
use crate::support::proxy::Proxy;
use crate::support::stores::{Store, Stores, connect};
use crate::support::wait::eventually;

const READY: Duration = Duration::from_secs(60);
const LIMIT: Duration = Duration::from_secs(60);

/// Waits until so many orders have their row.
async fn rows(conn: &sea_orm::DatabaseConnection, at_least: u64) {
    eventually(LIMIT, &format!("{at_least} rows"), async || {
        order::Entity::find()
            .count(conn)
            .await
            .is_ok_and(|rows| rows >= at_least)
    })
    .await;
}

fn long_sale(cluster: &Cluster, users: u32, stock: u32) -> tokio::task::JoinHandle<Output> {
    let (env, urls) = (cluster.env.clone(), cluster.urls());
    tokio::spawn(async move { drill(&env, &urls, users, stock, 60).await })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_api_node_and_a_worker_that_are_killed_in_a_sale_lose_nothing() {
    let stores = Stores::create(Store::MariaDb).await.with_kafka();
    let mut cluster = Cluster::start(stores, &[]).await;
    let conn = connect(cluster.stores.database_url.as_ref().unwrap()).await;
    let sale = long_sale(&cluster, 4_000, 3_000);
    let logs = cluster.stores.folder.path().to_owned();
    for round in 1..=3 {
        rows(&conn, round * 250).await;
        let port = cluster.nodes[0].port();
        cluster.nodes[0].kill9();
        cluster.worker.kill9();
        cluster.nodes[0] = Process::spawn_at(port, &["serve", "--no-workers"], &cluster.env, &logs);
        cluster.worker = Process::spawn(&["work"], &cluster.env, &logs);
        cluster.nodes[0].wait_ready(READY).await;
    }
    assert_clean(&sale.await.unwrap());
    assert_clean(&drill(&cluster.env, &cluster.urls(), 200, 50, 20).await);
    conn.close().await.unwrap();
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sale_goes_on_while_kafka_is_down_and_after() {
    let kafka = PrivateKafka::start().await;
    let mut stores = Stores::create(Store::MariaDb).await;
    stores.kafka_brokers = Some(kafka.brokers());
    let cluster = Cluster::start(stores, &[]).await;
    let conn = connect(cluster.stores.database_url.as_ref().unwrap()).await;
    let sale = long_sale(&cluster, 1_500, 1_000);
    rows(&conn, 100).await;
    let down_since = tokio::time::Instant::now();
    kafka.kill9().await;
    // Clean means that every accepted order got its row, with nobody but the outbox to bring it.
    assert_clean(&sale.await.unwrap());
    assert_clean(&drill(&cluster.env, &cluster.urls(), 400, 100, 40).await);
    tokio::time::sleep_until(down_since + Duration::from_secs(20)).await;
    kafka.start_again().await;
    assert_clean(&drill(&cluster.env, &cluster.urls(), 400, 100, 40).await);
    conn.close().await.unwrap();
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_is_killed_in_a_sale_sells_on_in_a_new_epoch() {
    let mut redis = PrivateRedis::start().await;
    let mut stores = Stores::create(Store::MariaDb).await.with_kafka();
    stores.redis_url = Some(redis.url());
    let cluster = Cluster::start(stores, &[]).await;
    let conn = connect(cluster.stores.database_url.as_ref().unwrap()).await;
    let sale = long_sale(&cluster, 3_000, 2_000);
    rows(&conn, 300).await;
    redis.crash().await;
    rows(&conn, 600).await;
    redis.crash().await;
    assert_clean(&sale.await.unwrap());
    let sales = entity::sale::Entity::find().all(&conn).await.unwrap();
    assert!(
        sales.iter().any(|s| s.epoch > 1),
        "the restart was noticed: {sales:?}"
    );
    conn.close().await.unwrap();
    cluster.end().await;
}

/// Redis comes back with nothing: what had its row is there again, and the sale goes on with the rest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_redis_is_filled_from_the_database() {
    let mut redis = PrivateRedis::start().await;
    let mut stores = Stores::create(Store::MariaDb).await.with_kafka();
    stores.redis_url = Some(redis.url());
    let mut cluster = Cluster::start(stores, &[]).await;
    assert_clean(&drill(&cluster.env, &cluster.urls(), 300, 100, 30).await);
    redis.kill9();
    redis.lose_everything();
    redis.start_again().await;
    eventually(LIMIT, "a clean table", async || {
        run(&["verify"], &cluster.env).await.status.success()
    })
    .await;
    for node in &mut cluster.nodes {
        node.wait_ready(READY).await;
    }
    assert_clean(&drill(&cluster.env, &cluster.urls(), 300, 100, 30).await);
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_embedded_redis_that_is_killed_in_a_sale_comes_back_by_itself() {
    let stores = Stores::embedded();
    let env = stores.env();
    let mut server = Process::spawn(&["serve"], &env, stores.folder.path());
    server.wait_ready(READY).await;
    let conn = connect(&format!(
        "sqlite://{}/lifemate.db",
        stores.folder.path().display()
    ))
    .await;
    let (sale_env, url) = (env.clone(), server.client().base_url().to_owned());
    let sale = tokio::spawn(async move { drill(&sale_env, &[url], 1_500, 1_000, 40).await });
    rows(&conn, 100).await;
    let log = server.log();
    let pid = log
        .split("redis.pid=")
        .last()
        .unwrap()
        .split(|c: char| !c.is_ascii_digit())
        .next()
        .unwrap()
        .to_owned();
    let killed = std::process::Command::new("kill")
        .args(["-9", &pid])
        .status()
        .unwrap();
    assert!(killed.success());
    assert_clean(&sale.await.unwrap());
    assert!(
        server.log().matches("redis.pid=").count() > 1,
        "it was started again:\n{}",
        server.log()
    );
    conn.close().await.unwrap();
    server.assert_no_panic();
    assert!(server.term(Duration::from_secs(15)).await.success());
}

/// Redis answers nothing for four seconds: buyers hear "pending" or "try later", and what was taken is written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_hangs_in_a_sale_is_waited_for() {
    let redis = PrivateRedis::start().await;
    let mut stores = Stores::create(Store::MariaDb).await.with_kafka();
    stores.redis_url = Some(redis.url());
    let cluster = Cluster::start(stores, &[]).await;
    let conn = connect(cluster.stores.database_url.as_ref().unwrap()).await;
    let sale = long_sale(&cluster, 2_000, 1_500);
    rows(&conn, 200).await;
    redis.freeze();
    tokio::time::sleep(Duration::from_secs(4)).await;
    redis.thaw();
    assert_clean(&sale.await.unwrap());
    conn.close().await.unwrap();
    cluster.end().await;
}

/// A worker is stopped in the middle of its work, another one takes over, and the first wakes up late.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_sleeps_through_its_successor_harms_nothing() {
    let stores = Stores::create(Store::MariaDb).await.with_kafka();
    let cluster = Cluster::start(stores, &[("LIFEMATE_KAFKA_GROUP_PROTOCOL", "classic")]).await;
    let conn = connect(cluster.stores.database_url.as_ref().unwrap()).await;
    let sale = long_sale(&cluster, 2_000, 1_500);
    rows(&conn, 200).await;
    cluster.worker.freeze();
    let logs = cluster.stores.folder.path().to_owned();
    let mut second = Process::spawn(&["work"], &cluster.env, &logs);
    // The group needs six seconds to give the sleeper up; the second worker's sweeper needs ten.
    rows(&conn, 600).await;
    cluster.worker.thaw();
    assert_clean(&sale.await.unwrap());
    assert!(second.term(Duration::from_secs(15)).await.success());
    conn.close().await.unwrap();
    cluster.end().await;
}

/// The database is away for six seconds of a sale: buyers are accepted all the same, and the rows come afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sale_goes_on_while_the_database_is_away() {
    let stores = Stores::create(Store::MariaDb).await.with_kafka();
    let direct = stores.env();
    let url = stores.database_url.clone().unwrap();
    let (server, name) = url.rsplit_once('/').unwrap();
    let proxy = Proxy::to(server.rsplit_once('@').unwrap().1).await;
    let through = format!("mysql://root@127.0.0.1:{}/{name}", proxy.port());
    let mut cluster = Cluster::start(stores, &[("LIFEMATE_DATABASE_URL", &through)]).await;
    let conn = connect(&url).await;
    let urls = cluster.urls();
    let (env, sale_urls) = (direct.clone(), urls.clone());
    let sale = tokio::spawn(async move { drill(&env, &sale_urls, 3_000, 2_500, 60).await });
    rows(&conn, 200).await;
    proxy.cut();
    let written = order::Entity::find().count(&conn).await.unwrap();
    let key = format!("{}:{{v:*}}:orders", cluster.stores.deployment);
    let mut redis = redis_connection(&cluster).await;
    // Twice as many units are taken as rows could be written: the sale goes on by Redis alone.
    eventually(LIMIT, "units taken without the database", async || {
        let names: Vec<String> = cmd("KEYS").arg(&key).query_async(&mut redis).await.unwrap();
        let mut taken = 0;
        for name in names {
            taken += cmd("HLEN")
                .arg(name)
                .query_async::<u64>(&mut redis)
                .await
                .unwrap();
        }
        taken >= written + 300
    })
    .await;
    assert!(
        order::Entity::find().count(&conn).await.unwrap() < written + 100,
        "nobody writes rows now"
    );
    let ready = cluster.nodes[0].client().get("/health/ready").await;
    assert_eq!(ready.status(), 503, "the node says what is missing");
    proxy.mend();
    for node in &mut cluster.nodes {
        node.wait_ready(READY).await;
    }
    assert_clean(&sale.await.unwrap());
    assert_clean(&drill(&direct, &urls, 200, 50, 20).await);
    conn.close().await.unwrap();
    cluster.end().await;
}

async fn redis_connection(cluster: &Cluster) -> MultiplexedConnection {
    let url = cluster.stores.redis_url.clone().unwrap();
    Client::open(url)
        .unwrap()
        .get_multiplexed_async_connection()
        .await
        .unwrap()
}

/// Single keys of a sale vanish while it sells: it is seen as damaged, recovered, and sells on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sale_whose_keys_vanish_one_by_one_is_mended_and_sells_on() {
    let redis = PrivateRedis::start().await;
    let mut stores = Stores::create(Store::MariaDb).await.with_kafka();
    stores.redis_url = Some(redis.url());
    let cluster = Cluster::start(stores, &[]).await;
    let conn = connect(cluster.stores.database_url.as_ref().unwrap()).await;
    let sale = long_sale(&cluster, 4_000, 3_000);
    let mut own = redis.connection().await;
    for (round, part) in ["stock", "buyers", "orders", "attempts", "meta"]
        .iter()
        .enumerate()
    {
        rows(&conn, 150 * (round as u64 + 1)).await;
        let pattern = format!("{}:{{v:*}}:{part}", cluster.stores.deployment);
        let names: Vec<String> = cmd("KEYS")
            .arg(pattern)
            .query_async(&mut own)
            .await
            .unwrap();
        for name in names {
            cmd("DEL")
                .arg(name)
                .query_async::<i64>(&mut own)
                .await
                .unwrap();
        }
    }
    let output = sale.await.unwrap();
    // The books were broken on purpose, and the drill's samples saw that: everything else must hold.
    for name in ["I1", "I2", "I3", "I4", "I6", "I7"] {
        assert!(
            output.stdout.contains(&format!("{name} ok")),
            "{name}:\n{}",
            output.stdout
        );
    }
    eventually(LIMIT, "a clean table", async || {
        run(&["verify"], &cluster.env).await.status.success()
    })
    .await;
    assert_clean(&drill(&cluster.env, &cluster.urls(), 300, 100, 30).await);
    conn.close().await.unwrap();
    cluster.end().await;
}

/// Redis is flushed while it sells. Mode `redis` does not promise every order then, but nothing is oversold, the books
/// are right again, and the sale goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_is_flushed_in_a_sale_oversells_nothing_and_sells_on() {
    let redis = PrivateRedis::start().await;
    let mut stores = Stores::create(Store::MariaDb).await.with_kafka();
    stores.redis_url = Some(redis.url());
    let cluster = Cluster::start(stores, &[]).await;
    let conn = connect(cluster.stores.database_url.as_ref().unwrap()).await;
    let sale = long_sale(&cluster, 2_000, 1_500);
    let mut own = redis.connection().await;
    rows(&conn, 200).await;
    cmd("FLUSHALL").query_async::<()>(&mut own).await.unwrap();
    let output = sale.await.unwrap();
    for name in ["I1", "I2", "I4", "I6", "I7"] {
        assert!(
            output.stdout.contains(&format!("{name} ok")),
            "{name}:\n{}",
            output.stdout
        );
    }
    eventually(LIMIT, "a clean table", async || {
        run(&["verify"], &cluster.env).await.status.success()
    })
    .await;
    let epochs = entity::sale::Entity::find().all(&conn).await.unwrap();
    assert!(epochs.iter().any(|s| s.epoch > 1), "{epochs:?}");
    assert_clean(&drill(&cluster.env, &cluster.urls(), 300, 100, 30).await);
    conn.close().await.unwrap();
    cluster.end().await;
}

/// A node and a worker are asked to stop under load: they end in time and in good order, and nothing in hand is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_under_load_is_in_time_and_loses_nothing() {
    let stores = Stores::create(Store::MariaDb).await.with_kafka();
    let mut cluster = Cluster::start(stores, &[]).await;
    let conn = connect(cluster.stores.database_url.as_ref().unwrap()).await;
    let sale = long_sale(&cluster, 3_000, 2_000);
    let logs = cluster.stores.folder.path().to_owned();
    for round in 1..=2 {
        rows(&conn, round * 250).await;
        let port = cluster.nodes[0].port();
        let stopping = Duration::from_secs(15);
        let (node, worker) = tokio::join!(
            cluster.nodes[0].term(stopping),
            cluster.worker.term(stopping)
        );
        assert!(
            node.success() && worker.success(),
            "{node} {worker}\n{}",
            cluster.nodes[0].log()
        );
        cluster.nodes[0].assert_no_panic();
        cluster.worker.assert_no_panic();
        cluster.nodes[0] = Process::spawn_at(port, &["serve", "--no-workers"], &cluster.env, &logs);
        cluster.worker = Process::spawn(&["work"], &cluster.env, &logs);
        cluster.nodes[0].wait_ready(READY).await;
    }
    assert_clean(&sale.await.unwrap());
    conn.close().await.unwrap();
    cluster.end().await;
}
