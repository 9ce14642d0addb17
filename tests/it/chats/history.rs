//! Histories and lists of conversations, page by page, while messages come in.

use serde_json::{Value, json};

use super::{friends, mark, rows, say};
use crate::support::app::TestApp;
use crate::support::client::{Answer, Client};

const PAGE: &str = "query($id: ID!, $after: String) { node(id: $id) { ... on Conversation { messageCount
    messages(first: 5, after: $after) { edges { node { text number } } pageInfo { hasNextPage endCursor } } } } }";

async fn page(client: &Client, conversation: &str, after: &Value) -> Answer {
    let variables = json!({ "id": conversation, "after": after });
    client.gql(PAGE, variables).await
}

fn texts(answer: &Answer) -> Vec<String> {
    let text = |edge: &Value| edge["node"]["text"].as_str().unwrap().to_owned();
    answer
        .list("node.messages.edges")
        .iter()
        .map(text)
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_history_is_complete_and_without_repeats_while_messages_come_in() {
    let app = TestApp::start().await;
    let people = friends(&app, 2).await;
    let clients = [app.as_user(&people[0]), app.as_user(&people[1])];
    let mut conversation = String::new();
    for n in 1..=23 {
        conversation = say(&clients[n % 2], &people[1 - n % 2], &n.to_string()).await;
    }
    let (mut seen, mut after) = (Vec::new(), Value::Null);
    loop {
        let answer = page(&clients[0], &conversation, &after).await;
        seen.extend(texts(&answer));
        if answer.at("node.messages.pageInfo.hasNextPage") == false {
            break;
        }
        after = answer.at("node.messages.pageInfo.endCursor").clone();
        say(&clients[1], &people[0], "new").await;
    }
    let wanted: Vec<String> = (1..=23).rev().map(|n| n.to_string()).collect();
    assert_eq!(seen, wanted);

    let foreign = say(&clients[0], &people[1], "last").await;
    assert_eq!(foreign, conversation);
    let answer = page(&clients[0], &conversation, &json!("garbled")).await;
    answer.expect_code("BAD_CURSOR");
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conversations_come_newest_first_with_their_last_message_and_nothing_is_skipped() {
    const LIST: &str = "query($after: String) { viewer { conversations(first: 2, after: $after) {
        edges { node { unreadCount user { id } lastMessage { text }
            messages(first: 2) { edges { node { text sender { id } } } } } }
        pageInfo { hasNextPage endCursor } } } }";
    let app = TestApp::start().await;
    let people = friends(&app, 6).await;
    let client = app.as_user(&people[0]);
    for other in &people[1..] {
        say(&app.as_user(other), &people[0], "hello").await;
        say(&client, other, &format!("to {}", other.id)).await;
    }
    let (mut seen, mut after) = (Vec::new(), Value::Null);
    loop {
        let answer = client.gql(LIST, json!({ "after": after })).await;
        for edge in answer.list("viewer.conversations.edges") {
            let node = &edge["node"];
            assert_eq!(node["unreadCount"], 1);
            assert_eq!(node["messages"]["edges"].as_array().unwrap().len(), 2);
            seen.push(node["lastMessage"]["text"].as_str().unwrap().to_owned());
        }
        if answer.at("viewer.conversations.pageInfo.hasNextPage") == false {
            break;
        }
        after = answer.at("viewer.conversations.pageInfo.endCursor").clone();
        // One that was seen comes to the top again; the others stay where they are.
        say(&app.as_user(&people[5]), &people[0], "again").await;
        let conversation = say(&client, &people[5], "re").await;
        mark(&client, &conversation, Value::Null).await.data();
    }
    let wanted: Vec<String> = people[1..]
        .iter()
        .rev()
        .map(|p| format!("to {}", p.id))
        .collect();
    assert_eq!(seen, wanted);
    let answer = client.gql(LIST, json!({ "after": null })).await;
    assert_eq!(
        answer.text("viewer.conversations.edges.0.node.lastMessage.text"),
        "re"
    );
    assert_eq!(rows(app.db()).await.len(), 14);
    app.finish().await;
}
