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

/// A start, and demo data: pictures are drawn by a debug build.
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

async fn log_in(process: &Process) -> Client {
    log_in_as(process, &random_phone()).await
}

/// Logs in as a person does, with the code on the server's standard output.
async fn log_in_as(process: &Process, phone: &str) -> Client {
    let client = process.client();
    let ask =
        "mutation($phone: String!) { requestLoginCode(input: { phone: $phone }) { __typename } }";
    client.gql(ask, json!({ "phone": phone })).await.data();
    let code = process.login_code(phone, SOON).await;
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
    eventually(SOON, "the demo places", async || {
        let answer = process.client().gql(near, json!({})).await;
        answer.list("shopsNearby.edges").len() == 3
    })
    .await;
    let redis = redis_pid(&folder);
    assert!(is_running(redis));
    assert!(process.term(STOP).await.success());
    assert!(!is_running(redis));
    // The stores are found without their server, too.
    assert_verified(&folder).await;
    process.assert_no_panic();
}

/// The operations of GraphiQL's tabs, each by itself: kind and text.
fn operations_of_the_tabs() -> Vec<(String, String)> {
    let page = include_str!("../../web/graphiql.js");
    let mut operations = Vec::new();
    for tab in page.split("query: `").skip(1) {
        let document = tab.split('`').next().unwrap();
        for part in document.split("\n}\n") {
            let begins = |line: &&str| {
                ["query ", "mutation ", "subscription "]
                    .iter()
                    .any(|kind| line.starts_with(kind))
            };
            if let Some(first) = part.lines().find(begins) {
                let kind = first.split(' ').next().unwrap().to_owned();
                operations.push((kind, format!("{part}\n}}")));
            }
        }
    }
    operations
}

/// Whether something is shown: no list that is empty at the top, and nothing absent.
fn shows_something(value: &Value) -> bool {
    match value {
        Value::Object(fields) => match fields.get("edges") {
            Some(edges) => edges.as_array().is_some_and(|edges| !edges.is_empty()),
            None => fields.values().all(shows_something),
        },
        other => !other.is_null(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_tab_of_graphiql_shows_something_of_the_demo_world() {
    let folder = Folder::make("emb");
    let mut process = serve(&folder).await;
    let guest = log_in_as(&process, "+84912345678").await;
    // The chat comes last.
    let chats = "{ viewer { conversations { edges { node { messageCount user { id } } } } } }";
    let chats = eventually(START, "the demo world", async || {
        let answer = guest.gql(chats, json!({})).await;
        let edges = answer.list("viewer.conversations.edges");
        edges
            .first()
            .is_some_and(|edge| edge["node"]["messageCount"] == 6)
            .then_some(answer)
    });
    let friend = chats
        .await
        .at("viewer.conversations.edges.0.node.user.id")
        .clone();
    let hot = guest
        .gql(
            "{ hotBlogs(first: 1) { edges { node { id } } } }",
            json!({}),
        )
        .await;
    let blog = hot.at("hotBlogs.edges.0.node.id").clone();
    let voucher = sales(&guest).await.remove(0);
    let order = seckill(&guest, &voucher, "tabs").await.accepted();
    eventually(SOON, "the order's row", async || {
        self::order(&guest, &order).await["status"] == "UNPAID"
    })
    .await;

    let known = json!({ "blogId": blog, "userId": friend, "voucherId": voucher, "orderId": order,
        "phone": random_phone(), "code": "000000", "clientRequestId": "tabs" });
    let operations = operations_of_the_tabs();
    assert_eq!(operations.len(), 24, "{operations:#?}");
    for (kind, text) in operations {
        let named = |name: &&&str| text.contains(&format!("${name}:"));
        let names = [
            "blogId",
            "userId",
            "voucherId",
            "orderId",
            "phone",
            "code",
            "clientRequestId",
        ];
        let variables: serde_json::Map<String, Value> = names
            .iter()
            .filter(named)
            .map(|name| ((*name).to_owned(), known[*name].clone()))
            .collect();
        match kind.as_str() {
            "subscription" => {
                let watched = Subscription::open(&guest, &text, variables.into()).await;
                watched.stop().await;
            }
            _ if text.contains("mutation LogIn") => {
                guest
                    .gql(&text, variables.into())
                    .await
                    .expect_code("BAD_INPUT");
            }
            "mutation" => {
                guest.gql(&text, variables.into()).await.data();
            }
            _ => {
                let answer = guest.gql(&text, variables.into()).await;
                assert!(shows_something(answer.data()), "{text}\n{}", answer.body);
            }
        }
    }
    assert!(process.term(STOP).await.success());
    process.assert_no_panic();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_seeding_that_was_broken_off_goes_on_at_the_next_start() {
    let folder = Folder::make("emb");
    let mut process = serve(&folder).await;
    process.kill9();
    let mut process = serve(&folder).await;
    let guest = log_in_as(&process, "+84912345678").await;
    let chats = "{ viewer { conversations { edges { node { messageCount } } } } }";
    eventually(START, "the rest of the demo world", async || {
        let answer = guest.gql(chats, json!({})).await;
        let edges = answer.list("viewer.conversations.edges");
        edges
            .first()
            .is_some_and(|edge| edge["node"]["messageCount"] == 6)
    })
    .await;
    assert_eq!(sales(&guest).await.len(), 2);
    assert!(process.term(STOP).await.success());
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
