//! Unread counts, under parallel writing and reading: always what a recount gives.

use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::{join, join_all};
use schema::scalars::global_id;
use serde_json::{Value, json};

use super::{friends, mark, rows, say, side};
use crate::support::app::TestApp;
use crate::support::client::Client;
use crate::support::people::TestUser;
use crate::support::stores::Store;

const LIST: &str = "{ viewer { conversations { edges { node { id unreadCount lastMessage { id number isRead } } } } } }";

/// What the rows say is unread.
async fn recount(app: &TestApp, user: &TestUser) -> i64 {
    let read = side(app.db(), user).await.read_seq;
    let unread = rows(app.db()).await;
    let unread = unread
        .iter()
        .filter(|m| m.recipient_id == user.id && m.seq > read);
    unread.count() as i64
}

/// Marks one message after another, also older ones, until told to stop; the mark that is seen never goes back.
async fn keep_reading(app: &TestApp, client: &Client, user: &TestUser, stop: &AtomicBool) {
    let (mut highest, mut turn) = (0, 0_usize);
    while !stop.load(Ordering::Relaxed) {
        turn += 1;
        let all = rows(app.db()).await;
        let Some(chosen) = all.get((turn * 7) % all.len().max(1)) else {
            continue;
        };
        let conversation = global_id("Conversation", chosen.conversation_id).0;
        mark(
            client,
            &conversation,
            json!(global_id("Message", chosen.id).0),
        )
        .await
        .data();
        let now = side(app.db(), user).await.read_seq;
        assert!(now >= highest, "a mark went back from {highest} to {now}");
        highest = now;
    }
}

async fn unread_counts_are_right_under_parallel_messages_and_marks(store: Store) {
    const EACH: usize = 50;
    let mut app = TestApp::build().on(store).start().await;
    let second = app.second_node().await;
    let people = friends(&app, 2).await;
    let clients = [app.as_user(&people[0]), second.as_user(&people[1])];
    let stop = AtomicBool::new(false);
    let sending = async {
        let all = (0..EACH * 2).map(|n| say(&clients[n % 2], &people[1 - n % 2], "x"));
        join_all(all).await;
        stop.store(true, Ordering::Relaxed);
    };
    let reading = join(
        keep_reading(&app, &clients[0], &people[0], &stop),
        keep_reading(&app, &clients[1], &people[1], &stop),
    );
    join(sending, reading).await;

    let all = rows(app.db()).await;
    let numbers: Vec<i64> = all.iter().map(|m| m.seq).collect();
    assert_eq!(numbers, (1..=2 * EACH as i64).collect::<Vec<_>>());
    for (client, user) in clients.iter().zip(&people) {
        let told = client.gql(LIST, Value::Null).await;
        let told = told.int("viewer.conversations.edges.0.node.unreadCount");
        assert_eq!(told, recount(&app, user).await);
        let own = side(app.db(), user).await;
        assert_eq!(own.received, EACH as i64);
    }
    // Each message as a mark gives what a recount gives.
    let conversation = global_id("Conversation", all[0].conversation_id).0;
    for message in all
        .iter()
        .skip(side(app.db(), &people[0]).await.read_seq as usize)
    {
        let id = json!(global_id("Message", message.id).0);
        let told = mark(&clients[0], &conversation, id).await;
        let told = told.int("markConversationRead.conversation.unreadCount");
        assert_eq!(told, recount(&app, &people[0]).await);
    }
    assert_eq!(recount(&app, &people[0]).await, 0);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_counts_are_right_under_parallel_messages_and_marks_on_mariadb() {
    unread_counts_are_right_under_parallel_messages_and_marks(Store::MariaDb).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_counts_are_right_under_parallel_messages_and_marks_on_sqlite() {
    unread_counts_are_right_under_parallel_messages_and_marks(Store::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_counts_are_right_under_parallel_messages_and_marks_on_postgres() {
    unread_counts_are_right_under_parallel_messages_and_marks(Store::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mark_is_the_readers_own_and_shows_to_the_writer() {
    let app = TestApp::start().await;
    let people = friends(&app, 2).await;
    let (one, other) = (app.as_user(&people[0]), app.as_user(&people[1]));
    say(&one, &people[1], "1").await;
    let conversation = say(&one, &people[1], "2").await;
    let seen = |client: &Client| {
        let client = client.clone();
        async move {
            let told = client.gql(LIST, Value::Null).await;
            let node = told.at("viewer.conversations.edges.0.node").clone();
            (
                node["unreadCount"].clone(),
                node["lastMessage"]["isRead"].clone(),
            )
        }
    };
    assert_eq!(seen(&one).await, (json!(0), json!(false)));
    assert_eq!(seen(&other).await, (json!(2), json!(false)));
    // The writer's own mark says nothing of the reader.
    mark(&one, &conversation, Value::Null).await.data();
    assert_eq!(seen(&other).await, (json!(2), json!(false)));
    mark(&other, &conversation, Value::Null).await.data();
    mark(&other, &conversation, Value::Null).await.data();
    assert_eq!(seen(&other).await, (json!(0), json!(true)));
    assert_eq!(seen(&one).await, (json!(0), json!(true)));
    say(&other, &people[0], "3").await;
    assert_eq!(seen(&one).await, (json!(1), json!(false)));
    assert_eq!(seen(&other).await, (json!(0), json!(false)));
    app.finish().await;
}
