//! Who may write to whom, what a message may be, and that an id is one message.

use std::collections::BTreeSet;

use entity::conversation;
use futures_util::future::join_all;
use sea_orm::EntityTrait;
use serde_json::{Value, json};

use super::{SEND, friends, rows, say, send, set_following, user_id};
use crate::support::app::TestApp;
use crate::support::stores::Store;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_those_write_who_follow_each_other_and_what_was_written_stays() {
    let app = TestApp::start().await;
    let people = app.users(2).await;
    let (one, other) = (app.as_user(&people[0]), app.as_user(&people[1]));
    let refused = json!({ "sendMessage": { "message": null, "refusal": "NOT_MUTUAL" } });
    assert_eq!(*send(&one, &people[1], "hi", None).await.data(), refused);
    set_following(&app, &people[0], &people[1], true).await;
    assert_eq!(*send(&one, &people[1], "hi", None).await.data(), refused);
    assert_eq!(*send(&other, &people[0], "hi", None).await.data(), refused);
    set_following(&app, &people[1], &people[0], true).await;
    let sent = send(&one, &people[1], "hi", Some("r1")).await;
    let conversation = sent.text("sendMessage.message.conversation.id");
    assert_eq!(say(&other, &people[0], "hello").await, conversation);

    let history = "query($id: ID!) { node(id: $id) { ... on Conversation { messages { edges { node { text } } } } } }";
    for (leaver, stayer, messages) in [(0, 1, 2), (1, 0, 4)] {
        set_following(&app, &people[leaver], &people[stayer], false).await;
        assert_eq!(
            *send(&one, &people[1], "still?", None).await.data(),
            refused
        );
        assert_eq!(
            *send(&other, &people[0], "still?", None).await.data(),
            refused
        );
        for reader in [&one, &other] {
            let read = reader.gql(history, json!({ "id": conversation })).await;
            assert_eq!(read.list("node.messages.edges").len(), messages);
        }
        // It was sent, and the client only did not hear of it.
        let again = send(&one, &people[1], "hi", Some("r1")).await;
        assert_eq!(again.data(), sent.data());
        set_following(&app, &people[leaver], &people[stayer], true).await;
        say(&one, &people[1], "again").await;
        say(&other, &people[0], "again").await;
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_text_is_kept_as_it_is_and_a_bad_one_is_refused_by_name() {
    let app = TestApp::start().await;
    let people = friends(&app, 2).await;
    let client = app.as_user(&people[0]);
    let long = "👩‍👩‍👧‍👦 phở\n".chars().cycle().take(2_000).collect::<String>();
    let sent = send(&client, &people[1], &long, None).await;
    assert_eq!(sent.text("sendMessage.message.text"), long);
    assert_eq!(rows(app.db()).await[0].text, long);
    for bad in ["", " \n", "x\0y", &"x".repeat(2_001), "a\u{202E}b"] {
        let answer = send(&client, &people[1], bad, None).await;
        let error = answer.expect_code("BAD_INPUT");
        assert_eq!(error["extensions"]["argument"], "input.text", "{bad:?}");
    }
    let to_self = send(&client, &people[0], "me", None).await;
    assert_eq!(
        to_self.expect_code("BAD_INPUT")["extensions"]["argument"],
        "input.userId"
    );
    let nobody = json!({ "userId": schema::scalars::global_id("User", 1).0, "text": "x" });
    let answer = client.gql(SEND, json!({ "input": nobody })).await;
    answer.expect_code("NOT_FOUND");
    assert_eq!(rows(app.db()).await.len(), 1);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_id_is_one_message_also_in_parallel() {
    let app = TestApp::start().await;
    let people = friends(&app, 3).await;
    let client = app.as_user(&people[0]);
    let answers = join_all((0..20).map(|_| send(&client, &people[1], "once", Some("r")))).await;
    let ids: BTreeSet<&str> = answers
        .iter()
        .map(|a| a.text("sendMessage.message.id"))
        .collect();
    assert_eq!(ids.len(), 1, "{ids:?}");
    for (to, text) in [(1, "twice"), (2, "once")] {
        let answer = send(&client, &people[to], text, Some("r")).await;
        let error = answer.expect_code("BAD_INPUT");
        assert_eq!(error["extensions"]["argument"], "input.clientRequestId");
    }
    // Another one's id is another one's.
    let back = send(&app.as_user(&people[1]), &people[0], "once", Some("r")).await;
    assert!(!ids.contains(back.text("sendMessage.message.id")));
    for bad in ["", "with blank", "/1", &"x".repeat(65)] {
        let answer = send(&client, &people[1], "x", Some(bad)).await;
        answer.expect_code("BAD_INPUT");
    }
    assert_eq!(rows(app.db()).await.len(), 2);
    app.finish().await;
}

async fn the_first_messages_at_once_make_one_conversation(store: Store) {
    let mut app = TestApp::build().on(store).start().await;
    let second = app.second_node().await;
    let people = friends(&app, 2).await;
    let clients = [app.as_user(&people[0]), second.as_user(&people[1])];
    let sending = (0..20).map(|n| say(&clients[n % 2], &people[1 - n % 2], "first"));
    let conversations: BTreeSet<String> = join_all(sending).await.into_iter().collect();
    assert_eq!(conversations.len(), 1, "{conversations:?}");
    let made = conversation::Entity::find().all(app.db()).await.unwrap();
    assert_eq!(made.len(), 1);
    let numbers: Vec<i64> = rows(app.db()).await.iter().map(|m| m.seq).collect();
    assert_eq!(numbers, (1..=20).collect::<Vec<_>>());
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_messages_at_once_make_one_conversation_on_mariadb() {
    the_first_messages_at_once_make_one_conversation(Store::MariaDb).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_messages_at_once_make_one_conversation_on_sqlite() {
    the_first_messages_at_once_make_one_conversation(Store::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_messages_at_once_make_one_conversation_on_postgres() {
    the_first_messages_at_once_make_one_conversation(Store::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn anothers_conversation_is_not_there() {
    let app = TestApp::start().await;
    let people = friends(&app, 3).await;
    let conversation = say(&app.as_user(&people[0]), &people[1], "hi").await;
    let message = rows(app.db()).await[0].id;
    let message = schema::scalars::global_id("Message", message).0;
    let node = "query($id: ID!) { node(id: $id) { id } }";
    for id in [&conversation, &message] {
        for (person, sees) in [(0, true), (1, true), (2, false)] {
            let client = app.as_user(&people[person]);
            let found = client.gql(node, json!({ "id": id })).await;
            assert_eq!(found.at("node") != &Value::Null, sees, "{person}");
        }
        let found = app.gql(node, json!({ "id": id })).await;
        assert_eq!(found.at("node"), &Value::Null);
    }
    let other = app.as_user(&people[2]);
    let answer = super::mark(&other, &conversation, json!(message)).await;
    answer.expect_code("NOT_FOUND");
    // One's own conversation, but a message of another.
    let own = say(&other, &people[0], "mine").await;
    let answer = super::mark(&other, &own, json!(message)).await;
    answer.expect_code("NOT_FOUND");
    let with = "query($id: ID!) { viewer { conversation(userId: $id) { id } } }";
    let id = json!({ "id": user_id(&people[1]) });
    let found = other.gql(with, id.clone()).await;
    assert_eq!(found.at("viewer.conversation"), &Value::Null);
    let found = app.as_user(&people[0]).gql(with, id).await;
    assert_eq!(found.text("viewer.conversation.id"), conversation);
    app.finish().await;
}
