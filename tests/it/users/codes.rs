//! Login codes: to whom one is sent, how often, and what it is good for.

use std::collections::HashSet;
use std::time::Duration;

use deadpool_redis::redis::cmd;
use futures_util::future::join_all;
use serde_json::{Value, json};

use super::{
    DEAD_WITHIN, MINUTE, SLACK_MS, VIEWER, assert_throttled, assert_wrong_code, is_signed_in, keys,
    let_pass, log_out,
};
use crate::support::app::TestApp;
use crate::support::client::Answer;
use crate::support::people::{random_phone, request_login_code, try_log_in};
use crate::support::process::Process;
use crate::support::stores::{Store, Stores};

const HOUR: Duration = Duration::from_secs(3600);

/// A code of six digits that is not this one.
fn another(code: &str) -> String {
    format!("{:06}", (code.parse::<u32>().unwrap() + 1) % 1_000_000)
}

async fn codes_sent(app: &TestApp, phone: &str) -> usize {
    app.inbox
        .deliveries()
        .iter()
        .filter(|delivery| delivery.text("phone").as_deref() == Some(phone))
        .count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_phone_is_refused_and_named() {
    let app = TestApp::start().await;
    for phone in [
        "",
        "12345",
        "12800138000",
        "+86 138 0013 800a",
        "+86 (0)138 0013 8000",
    ] {
        let refused = request_login_code(&app.client(), phone).await;
        assert_eq!(
            refused.expect_code("BAD_INPUT")["extensions"]["argument"],
            "input.phone",
            "{phone}"
        );
    }
    assert!(app.inbox.deliveries().is_empty());
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_code_is_delivered_signed_and_good_for_five_minutes() {
    let app = TestApp::start().await;
    let phone = random_phone();
    let query = "mutation($phone: String!) { requestLoginCode(input: { phone: $phone }) { expiresInSeconds resendAfterSeconds } }";
    let sent = app.gql(query, json!({ "phone": phone })).await;
    assert_eq!(
        (
            sent.int("requestLoginCode.expiresInSeconds"),
            sent.int("requestLoginCode.resendAfterSeconds")
        ),
        (300, 60)
    );

    let code = app.inbox.code_for(&phone).await;
    assert!(
        code.len() == 6 && code.bytes().all(|b| b.is_ascii_digit()),
        "{code}"
    );
    let delivery = &app.inbox.deliveries()[0];
    let header = |name: &str| {
        delivery
            .headers
            .get(name)
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned()
    };
    let now = chrono::Utc::now().timestamp();
    assert!((header("X-Lifemate-Timestamp").parse::<i64>().unwrap() - now).abs() < 60);
    assert_eq!(
        hex::decode(header("X-Lifemate-Signature")).unwrap().len(),
        32
    );

    let code_key = keys(&app, "{login}:code:").await.remove(0);
    let life_ms: i64 = app.redis().query(cmd("PTTL").arg(&code_key)).await.unwrap();
    assert!(
        (300_000 - SLACK_MS..=300_000).contains(&life_ms),
        "{life_ms}"
    );
    let stored: Vec<String> = app
        .redis()
        .query(cmd("HVALS").arg(&code_key))
        .await
        .unwrap();
    assert!(
        stored.iter().all(|value| !value.contains(&code)),
        "Redis holds the code itself"
    );
    let all_keys = keys(&app, "").await.join(" ");
    assert!(
        !all_keys.contains(&phone[3..]),
        "Redis holds the phone itself"
    );

    let _: i64 = app
        .redis()
        .query(cmd("PEXPIRE").arg(&code_key).arg(0))
        .await
        .unwrap();
    assert_wrong_code(&try_log_in(&app.client(), &phone, &code).await);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_throttled_resend_leaves_the_code_that_was_sent_good() {
    let app = TestApp::start().await;
    let phone = random_phone();
    request_login_code(&app.client(), &phone).await.data();
    let code = app.inbox.code_for(&phone).await;
    for _ in 0..3 {
        assert_throttled(&request_login_code(&app.client(), &phone).await, MINUTE);
    }
    assert_eq!(codes_sent(&app, &phone).await, 1);
    try_log_in(&app.client(), &phone, &code).await.data();
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_code_takes_the_place_of_the_old_one() {
    let app = TestApp::start().await;
    let phone = random_phone();
    request_login_code(&app.client(), &phone).await.data();
    let old = app.inbox.code_for(&phone).await;
    let_pass(&app, MINUTE).await;
    request_login_code(&app.client(), &phone).await.data();
    let new = app.inbox.code_for(&phone).await;
    // One in a million is the same code twice.
    if old != new {
        assert_wrong_code(&try_log_in(&app.client(), &phone, &old).await);
    }
    try_log_in(&app.client(), &phone, &new).await.data();
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_phone_gets_five_codes_in_any_hour_and_ten_in_any_day() {
    let app = TestApp::start().await;
    let phone = random_phone();
    let ask = async || request_login_code(&app.client(), &phone).await;
    for _ in 0..5 {
        ask().await.data();
        let_pass(&app, MINUTE).await;
    }
    // Five minutes after the first of five, which leaves the hour first.
    assert_throttled(&ask().await, HOUR - 5 * MINUTE);
    let_pass(&app, HOUR).await;
    for _ in 0..5 {
        ask().await.data();
        let_pass(&app, MINUTE).await;
    }
    let_pass(&app, HOUR).await;
    assert_throttled(&ask().await, 22 * HOUR - 10 * MINUTE);
    let_pass(&app, 22 * HOUR - 10 * MINUTE).await;
    ask().await.data();
    assert_eq!(codes_sent(&app, &phone).await, 11);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_requests_at_once_on_two_nodes_one_is_taken() {
    let mut app = TestApp::start().await;
    let phone = random_phone();
    let clients = [app.second_node().await, app.client()];
    let asked = (0..30).map(|turn| {
        let (client, phone) = (clients[turn % 2].clone(), phone.clone());
        tokio::spawn(async move { request_login_code(&client, &phone).await })
    });
    let answers: Vec<Answer> = join_all(asked)
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    let (taken, refused): (Vec<_>, Vec<_>) = answers
        .iter()
        .partition(|answer| answer.errors().is_empty());
    assert_eq!(taken.len(), 1);
    for answer in refused {
        assert_throttled(answer, MINUTE);
    }
    assert_eq!(codes_sent(&app, &phone).await, 1);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_gets_twenty_codes_an_hour_and_an_ipv6_block_is_one_address() {
    let builder = TestApp::build()
        .config(|config| config.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()]);
    let app = builder.start().await;
    let from = |address: &str| app.client().with_header("X-Forwarded-For", address);
    for host in 1..=20 {
        request_login_code(&from(&format!("2001:db8:1:2::{host:x}")), &random_phone())
            .await
            .data();
    }
    assert_throttled(
        &request_login_code(&from("2001:db8:1:2:ffff::1"), &random_phone()).await,
        HOUR,
    );
    request_login_code(&from("2001:db8:1:3::1"), &random_phone())
        .await
        .data();
    request_login_code(&from("203.0.113.9"), &random_phone())
        .await
        .data();
    let_pass(&app, HOUR).await;
    request_login_code(&from("2001:db8:1:2::1"), &random_phone())
        .await
        .data();
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_code_that_cannot_be_delivered_is_void_but_counted() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let builder = TestApp::build()
        .config(move |config| config.code_webhook_url = Some(format!("http://{nobody}/codes")));
    let app = builder.start().await;
    let phone = random_phone();
    let failed = request_login_code(&app.client(), &phone).await;
    assert_eq!(
        failed.expect_code("TRY_LATER")["extensions"]["retryAfterMs"],
        60_000
    );
    assert_eq!(keys(&app, "{login}:code:").await, Vec::<String>::new());
    assert_throttled(&request_login_code(&app.client(), &phone).await, MINUTE);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_wrong_tries_burn_a_code_and_four_do_not() {
    let app = TestApp::start().await;
    for (tries, is_burnt) in [(4, false), (5, true)] {
        let phone = random_phone();
        request_login_code(&app.client(), &phone).await.data();
        let code = app.inbox.code_for(&phone).await;
        for _ in 0..tries {
            assert_wrong_code(&try_log_in(&app.client(), &phone, &another(&code)).await);
        }
        let answer = try_log_in(&app.client(), &phone, &code).await;
        if is_burnt {
            assert_wrong_code(&answer);
        } else {
            answer.data();
        }
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_logins_with_one_code_on_two_nodes_one_wins() {
    let mut app = TestApp::start().await;
    let clients = [app.second_node().await, app.client()];
    let phone = random_phone();
    request_login_code(&app.client(), &phone).await.data();
    let code = app.inbox.code_for(&phone).await;
    let logins = (0..10).map(|turn| {
        let (client, phone, code) = (clients[turn % 2].clone(), phone.clone(), code.clone());
        tokio::spawn(async move { try_log_in(&client, &phone, &code).await })
    });
    let answers: Vec<Answer> = join_all(logins)
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    let (won, lost): (Vec<_>, Vec<_>) = answers
        .iter()
        .partition(|answer| answer.errors().is_empty());
    assert_eq!(won.len(), 1);
    lost.into_iter().for_each(assert_wrong_code);
    assert_wrong_code(&try_log_in(&app.client(), &phone, &code).await);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_console_prints_codes_and_the_log_holds_neither_codes_nor_phones_nor_tokens() {
    let stores = Stores::create(Store::MariaDb).await;
    let mut env = stores.env();
    env.push(("LIFEMATE_LOG".to_owned(), "debug".to_owned()));
    let mut node = Process::spawn(&["serve"], &env, stores.folder.path());
    node.wait_ready(MINUTE).await;
    let (client, phone) = (node.client(), random_phone());
    request_login_code(&client, &phone[3..]).await.data();
    request_login_code(&client, &phone)
        .await
        .expect_code("RATE_LIMITED");
    let code = node.login_code(&phone, DEAD_WITHIN).await;
    assert_wrong_code(&try_log_in(&client, &phone, &another(&code)).await);
    let token = try_log_in(&client, &phone, &code)
        .await
        .text("login.token")
        .to_owned();
    let signed_in = client.with_token(&token);
    assert_eq!(
        signed_in
            .gql(VIEWER, Value::Null)
            .await
            .text("viewer.phone"),
        phone
    );
    assert_eq!(log_out(&signed_in, true).await, 1);
    assert!(!is_signed_in(&signed_in).await);
    assert!(node.term(MINUTE).await.success());

    let log = node.log();
    assert!(
        log.lines().count() > 3,
        "a log that says nothing proves nothing: {log}"
    );
    let words: HashSet<&str> = log.split(|c: char| !c.is_alphanumeric()).collect();
    assert!(
        !words.contains(code.as_str()) && !words.contains(another(&code).as_str()),
        "a code in the log: {log}"
    );
    assert!(
        !log.contains(&phone[3..]) && !log.contains(&token),
        "a phone or a token in the log: {log}"
    );
    node.assert_no_panic();
    assert_eq!(node.output().matches(&code).count(), 1);
    stores.drop_database().await;
}
