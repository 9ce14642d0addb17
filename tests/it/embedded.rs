//! The embedded profile as a person runs it: one server a folder, a Redis that comes and goes with it, and nothing lost
//! when either is killed.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::client::Client;
use crate::support::people::random_phone;
use crate::support::process::{Process, run};
use crate::support::sale::{order, seckill};
use crate::support::stores::Folder;
use crate::support::subscription::{Event, Subscription};
use crate::support::wait::eventually;

const START: Duration = Duration::from_secs(60);
const SOON: Duration = Duration::from_secs(20);
/// A stop takes no longer, whatever is going on.
const STOP: Duration = Duration::from_secs(15);

fn env(folder: &Folder) -> Vec<(String, String)> {
    vec![(
        "LIFEMATE_DATA_DIR".to_owned(),
        folder.path().join("data").display().to_string(),
    )]
}

async fn serve(folder: &Folder) -> Process {
    let mut process = Process::spawn(&["serve"], &env(folder), folder.path());
    process.wait_ready(START).await;
    process
}

/// Logs in as a person does, with the code on the server's standard output.
async fn log_in(process: &Process) -> Client {
    let (client, phone) = (process.client(), random_phone());
    let ask =
        "mutation($phone: String!) { requestLoginCode(input: { phone: $phone }) { __typename } }";
    client.gql(ask, json!({ "phone": phone })).await.data();
    let code = process.login_code(&phone, SOON).await;
    let login = "mutation($phone: String!, $code: String!) { login(input: { phone: $phone, code: $code }) { token } }";
    let token = client
        .gql(login, json!({ "phone": phone, "code": code }))
        .await
        .text("login.token")
        .to_owned();
    client.with_token(&token)
}

/// The demo data's sales that are open and have many units.
async fn sales(client: &Client) -> Vec<String> {
    let query =
        "{ flashSales(state: RUNNING, first: 10) { edges { node { id sale { total } } } } }";
    let answer = eventually(SOON, "the demo data", async || {
        let answer = client.gql(query, json!({})).await;
        (answer.list("flashSales.edges").len() >= 2).then_some(answer)
    });
    let answer = answer.await;
    let many = |edge: &&Value| {
        edge["node"]["sale"]["total"]
            .as_i64()
            .is_some_and(|total| total >= 100)
    };
    let found = answer.list("flashSales.edges").iter().filter(many);
    found
        .map(|edge| edge["node"]["id"].as_str().unwrap().to_owned())
        .collect()
}

async fn assert_verified(folder: &Folder) {
    let output = run(&["verify"], &env(folder)).await;
    assert!(
        output.status.success(),
        "{}{}",
        output.stdout,
        output.stderr
    );
    assert!(
        output.stdout.contains("I1 ok") && output.stdout.contains("I5 ok"),
        "{}",
        output.stdout
    );
}

fn redis_pid(folder: &Folder) -> u32 {
    std::fs::read_to_string(folder.path().join("data/redis/redis.pid"))
        .unwrap()
        .trim()
        .parse()
        .unwrap()
}

fn is_running(pid: u32) -> bool {
    // A zombie has ended; its parent has not asked yet.
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

fn kill9(pid: u32) {
    assert!(
        std::process::Command::new("kill")
            .args(["-KILL", &pid.to_string()])
            .status()
            .unwrap()
            .success()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_start_has_demo_data_and_a_stop_leaves_no_redis() {
    let folder = Folder::make("emb");
    let mut process = serve(&folder).await;
    let address = format!("GraphiQL is at http://127.0.0.1:{}/", process.port());
    eventually(SOON, "the address of GraphiQL", async || {
        process.output().contains(&address)
    })
    .await;
    let near = "{ shopsNearby(center: { latitude: 21.0287, longitude: 105.8524 }, first: 3) { edges { distanceMeters } } }";
    assert_eq!(
        process
            .client()
            .gql(near, json!({}))
            .await
            .list("shopsNearby.edges")
            .len(),
        3
    );
    let redis = redis_pid(&folder);
    assert!(is_running(redis));
    assert!(process.term(STOP).await.success());
    assert!(!is_running(redis));
    // The stores are found without their server, too.
    assert_verified(&folder).await;
    process.assert_no_panic();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_server_on_the_same_folder_is_refused() {
    let folder = Folder::make("emb");
    let mut first = serve(&folder).await;
    let mut second_env = env(&folder);
    second_env.push(("LIFEMATE_HTTP_ADDR".to_owned(), "127.0.0.1:0".to_owned()));
    let second = run(&["serve"], &second_env).await;
    assert!(!second.status.success());
    assert!(
        second.stderr.contains("is in use by process")
            && second.stderr.contains(&first.id().to_string()),
        "{}",
        second.stderr
    );
    // The first one noticed nothing, and commands use its stores.
    assert_verified(&folder).await;
    assert_eq!(first.client().get("/health/ready").await.status(), 200);
    assert!(first.term(STOP).await.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_loses_nothing_and_its_redis_is_taken_care_of() {
    let folder = Folder::make("emb");
    let mut process = serve(&folder).await;
    let buyer = log_in(&process).await;
    let voucher = sales(&buyer).await.remove(0);
    let id = seckill(&buyer, &voucher, "before").await.accepted();
    let (port, redis) = (process.port(), redis_pid(&folder));
    process.kill9();
    assert!(is_running(redis), "a killed server cannot stop its redis");

    let mut process = Process::spawn_at(port, &["serve"], &env(&folder), folder.path());
    process.wait_ready(START).await;
    assert!(!is_running(redis), "the left-over redis is still there");
    assert!(
        process
            .log()
            .contains("an embedded redis of an earlier run is shut down"),
        "{}",
        process.log()
    );
    // The token, the order and its id are good as before.
    eventually(SOON, "the order's row", async || {
        order(&buyer, &id).await["status"] == "UNPAID"
    })
    .await;
    assert_eq!(seckill(&buyer, &voucher, "before").await.accepted(), id);
    assert_verified(&folder).await;
    assert!(process.term(STOP).await.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_redis_is_started_again_and_the_sale_goes_on() {
    let folder = Folder::make("emb");
    let mut process = serve(&folder).await;
    let buyer = log_in(&process).await;
    let vouchers = sales(&buyer).await;
    let before = seckill(&buyer, &vouchers[0], "before").await.accepted();
    let redis = redis_pid(&folder);
    kill9(redis);
    let after = eventually(SOON, "a sale that goes on", async || {
        let click = seckill(&buyer, &vouchers[1], "after").await;
        click.is_accepted().then(|| click.accepted())
    });
    let after = after.await;
    assert_ne!(redis_pid(&folder), redis);
    for id in [before, after] {
        eventually(SOON, "the order's row", async || {
            order(&buyer, &id).await["status"] == "UNPAID"
        })
        .await;
    }
    assert_verified(&folder).await;
    assert!(process.term(STOP).await.success());
    process.assert_no_panic();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_says_goodbye_to_sockets() {
    let folder = Folder::make("emb");
    let mut process = serve(&folder).await;
    let client = process.client();
    let voucher = sales(&client).await.remove(0);
    let watch = "subscription($id: ID!) { voucherStock(voucherId: $id) { stock } }";
    let mut stock = Subscription::open(&client, watch, json!({ "id": voucher })).await;
    stock.next(SOON).await;
    assert!(process.term(STOP).await.success());
    assert_eq!(stock.event(SOON).await, Event::Closed(1001));
}

#[tokio::test]
async fn a_machine_without_redis_is_told_what_to_install() {
    let folder = Folder::make("emb");
    let mut env = env(&folder);
    env.push(("PATH".to_owned(), "/nonexistent".to_owned()));
    env.push(("LIFEMATE_HTTP_ADDR".to_owned(), "127.0.0.1:0".to_owned()));
    let output = run(&["serve"], &env).await;
    assert!(!output.status.success());
    assert!(
        output.stderr.contains("apt-get install -y redis-server"),
        "{}",
        output.stderr
    );
    assert_eq!(
        output
            .stderr
            .lines()
            .filter(|line| line.starts_with("lifemate: "))
            .count(),
        1
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_with_a_long_and_odd_name_works() {
    let folder = Folder::make("emb");
    let data = folder
        .path()
        .join("a folder #1 with a % and a ?")
        .join("x".repeat(100));
    let data_dir = vec![("LIFEMATE_DATA_DIR".to_owned(), data.display().to_string())];
    let mut process = Process::spawn(&["serve"], &data_dir, folder.path());
    process.wait_ready(START).await;
    assert!(Path::new(&data).join("lifemate.db").exists());
    sales(&process.client()).await;
    assert!(process.term(STOP).await.success());
}
