//! Many operations on one socket, begun and given up faster than they end.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::client::Client;
use crate::support::subscription::{Frame, RawSocket};
use crate::support::wait::eventually;

const PROTOCOL: &str = "graphql-transport-ws";
const SOON: Duration = Duration::from_secs(20);
/// Operations of one socket that are wanted.
const WANTED: usize = 20;
/// As it is while they are let go: far more than a page has, far fewer than were asked for.
const ASKED: usize = 200;

fn watch(id: &str) -> Value {
    let query = "subscription { orderUpdates { id } }";
    json!({ "type": "subscribe", "id": id, "payload": { "query": query } })
}

fn complete(id: &str) -> Value {
    json!({ "type": "complete", "id": id })
}

async fn greeted(client: &Client) -> RawSocket {
    let mut socket = RawSocket::connect(client, PROTOCOL, &[]).await.unwrap();
    socket.greet(client).await;
    socket
}

/// The ids that were refused before the answer to a ping.
async fn refused(socket: &mut RawSocket) -> Vec<String> {
    socket.send(json!({ "type": "ping" })).await;
    let mut refused = Vec::new();
    loop {
        match socket.receive(SOON).await {
            Frame::Json(message) if message["type"] == "pong" => return refused,
            Frame::Json(message) => {
                assert_eq!(message["type"], "error", "{message}");
                let code = &message["payload"][0]["extensions"]["code"];
                assert_eq!(code, "RATE_LIMITED");
                refused.push(message["id"].as_str().unwrap().to_owned());
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operations_count_until_they_are_let_go() {
    let app = TestApp::start().await;
    let user = app.as_user(&app.user().await);
    let mut socket = greeted(&user).await;
    for n in 0..WANTED + 1 {
        socket.send(watch(&format!("a{n}"))).await;
    }
    assert_eq!(refused(&mut socket).await, ["a20"]);
    // A page that is left for another one changes all of them.
    for n in 0..WANTED {
        socket.send(complete(&format!("a{n}"))).await;
        socket.send(watch(&format!("b{n}"))).await;
    }
    assert!(refused(&mut socket).await.is_empty());
    for n in 0..ASKED {
        socket.send(complete(&format!("b{n}"))).await;
        socket.send(watch(&format!("b{}", n + WANTED))).await;
    }
    // The first that nobody wanted any more may be gone by now.
    let many = refused(&mut socket).await.len();
    assert!(many >= ASKED - 2 * WANTED, "{many}");
    eventually(SOON, "a free place", async || {
        socket.send(watch("c")).await;
        let is_free = refused(&mut socket).await.is_empty();
        if is_free {
            socket.send(complete("c")).await;
        }
        is_free
    })
    .await;
    app.finish().await;
}
