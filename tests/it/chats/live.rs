//! Messages as they come: on both sides, on every device and node, each once and in order, and only one's own.

use futures_util::future::join_all;
use serde_json::Value;

use super::{SOON, friends, rows, say};
use crate::support::app::TestApp;
use crate::support::client::Client;
use crate::support::people::TestUser;
use crate::support::stores::Store;
use crate::support::subscription::{Event, Subscription};
use crate::support::wait::eventually;

const RECEIVED: &str =
    "subscription { messageReceived { id text number conversation { id unreadCount } } }";
/// Sockets of a session that is over close within 5 s.
const CLOSED: std::time::Duration = std::time::Duration::from_secs(7);

fn text(data: &Value) -> &str {
    data["messageReceived"]["text"].as_str().unwrap()
}

/// A subscription that is known to run: what is written after this is told. A friend writes until it speaks.
async fn listen(client: &Client, user: &TestUser, friend: &Client) -> Subscription {
    let mut told = Subscription::open(client, RECEIVED, Value::Null).await;
    loop {
        let last = format!("probe {}", rand::random::<u64>());
        say(friend, user, &last).await;
        match told.event(std::time::Duration::from_millis(300)).await {
            Event::Data(data) if text(&data) == last => return told,
            Event::Data(_) => {
                told.until(SOON, |data| text(data) == last).await;
                return told;
            }
            Event::Silence => {}
            other => panic!("{other:?}"),
        }
    }
}

/// What a listener hears up to a text, without probes.
async fn hear(told: &mut Subscription, last: &str) -> Vec<(String, i64, String)> {
    let heard = told.until(SOON, |data| text(data) == last).await;
    let of = |data: &Value| {
        let message = &data["messageReceived"];
        let conversation = message["conversation"]["id"].as_str().unwrap().to_owned();
        let number = message["number"].as_i64().unwrap();
        (conversation, number, text(data).to_owned())
    };
    let heard = heard.iter().map(of);
    heard
        .filter(|(_, _, text)| !text.starts_with("probe"))
        .collect()
}

async fn messages_are_told_once_and_in_order_on_both_sides_and_all_nodes(store: Store) {
    const EACH: usize = 12;
    let mut app = TestApp::build().on(store).start().await;
    let second = app.second_node().await;
    let people = friends(&app, 3).await;
    let here: Vec<Client> = people.iter().map(|p| app.as_user(p)).collect();
    let there: Vec<Client> = people.iter().map(|p| second.as_user(p)).collect();
    let mut listeners = Vec::new();
    for (user, friend) in [(0, 1), (1, 0), (2, 0)] {
        let near = listen(&here[user], &people[user], &here[friend]).await;
        let far = listen(&there[user], &people[user], &here[friend]).await;
        listeners.push((user, [near, far]));
    }

    // 0 and 1 write to each other, and 2 writes to 0, all at once and on both nodes.
    let sending = (0..EACH).flat_map(|n| {
        let text = |from: usize| format!("{from}: {n}");
        let node = if n % 2 == 0 { &here } else { &there };
        [(0, 1), (1, 0), (2, 0)].map(|(from, to)| (&node[from], &people[to], text(from)))
    });
    let sending = sending.map(|(client, to, text)| async move { say(client, to, &text).await });
    join_all(sending.collect::<Vec<_>>()).await;
    say(&here[0], &people[1], "end").await;
    say(&here[0], &people[2], "end").await;

    let written = rows(app.db()).await;
    for (user, devices) in &mut listeners {
        let own = |m: &&entity::message::Model| {
            [m.sender_id, m.recipient_id].contains(&people[*user].id)
                && !m.text.starts_with("probe")
        };
        let wanted: Vec<_> = written.iter().filter(own).collect();
        let mut both = Vec::new();
        for told in devices.iter_mut() {
            let mut heard = hear(told, "end").await;
            if *user == 0 {
                heard.extend(hear(told, "end").await);
            }
            assert_eq!(heard.len(), wanted.len(), "user {user}");
            both.push(heard.clone());
            // In the order of each conversation, and each one once.
            let order = heard.clone();
            heard.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
            heard.dedup();
            assert_eq!(heard.len(), wanted.len());
            for conversation in heard.iter().map(|m| &m.0) {
                let in_order: Vec<_> = order.iter().filter(|m| m.0 == *conversation).collect();
                assert!(in_order.is_sorted_by_key(|m| m.1), "{in_order:?}");
            }
        }
        assert_eq!(
            both[0], both[1],
            "two devices of one user heard another order"
        );
    }
    for (_, [near, far]) in listeners {
        near.stop().await;
        far.stop().await;
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_are_told_once_and_in_order_on_both_sides_and_all_nodes_on_mariadb() {
    messages_are_told_once_and_in_order_on_both_sides_and_all_nodes(Store::MariaDb).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_are_told_once_and_in_order_on_both_sides_and_all_nodes_on_sqlite() {
    messages_are_told_once_and_in_order_on_both_sides_and_all_nodes(Store::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_are_told_once_and_in_order_on_both_sides_and_all_nodes_on_postgres() {
    messages_are_told_once_and_in_order_on_both_sides_and_all_nodes(Store::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_needs_a_session_and_ends_with_it() {
    let app = TestApp::start().await;
    let mut nobody = Subscription::open(&app.client(), RECEIVED, Value::Null).await;
    let Event::Errors(errors) = nobody.event(SOON).await else {
        panic!("messages were told to nobody");
    };
    assert!(errors.to_string().contains("UNAUTHENTICATED"), "{errors}");
    let people = friends(&app, 2).await;
    let client = app.as_user(&people[0]);
    let mut told = listen(&client, &people[0], &app.as_user(&people[1])).await;
    let logout = "mutation { logout(input: {}) { loggedOut } }";
    client.gql(logout, Value::Null).await.data();
    eventually(CLOSED, "the end of the stream", async || {
        matches!(told.event(SOON).await, Event::Closed(4403))
    })
    .await;
    app.finish().await;
}
