//! Whole sales through real processes: two API nodes and a worker on shared stores, and the one process of a laptop.

mod away;
mod cache;
mod fans;
mod pair;
mod protection;

use std::time::Duration;

use crate::support::process::{Output, Process, run};
use crate::support::stores::{Store, Stores};

pub(crate) const READY: Duration = Duration::from_secs(60);
const STOP: Duration = Duration::from_secs(15);

/// Two API nodes and a worker.
pub(crate) struct Cluster {
    pub(crate) stores: Stores,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) nodes: [Process; 2],
    pub(crate) worker: Process,
}

impl Cluster {
    pub(crate) async fn start(stores: Stores, more: &[(&str, &str)]) -> Self {
        let mut env = stores.env();
        env.extend(
            more.iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
        );
        let logs = stores.folder.path().to_owned();
        let node = || Process::spawn(&["serve", "--no-workers"], &env, &logs);
        let mut nodes = [node(), node()];
        let worker = Process::spawn(&["work"], &env, &logs);
        for node in &mut nodes {
            node.wait_ready(READY).await;
        }
        Self {
            stores,
            env,
            nodes,
            worker,
        }
    }

    pub(crate) fn urls(&self) -> Vec<String> {
        self.nodes
            .iter()
            .map(|n| n.client().base_url().to_owned())
            .collect()
    }

    /// Stops everything in good order, and leaves nothing behind.
    pub(crate) async fn end(mut self) {
        let [first, second] = &mut self.nodes;
        for process in [first, second, &mut self.worker] {
            let status = process.term(STOP).await;
            assert!(status.success(), "{status}: {}", process.log());
            process.assert_no_panic();
        }
        self.stores.drop_database().await;
    }
}

/// `lifemate drill sale` against these addresses.
pub(crate) async fn drill(
    env: &[(String, String)],
    urls: &[String],
    users: u32,
    stock: u32,
    clients: u32,
) -> Output {
    let numbers = [users.to_string(), stock.to_string(), clients.to_string()];
    let mut args = vec![
        "drill",
        "sale",
        "--users",
        &numbers[0],
        "--stock",
        &numbers[1],
        "--clients",
        &numbers[2],
    ];
    for url in urls {
        args.extend(["--url", url]);
    }
    run(&args, env).await
}

pub(crate) fn assert_clean(output: &Output) {
    assert!(
        output.status.success(),
        "{}\n{}",
        output.stdout,
        output.stderr
    );
    for name in ["I1", "I2", "I3", "I4", "I5", "I6", "I7"] {
        assert!(
            output.stdout.contains(&format!("{name} ok")),
            "{name} is missing:\n{}",
            output.stdout
        );
    }
}

/// A whole sale: 5,000 users, 1,000 units, 200 clients, double clicks, hang-ups, one request id at two nodes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_and_a_worker_sell_a_thousand_units_to_five_thousand_users() {
    let cluster = Cluster::start(Stores::create(Store::MariaDb).await.with_kafka(), &[]).await;
    let output = drill(&cluster.env, &cluster.urls(), 5_000, 1_000, 200).await;
    assert_clean(&output);
    assert!(output.stdout.contains("1000 rows"), "{}", output.stdout);
    let verify = run(&["verify"], &cluster.env).await;
    assert!(verify.status.success(), "{}", verify.stdout);
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sale_on_postgres_is_clean_with_the_classic_group_protocol_too() {
    let stores = Stores::create(Store::Postgres).await.with_kafka();
    let cluster = Cluster::start(stores, &[("LIFEMATE_KAFKA_GROUP_PROTOCOL", "classic")]).await;
    let output = drill(&cluster.env, &cluster.urls(), 1_000, 300, 100).await;
    assert_clean(&output);
    assert!(output.stdout.contains("300 rows"), "{}", output.stdout);
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_process_on_its_own_stores_sells_and_is_verified_running_and_stopped() {
    let stores = Stores::embedded();
    let env = stores.env();
    let mut server = Process::spawn(&["serve"], &env, stores.folder.path());
    server.wait_ready(READY).await;
    let url = server.client().base_url().to_owned();
    let output = drill(&env, &[url], 1_000, 300, 50).await;
    assert_clean(&output);
    assert!(output.stdout.contains("300 rows"), "{}", output.stdout);
    assert!(
        run(&["verify"], &env).await.status.success(),
        "beside the running server"
    );
    assert!(server.term(STOP).await.success(), "{}", server.log());
    server.assert_no_panic();
    let verify = run(&["verify"], &env).await;
    assert!(
        verify.status.success(),
        "without the server: {}{}",
        verify.stdout,
        verify.stderr
    );
}

/// The real export so many times over, each time elsewhere and under other numbers.
fn repeated_export(times: i64, file: &std::path::Path) {
    const DATA: &str = include_str!("../../../data/osm-hanoi-food.json");
    let export: serde_json::Value = serde_json::from_str(DATA).unwrap();
    let mut elements = Vec::new();
    for time in 0..times {
        let shift = |degrees: &serde_json::Value, by: i64| {
            serde_json::json!(degrees.as_f64().unwrap() + by as f64 / 100.0)
        };
        for element in export["elements"].as_array().unwrap() {
            let mut element = element.clone();
            element["id"] = (element["id"].as_i64().unwrap() * 1_000 + time).into();
            let place = match element.get("center") {
                Some(_) => &mut element["center"],
                None => &mut element,
            };
            place["lat"] = shift(&place["lat"], time % 20);
            place["lon"] = shift(&place["lon"], time / 20);
            elements.push(element);
        }
    }
    let export = serde_json::json!({ "version": 0.6, "elements": elements });
    std::fs::write(file, export.to_string()).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_thousand_places_are_imported_in_the_memory_of_ten_thousand() {
    let mut peaks = Vec::new();
    for times in [12, 125] {
        let stores = Stores::embedded();
        let (env, file) = (stores.env(), stores.folder.path().join("export.json"));
        repeated_export(times, &file);
        let import = ["import", "shops", file.to_str().unwrap()];
        let first = run(&import, &env).await;
        let (shops, nameless) = (800 * times, 26 * times);
        let report = |imported: i64, unchanged: i64| {
            format!(
                "imported {imported}, unchanged {unchanged}, skipped {nameless} (no name: {nameless})"
            )
        };
        assert_eq!(first.stdout.trim(), report(shops, 0), "{}", first.stderr);
        let again = run(&import, &env).await;
        assert_eq!(again.stdout.trim(), report(0, shops), "{}", again.stderr);
        let index = run(&["index", "shops"], &env).await;
        assert_eq!(
            index.stdout.trim(),
            format!("indexed {shops}"),
            "{}",
            index.stderr
        );
        peaks.push(first.peak_kib);
    }
    let [few, many] = peaks[..] else {
        unreachable!()
    };
    assert!(few > 0 && many < few * 3 / 2, "{few} KiB, then {many} KiB");
}
