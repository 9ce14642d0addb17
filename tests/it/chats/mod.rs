//! Chats: only between people who follow each other, counted right, told live on every node, and nobody else's.

mod history;
mod live;
mod sending;
mod unread;

use std::time::Duration;

use entity::{conversation_member, message};
use schema::scalars::global_id;
use sea_orm::{ColumnTrait, DatabaseConnection, EntityTrait, QueryFilter, QueryOrder};
use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::client::{Answer, Client};
use crate::support::people::TestUser;

const SOON: Duration = Duration::from_secs(5);
const SEND: &str = "mutation($input: SendMessageInput!) { sendMessage(input: $input) {
    message { id number text conversation { id } sender { id } } refusal } }";

fn user_id(user: &TestUser) -> String {
    global_id("User", user.id).0
}

async fn set_following(app: &TestApp, one: &TestUser, other: &TestUser, follows: bool) {
    let field = if follows { "follow" } else { "unfollow" };
    let query =
        format!("mutation($id: ID!) {{ {field}(input: {{ userId: $id }}) {{ user {{ id }} }} }}");
    let answer = app
        .as_user(one)
        .gql(&query, json!({ "id": user_id(other) }))
        .await;
    answer.data();
}

/// People of whom each follows each.
async fn friends(app: &TestApp, count: u32) -> Vec<TestUser> {
    let people = app.users(count).await;
    for one in &people {
        for other in people.iter().filter(|other| other.id != one.id) {
            set_following(app, one, other, true).await;
        }
    }
    people
}

async fn send(client: &Client, to: &TestUser, text: &str, request: Option<&str>) -> Answer {
    let input = json!({ "userId": user_id(to), "text": text, "clientRequestId": request });
    client.gql(SEND, json!({ "input": input })).await
}

/// Sends what must not be refused, and hands out the id of the conversation.
async fn say(client: &Client, to: &TestUser, text: &str) -> String {
    let sent = send(client, to, text, None).await;
    sent.text("sendMessage.message.conversation.id").to_owned()
}

async fn mark(client: &Client, conversation: &str, up_to: Value) -> Answer {
    let query = "mutation($input: MarkConversationReadInput!) {
        markConversationRead(input: $input) { conversation { unreadCount } } }";
    let input = json!({ "conversationId": conversation, "upTo": up_to });
    client.gql(query, json!({ "input": input })).await
}

/// Every message of the database, in the order of its conversation.
async fn rows(db: &DatabaseConnection) -> Vec<message::Model> {
    let all = message::Entity::find()
        .order_by_asc(message::Column::ConversationId)
        .order_by_asc(message::Column::Seq);
    all.all(db).await.unwrap()
}

/// A user's side of their only conversation.
async fn side(db: &DatabaseConnection, user: &TestUser) -> conversation_member::Model {
    let own =
        conversation_member::Entity::find().filter(conversation_member::Column::UserId.eq(user.id));
    own.one(db).await.unwrap().unwrap()
}
