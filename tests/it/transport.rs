//! GraphQL on the wire: what HTTP and sockets refuse and with which code, who calls, and what a client that goes away
//! leaves behind. What operations do is tested elsewhere.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use lifemate::config::Profile;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::support::app::TestApp;
use crate::support::client::Client;
use crate::support::private::PrivateRedis;
use crate::support::subscription::{Frame, RawSocket};
use crate::support::wait::eventually;

const PROTOCOL: &str = "graphql-transport-ws";
const JSON: (&str, &str) = ("content-type", "application/json");
const NEW_MEDIA_TYPE: (&str, &str) = ("accept", "application/graphql-response+json");
const SOON: Duration = Duration::from_secs(5);
/// A token that died is noticed within 5 s, and a loaded machine takes its time.
const NOTICED: Duration = Duration::from_secs(10);

async fn post(client: &Client, headers: &[(&str, &str)], body: &str) -> (u16, Value) {
    let answer = client.post("/graphql", headers, body.to_owned()).await;
    let status = answer.status().as_u16();
    let text = answer.text().await.unwrap();
    (
        status,
        serde_json::from_str(&text).unwrap_or(Value::String(text)),
    )
}

fn code(body: &Value) -> &str {
    body.pointer("/errors/0/extensions/code")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_is_none_is_refused_with_the_right_status() {
    let app = TestApp::start().await;
    let client = app.client();
    let query = r#"{"query":"{ serverTime }"}"#;

    assert_eq!(
        post(&client, &[("content-type", "text/plain")], query)
            .await
            .0,
        415
    );
    assert_eq!(
        post(
            &client,
            &[("content-type", "application/x-www-form-urlencoded")],
            "query={serverTime}"
        )
        .await
        .0,
        415
    );
    assert_eq!(
        post(&client, &[JSON, ("accept", "text/html")], query)
            .await
            .0,
        406
    );
    assert_eq!(
        post(&client, &[JSON], &"x".repeat(64 * 1024 + 1)).await.0,
        413
    );
    for body in [
        "",
        "{",
        "[]",
        r#"[{"query":"{ serverTime }"}]"#,
        r#"{"query":1}"#,
        r#"{"query":"{ serverTime }","variables":[]}"#,
    ] {
        let (status, answer) = post(&client, &[JSON], body).await;
        assert_eq!((status, code(&answer)), (400, "BAD_INPUT"), "{body}");
        assert!(answer.get("data").is_none(), "{answer}");
    }
    // The same mistakes inside a good envelope are 200 for older clients, 400 for those that ask for the new type.
    for query in [
        "{ nothingOfThatName }",
        "{",
        "query A { serverTime } query B { serverTime }",
    ] {
        let body = json!({ "query": query }).to_string();
        let (status, answer) = post(&client, &[JSON], &body).await;
        assert_eq!((status, code(&answer)), (200, "BAD_INPUT"), "{query}");
        let (status, answer) = post(&client, &[JSON, NEW_MEDIA_TYPE], &body).await;
        assert_eq!(
            (status, code(&answer), answer.get("data")),
            (400, "BAD_INPUT", None),
            "{query}"
        );
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_run_over_get_and_mutations_do_not() {
    let app = TestApp::start().await;
    let client = app.client();
    let answer = client.get("/graphql?query=%7BserverTime%7D").await;
    assert!(answer.status() == 200 && answer.text().await.unwrap().contains("serverTime"));
    for mutation in ["mutation", "mutation%20Out"] {
        let logout = "%7Blogout(input%3A%7B%7D)%7B__typename%7D%7D";
        let path = format!("/graphql?query={mutation}{logout}");
        let answer = client.get(&path).await;
        assert!(
            answer.status() == 405 && answer.headers()["allow"] == "POST",
            "{mutation}"
        );
    }
    assert_eq!(client.get("/graphql").await.status(), 400);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_document_that_asks_for_too_much_is_refused_at_once() {
    let app = TestApp::start().await;
    let client = app.client();
    let doubling: String = (0..20)
        .map(|i| format!("fragment f{i} on Query{{...f{} ...f{}}}", i + 1, i + 1))
        .collect();
    let bomb = format!("{{...f0}}{doubling}fragment f20 on Query{{serverTime}}");
    let began = Instant::now();
    client
        .gql(&bomb, json!({}))
        .await
        .expect_code("TOO_COMPLEX");
    assert!(began.elapsed() < Duration::from_secs(1));
    client
        .gql("{...a} fragment a on Query{...a}", json!({}))
        .await
        .expect_code("BAD_INPUT");
    client
        .gql(&format!("{{{}}}", "serverTime ".repeat(600)), json!({}))
        .await
        .expect_code("TOO_COMPLEX");
    client
        .gql(&format!("{{serverTime {}}}", "#".repeat(16_000)), json!({}))
        .await
        .expect_code("TOO_COMPLEX");
    let wrong = client
        .gql("{ shops(first: \"x\") { edges { cursor } } }", json!({}))
        .await;
    assert_eq!(
        wrong.expect_code("BAD_INPUT")["extensions"]["argument"],
        "first"
    );
    let deep = format!("{{shopTypes{}}}", "{shops".repeat(40) + &"}".repeat(40));
    let answer = client.gql(&deep, json!({})).await;
    assert!(
        matches!(answer.code(), Some("TOO_COMPLEX" | "BAD_INPUT")),
        "{}",
        answer.body
    );
    // A parser that took these would be out of its stack, and the process with it.
    for (open, close) in [("[", "]"), ("{a:", "}"), ("[{a:", "}]")] {
        let value = open.repeat(1_500) + "1" + &close.repeat(1_500);
        let nested = format!("{{node(id:{value}){{id}}}}");
        let answer = client.gql(&nested, json!({})).await;
        answer.expect_code("TOO_COMPLEX");
    }
    let hollow = format!("{{serverTime ...f0}}{doubling}");
    client
        .gql(&hollow, json!({}))
        .await
        .expect_code("BAD_INPUT");
    let twice = "mutation { logout(input: {}) { __typename } logout(input: {}) { __typename } }";
    client.gql(twice, json!({})).await.expect_code("BAD_INPUT");
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_is_no_good_is_told_and_not_taken_for_nobody() {
    let app = TestApp::start().await;
    let user = app.user().await;
    let viewer = "{ viewer { phone } }";
    assert!(app.gql(viewer, json!({})).await.at("viewer").is_null());
    assert_eq!(
        app.as_user(&user)
            .gql(viewer, json!({}))
            .await
            .text("viewer.phone"),
        user.phone
    );
    app.client()
        .with_token("no-such-token")
        .gql(viewer, json!({}))
        .await
        .expect_code("UNAUTHENTICATED");
    let basic = app
        .client()
        .with_header("authorization", "Basic dXNlcjpwYXNz");
    basic
        .gql(viewer, json!({}))
        .await
        .expect_code("UNAUTHENTICATED");
    let (status, answer) = post(
        &app.client().with_token("no"),
        &[JSON, NEW_MEDIA_TYPE],
        r#"{"query":"{serverTime}"}"#,
    )
    .await;
    assert_eq!((status, code(&answer)), (401, "UNAUTHENTICATED"));
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_hangs_up_does_not_stop_its_mutation() {
    let app = TestApp::start().await;
    let sale = app.sale().await.stock(50).create().await;
    let buyers = app.users(40).await;
    let addr = app
        .client()
        .base_url()
        .trim_start_matches("http://")
        .to_owned();
    join_all(buyers.iter().zip(0..).map(async |(buyer, half_millis)| {
        let body = json!({
            "query": "mutation($v: ID!) { seckillVoucher(input: { voucherId: $v, clientRequestId: \"once\" }) { result { __typename } } }",
            "variables": { "v": sale.voucher },
        })
        .to_string();
        let mut stream = TcpStream::connect(&addr).await.unwrap();
        let head = format!(
            "POST /graphql HTTP/1.1\r\nhost: {addr}\r\ncontent-type: application/json\r\nauthorization: Bearer {}\r\ncontent-length: {}\r\n\r\n",
            buyer.token,
            body.len()
        );
        stream.write_all((head + &body).as_bytes()).await.unwrap();
        // Each at another moment of its request's life; nobody reads a byte.
        tokio::time::sleep(Duration::from_micros(500) * half_millis).await;
        drop(stream);
    }))
    .await;
    let orders = "{ viewer { orders { edges { node { status } } } } }";
    let last = app.as_user(&buyers[buyers.len() - 1]);
    eventually(SOON, "the order of a client that hung up", async || {
        last.gql(orders, json!({}))
            .await
            .list("viewer.orders.edges")
            .iter()
            .any(|edge| edge["node"]["status"] == "UNPAID")
    })
    .await;
    // Each of the others ran as a whole or not at all.
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_are_named_and_traced() {
    let app = TestApp::start().await;
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let client = app
        .client()
        .with_header("x-request-id", "mine-1")
        .with_header("traceparent", &format!("00-{trace}-00f067aa0ba902b7-01"));
    let answer = client.gql("{ serverTime }", json!({})).await;
    assert_eq!(answer.headers["x-request-id"], "mine-1");
    assert!(
        answer.headers["traceparent"]
            .to_str()
            .unwrap()
            .starts_with(&format!("00-{trace}-"))
    );
    let answer = app.gql("{ serverTime }", json!({})).await;
    assert_eq!(answer.headers["x-request-id"].len(), 32);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_pages_of_allowed_origins_may_call() {
    let allowed = "https://app.example.org";
    let app = TestApp::build()
        .config(|config| config.allowed_origins = vec!["https://app.example.org".to_owned()])
        .start()
        .await;
    let from = async |origin: &str| {
        let answer = app
            .client()
            .with_header("origin", origin)
            .get("/graphql?query=%7BserverTime%7D")
            .await;
        answer
            .headers()
            .get("access-control-allow-origin")
            .map(|value| value.to_str().unwrap().to_owned())
    };
    assert_eq!(from(allowed).await.as_deref(), Some(allowed));
    assert_eq!(from("https://evil.example").await, None);
    assert_eq!(
        RawSocket::connect(
            &app.client(),
            PROTOCOL,
            &[("Origin", "https://evil.example")]
        )
        .await
        .err(),
        Some(403)
    );
    assert!(
        RawSocket::connect(&app.client(), PROTOCOL, &[("Origin", allowed)])
            .await
            .is_ok()
    );
    let own = app.client().base_url().to_owned();
    assert!(
        RawSocket::connect(&app.client(), PROTOCOL, &[("Origin", &own)])
            .await
            .is_ok()
    );
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_says_what_is_missing_and_metrics_count() {
    let mut redis = PrivateRedis::start().await;
    let app = TestApp::build().on_redis(redis.url()).start().await;
    let ready = async || {
        let answer = app.client().get("/health/ready").await;
        (
            answer.status().as_u16(),
            answer.json::<Value>().await.unwrap(),
        )
    };
    eventually(NOTICED, "a ready node", async || {
        ready().await == (200, json!({ "ready": true, "missing": [] }))
    })
    .await;
    assert_eq!(app.client().get("/health/live").await.status(), 200);
    app.gql("{ serverTime }", json!({})).await.data();
    let metrics = app.client().get("/metrics").await.text().await.unwrap();
    for name in [
        "lifemate_http_requests_total{path=\"/graphql\",status=\"200\"}",
        "lifemate_http_request_seconds_bucket",
        "lifemate_graphql_operations_total",
    ] {
        assert!(metrics.contains(name), "no {name} in\n{metrics}");
    }

    redis.kill9();
    eventually(NOTICED, "the missing redis", async || {
        ready().await == (503, json!({ "ready": false, "missing": ["redis"] }))
    })
    .await;
    assert_eq!(app.client().get("/health/live").await.status(), 200);
    redis.start_again().await;
    eventually(Duration::from_secs(30), "a ready node again", async || {
        ready().await.0 == 200
    })
    .await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn production_shows_neither_graphiql_nor_the_sandbox_nor_the_schema() {
    let app = TestApp::build()
        .config(|config| {
            config.profile = Profile::Production;
            config.id_secret = Some(domain::settings::Secret::new(
                "8d4fb28c1cbe7c2f6a1b0e9d5c3a7f10",
            ));
            config.webhook_secret = Some(domain::settings::Secret::new(
                "1f7e4c2b9a8d6e5f30b1c2d4e6f8a907",
            ));
            config.code_webhook_secret = Some(domain::settings::Secret::new(
                "c0ffee12c0ffee34c0ffee56c0ffee78",
            ));
        })
        .start()
        .await;
    for path in ["/", "/graphiql/start.js", "/sandbox/payments/any"] {
        assert_eq!(app.client().get(path).await.status(), 404, "{path}");
    }
    let introspection = app
        .gql("{ __schema { queryType { name } } }", json!({}))
        .await;
    assert!(
        !introspection.errors().is_empty() || introspection.at("__schema").is_null(),
        "{}",
        introspection.body
    );
    let misspelt = app.gql("{ serverTim }", json!({})).await;
    assert!(
        !misspelt.body.to_string().contains("serverTime"),
        "{}",
        misspelt.body
    );
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn graphiql_is_served_by_the_server_itself() {
    let app = TestApp::start().await;
    let page = app.client().get("/").await;
    assert_eq!(page.status(), 200);
    let policy = page.headers()["content-security-policy"]
        .to_str()
        .unwrap()
        .to_owned();
    assert!(policy.contains("script-src 'self';"), "{policy}");
    for file in [
        "start.js",
        "graphiql.min.js",
        "graphiql.min.css",
        "react.production.min.js",
        "react-dom.production.min.js",
        "LICENSES.txt",
    ] {
        let packed = app.client().with_header("accept-encoding", "gzip");
        let answer = packed.get(&format!("/graphiql/{file}")).await;
        assert_eq!(
            (
                answer.status().as_u16(),
                &answer.headers()["content-encoding"] == "gzip"
            ),
            (200, true),
            "{file}"
        );
        let tag = answer.headers()["etag"].to_str().unwrap().to_owned();
        let again = app
            .client()
            .with_header("if-none-match", &tag)
            .get(&format!("/graphiql/{file}"))
            .await;
        assert_eq!(again.status(), 304, "{file}");
    }
    assert_eq!(
        app.client()
            .get("/graphiql/..%2f..%2fetc%2fpasswd")
            .await
            .status(),
        404
    );
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_socket_that_breaks_the_protocol_is_closed_with_its_code() {
    let app = TestApp::start().await;
    let client = app.client();
    let init = json!({ "type": "connection_init" });
    let subscribe = |id: &str| json!({ "type": "subscribe", "id": id, "payload": { "query": "{ serverTime }" } });
    let watch = |id: &str| json!({ "type": "subscribe", "id": id, "payload": { "query": "subscription { orderUpdates { id } }" } });
    let user = app.user().await;
    let good = json!({ "type": "connection_init", "payload": { "authorization": format!("Bearer {}", user.token) } });
    let bad = json!({ "type": "connection_init", "payload": { "Authorization": "Bearer no-such-token" } });
    let cases: [(&str, Vec<String>, u16); 8] = [
        ("no JSON", vec!["x".to_owned()], 4400),
        (
            "another type",
            vec![json!({ "type": "start" }).to_string()],
            4400,
        ),
        (
            "subscribe before the greeting",
            vec![subscribe("1").to_string()],
            4401,
        ),
        ("a bad token", vec![bad.to_string()], 4403),
        (
            "a second init",
            vec![init.to_string(), init.to_string()],
            4429,
        ),
        (
            "the same id",
            vec![
                good.to_string(),
                watch("1").to_string(),
                watch("1").to_string(),
            ],
            4409,
        ),
        ("a large message", vec!["x".repeat(65 * 1024)], 1009),
        ("silence", vec![], 4408),
    ];
    // At the same time: the last one is only closed after ten seconds.
    join_all(cases.into_iter().map(async |(what, messages, code)| {
        let mut socket = RawSocket::connect(&client, PROTOCOL, &[]).await.unwrap();
        for message in messages {
            socket.send_text(message).await;
        }
        let closed = loop {
            match socket.receive(Duration::from_secs(20)).await {
                Frame::Json(_) => {}
                other => break other,
            }
        };
        assert!(
            matches!(&closed, Frame::Closed(found, _) if *found == code),
            "{what}: {closed:?}"
        );
    }))
    .await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_subprotocol_is_refused_with_a_code_that_browsers_show() {
    let app = TestApp::start().await;
    let mut socket = RawSocket::connect(&app.client(), "graphql-ws", &[])
        .await
        .unwrap();
    assert!(matches!(socket.receive(SOON).await, Frame::Closed(4406, _)));
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_and_mutations_run_over_a_socket_too() {
    let app = TestApp::start().await;
    let user = app.as_user(&app.user().await);
    let mut socket = RawSocket::connect(&user, PROTOCOL, &[]).await.unwrap();
    socket.greet(&user).await;
    socket.send(json!({ "type": "subscribe", "id": "a", "payload": { "query": "{ viewer { phone } }" } })).await;
    let Frame::Json(next) = socket.receive(SOON).await else {
        panic!("no answer")
    };
    assert_eq!((&next["type"], &next["id"]), (&json!("next"), &json!("a")));
    assert!(
        next.pointer("/payload/data/viewer/phone")
            .is_some_and(Value::is_string),
        "{next}"
    );
    assert_eq!(
        socket.receive(SOON).await,
        Frame::Json(json!({ "type": "complete", "id": "a" }))
    );
    // The id is free again, and a refused operation says so once.
    socket
        .send(json!({ "type": "subscribe", "id": "a", "payload": { "query": "{ nothing }" } }))
        .await;
    let Frame::Json(error) = socket.receive(SOON).await else {
        panic!("no answer")
    };
    assert_eq!(
        (&error["type"], &error["id"]),
        (&json!("error"), &json!("a"))
    );
    socket
        .send(json!({ "type": "ping", "payload": { "n": 1 } }))
        .await;
    assert_eq!(
        socket.receive(SOON).await,
        Frame::Json(json!({ "type": "pong", "payload": { "n": 1 } }))
    );
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_dies_closes_its_sockets_on_every_node() {
    let mut app = TestApp::start().await;
    let user = app.user().await;
    let here = app.as_user(&user);
    let there = app.second_node().await.as_user(&user);
    let mut sockets = Vec::new();
    for client in [&here, &there] {
        let mut socket = RawSocket::connect(client, PROTOCOL, &[]).await.unwrap();
        socket.greet(client).await;
        sockets.push(socket);
    }
    here.gql("mutation { logout(input: {}) { __typename } }", json!({}))
        .await
        .data();
    for mut socket in sockets {
        let closed = socket.receive(NOTICED).await;
        assert!(matches!(closed, Frame::Closed(4403, _)), "{closed:?}");
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_has_ten_sockets_and_not_one_more() {
    let app = TestApp::start().await;
    let client = app.as_user(&app.user().await);
    let mut sockets = Vec::new();
    for _ in 0..10 {
        let mut socket = RawSocket::connect(&client, PROTOCOL, &[]).await.unwrap();
        socket.greet(&client).await;
        sockets.push(socket);
    }
    let mut eleventh = RawSocket::connect(&client, PROTOCOL, &[]).await.unwrap();
    let token = client.token().unwrap();
    eleventh.send(json!({ "type": "connection_init", "payload": { "Authorization": format!("Bearer {token}") } })).await;
    assert!(matches!(
        eleventh.receive(SOON).await,
        Frame::Closed(4429, _)
    ));
    sockets.pop().unwrap().close().await;
    eventually(SOON, "a place that is free again", async || {
        let mut socket = RawSocket::connect(&client, PROTOCOL, &[]).await.unwrap();
        socket.send(json!({ "type": "connection_init", "payload": { "Authorization": format!("Bearer {token}") } })).await;
        matches!(socket.receive(SOON).await, Frame::Json(_))
    })
    .await;
    app.finish().await;
}

/// Only where npm was there at build time, as it is for every run of the tests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_is_readable_without_gzip_too() {
    let app = TestApp::start().await;
    let page = app.client().get("/").await;
    assert_eq!(page.status(), 200);
    assert!(page.headers().get("content-encoding").is_none());
    let text = page.text().await.unwrap();
    assert!(
        text.starts_with("<!doctype html>") || text.starts_with("<!DOCTYPE html>"),
        "{text:.80}"
    );
    app.finish().await;
}
