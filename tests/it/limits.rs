//! Exact limits: never more calls than allowed in any window, over all nodes, and what happens when nobody can count.

use std::time::Duration;

use deadpool_redis::redis::cmd;
use domain::infra::redis::Redis;
use domain::rate_limits::{Caller, Dimension, Error, OnTrouble, RateLimits, Rule, Shape};
use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::client::Client;

const MINUTE_MS: i64 = 60_000;

/// A call under the limit of 60 a minute; the order is nobody's, so one that passes is `NOT_FOUND`.
async fn call(client: &Client) -> Value {
    let query = "mutation { cancelOrder(input: { orderId: \"x\" }) { result { __typename } } }";
    client.gql(query, Value::Null).await.body
}

fn code(body: &Value) -> &str {
    body.pointer("/errors/0/extensions/code")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

async fn passed(clients: &[Client], calls: usize) -> usize {
    let answers = join_all((0..calls).map(|n| call(&clients[n % clients.len()]))).await;
    let limited = answers.iter().filter(|a| code(a) == "RATE_LIMITED").count();
    let passed = answers.iter().filter(|a| code(a) == "NOT_FOUND").count();
    assert_eq!(limited + passed, calls, "{answers:?}");
    passed
}

/// The calls counted for a user, with their times; moved by some milliseconds first.
async fn counted(app: &TestApp, user: i64, shift_ms: i64) -> Vec<i64> {
    let key = app.redis().key(format!("limit:order_writes:user:{user}"));
    let read = cmd("ZRANGE")
        .arg(&key)
        .arg(0)
        .arg(-1)
        .arg("WITHSCORES")
        .to_owned();
    let entries: Vec<(String, i64)> = app.redis().query(&read).await.unwrap();
    for (member, at) in &entries {
        app.redis()
            .query::<i64>(cmd("ZADD").arg(&key).arg(at + shift_ms).arg(member))
            .await
            .unwrap();
    }
    entries.into_iter().map(|(_, at)| at + shift_ms).collect()
}

async fn redis_now(app: &TestApp) -> i64 {
    let (seconds, micros): (i64, i64) = app.redis().query(&cmd("TIME")).await.unwrap();
    seconds * 1_000 + micros / 1_000
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_calls_at_once_on_two_nodes_are_sixty() {
    let mut app = TestApp::start().await;
    let second = app.second_node().await;
    let user = app.user().await;
    let clients = [app.as_user(&user), second.as_user(&user)];
    assert_eq!(passed(&clients, 200).await, 60);

    // The refused ones were not counted, and the wait that is told is true.
    let times = counted(&app, user.id, 0).await;
    assert_eq!(times.len(), 60);
    let refused = call(&clients[0]).await;
    let told = refused["errors"][0]["extensions"]["retryAfterMs"]
        .as_i64()
        .unwrap();
    let free_at = redis_now(&app).await + told;
    assert!(
        (free_at - (times[0] + MINUTE_MS)).abs() < 500,
        "{told} ms, first call at {}",
        times[0]
    );

    // 60 calls a tenth of a second before a full minute, and 60 a tenth after it: 60, for the window slides.
    counted(&app, user.id, -100).await;
    assert_eq!(passed(&clients, 60).await, 0);
    counted(&app, user.id, -MINUTE_MS).await;
    assert_eq!(passed(&clients, 100).await, 60);

    // Another user has a limit of his own.
    assert_eq!(passed(&[app.as_user(&app.user().await)], 3).await, 3);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_alias_is_a_call() {
    let app = TestApp::start().await;
    let client = app.as_user(&app.user().await);
    assert_eq!(passed(std::slice::from_ref(&client), 50).await, 50);
    let fields: Vec<_> = (0..14)
        .map(|n| {
            format!("a{n}: cancelOrder(input: {{ orderId: \"x\" }}) {{ result {{ __typename }} }}")
        })
        .collect();
    let answer = client
        .gql(&format!("mutation {{ {} }}", fields.join(" ")), json!({}))
        .await;
    // The first error of a non-null root field ends the operation, so aliases go one after the other.
    assert_eq!(code(&answer.body), "NOT_FOUND");
    let reads: Vec<_> = (0..14)
        .map(|n| format!("a{n}: shops(first: 1) {{ pageInfo {{ hasNextPage }} }}"))
        .collect();
    let document = format!("{{ {} }}", reads.join(" "));
    let mut limited = false;
    for _ in 0..50 {
        let answer = client.gql(&document, json!({})).await;
        limited |= code(&answer.body) == "RATE_LIMITED";
    }
    assert!(limited, "50 documents of 14 lists are 700 lists");
    app.finish().await;
}

fn rule(name: &'static str, shape: Shape, on_trouble: OnTrouble) -> Rule {
    Rule {
        name,
        shape,
        dimension: Dimension::Ip,
        on_trouble,
        message: "too many",
    }
}

fn caller() -> Caller {
    Caller {
        user: None,
        ip: "192.0.2.1".parse().unwrap(),
        device: None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_gives_its_burst_at_once_and_its_rate_in_the_long_run() {
    let app = TestApp::start().await;
    let limits = &app.services().rate_limits;
    let bucket = rule(
        "bucket",
        Shape::Bucket {
            capacity: 5,
            per_second: 2,
        },
        OnTrouble::Closed,
    );
    let caller = caller();
    let at_once = join_all((0..20).map(|_| limits.check(&bucket, &caller))).await;
    let refused: Vec<_> = at_once.iter().filter_map(|r| r.as_ref().err()).collect();
    assert_eq!(refused.len(), 15);
    let Error::Reached { retry_after, .. } = refused[0] else {
        panic!("{refused:?}")
    };
    assert!(
        *retry_after <= Duration::from_millis(500),
        "two a second: {retry_after:?}"
    );

    // Two seconds later: four more.
    let key = app.redis().key("limit:bucket:ip:192.0.2.1");
    let at: i64 = app
        .redis()
        .query(cmd("HGET").arg(&key).arg("at"))
        .await
        .unwrap();
    app.redis()
        .query::<i64>(cmd("HSET").arg(&key).arg("at").arg(at - 2_000))
        .await
        .unwrap();
    let later = join_all((0..10).map(|_| limits.check(&bucket, &caller))).await;
    let passed = later.iter().filter(|r| r.is_ok()).count();
    assert!((4..=5).contains(&passed), "{passed}");
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_counts_all_together_or_each_user_address_or_device() {
    let app = TestApp::start().await;
    let limits = &app.services().rate_limits;
    let window = Shape::Window {
        calls: 2,
        window: Duration::from_secs(60),
    };
    // Whoever differs in one of the three; four calls each, one after the other.
    let with = |user, ip: &str, device: &str| Caller {
        user: Some(user),
        ip: ip.parse().unwrap(),
        device: Some(device.to_owned()),
    };
    let callers = [
        with(1, "192.0.2.1", "a"),
        with(2, "192.0.2.1", "a"),
        with(1, "192.0.2.2", "a"),
        with(1, "192.0.2.1", "b"),
    ];
    for (name, dimension, passing) in [
        ("all", Dimension::Global, 2),
        ("users", Dimension::User, 4),
        ("addresses", Dimension::Ip, 4),
        ("devices", Dimension::Device, 4),
    ] {
        let rule = Rule {
            dimension,
            ..rule(name, window, OnTrouble::Closed)
        };
        let mut passed = 0;
        for _ in 0..4 {
            for caller in &callers {
                passed += usize::from(limits.check(&rule, caller).await.is_ok());
            }
        }
        assert_eq!(passed, passing, "{name}");
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_nobody_can_count_a_limit_is_open_or_closed_as_declared() {
    let app = TestApp::start().await;
    // Nobody listens on port 1.
    let limits = RateLimits::new(Redis::new("redis://127.0.0.1:1", "t").unwrap(), true);
    let window = Shape::Window {
        calls: 1,
        window: Duration::from_secs(60),
    };
    for _ in 0..3 {
        limits
            .check(&rule("open", window, OnTrouble::Open), &caller())
            .await
            .unwrap();
        let refused = limits
            .check(&rule("closed", window, OnTrouble::Closed), &caller())
            .await;
        assert!(matches!(refused, Err(Error::Uncounted(_))), "{refused:?}");
    }
    // And counted: what passed unchecked, and what was refused because nobody could check.
    let metrics = app.client().get("/metrics").await.text().await.unwrap();
    for (rule, outcome) in [("open", "failed_open"), ("closed", "failed_closed")] {
        let line = format!("lifemate_rate_limits_total{{rule=\"{rule}\",outcome=\"{outcome}\"}} 3");
        assert!(metrics.lines().any(|l| l == line), "{line} in\n{metrics}");
    }
    let off = RateLimits::new(Redis::new("redis://127.0.0.1:1", "t").unwrap(), false);
    off.check(&rule("closed", window, OnTrouble::Closed), &caller())
        .await
        .unwrap();
    app.finish().await;
}
