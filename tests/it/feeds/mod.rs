//! Feeds: every note of those whom somebody follows, once and in order, whatever happens between pages, to workers and
//! to Redis; and told live.

mod fanout;
mod history;
mod live;
mod pages;

use domain::infra::redis::Redis;
use domain::users::UserId;
use entity::{blog, blog_fanout, follow, user};
use sea_orm::{ColumnTrait, EntityTrait, IntoActiveModel, QueryFilter};
use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::client::Client;
use crate::support::people::TestUser;

fn global(kind: &str, number: i64) -> String {
    schema::scalars::global_id(kind, number).0
}

async fn set_follow(client: &Client, field: &str, user: &TestUser) {
    let query = format!(
        "mutation($user: ID!) {{ {field}(input: {{ userId: $user }}) {{ user {{ id }} }} }}"
    );
    let user = json!({ "user": global("User", user.id) });
    client.gql(&query, user).await.data();
}

/// Publishes a note, and answers its id.
async fn publish(client: &Client) -> String {
    let query = "mutation { publishBlog(input: { title: \"a note\", content: \"its words\" }) { blog { id } } }";
    let answer = client.gql(query, Value::Null).await;
    answer.text("publishBlog.blog.id").to_owned()
}

async fn delete(client: &Client, note: &str) {
    let query = "mutation($note: ID!) { deleteBlog(input: { blogId: $note }) { __typename } }";
    client.gql(query, json!({ "note": note })).await.data();
}

/// A page of the viewer's feed.
struct Page {
    notes: Vec<String>,
    /// The cursor of its last note, when it says that more follow.
    next: Option<String>,
}

async fn page(client: &Client, first: usize, after: Option<&str>) -> Page {
    let query = "query($first: Int, $after: String) { viewer { feed(first: $first, after: $after) {
        edges { node { id author { id } } } pageInfo { hasNextPage endCursor } } } }";
    let answer = client
        .gql(query, json!({ "first": first, "after": after }))
        .await;
    let notes = answer.list("viewer.feed.edges").iter();
    let notes: Vec<_> = notes
        .map(|edge| edge["node"]["id"].as_str().unwrap().to_owned())
        .collect();
    let more = answer.at("viewer.feed.pageInfo.hasNextPage") == &json!(true);
    assert!(
        !more || notes.len() == first,
        "a page is full when more follow"
    );
    let next = more.then(|| answer.text("viewer.feed.pageInfo.endCursor").to_owned());
    Page { notes, next }
}

/// The whole feed, page by page.
async fn walk(client: &Client, first: usize) -> Vec<String> {
    let (mut notes, mut after) = (Vec::new(), None::<String>);
    loop {
        let page = page(client, first, after.as_deref()).await;
        notes.extend(page.notes);
        after = page.next;
        if after.is_none() {
            return notes;
        }
    }
}

/// The feed as it is by definition: read from the tables as they are, and sorted here.
async fn reference(app: &TestApp, reader: i64) -> Vec<String> {
    let follows = follow::Entity::find().filter(follow::Column::FollowerId.eq(reader));
    let follows = follows.all(app.db()).await.unwrap();
    let users = user::Entity::find().all(app.db()).await.unwrap();
    let is_author = |id: i64| {
        follows.iter().any(|f| f.followee_id == id) && users.iter().any(|user| user.id == id)
    };
    let mut notes = blog::Entity::find().all(app.db()).await.unwrap();
    notes.retain(|note| note.deleted_at.is_none() && is_author(note.author_id));
    notes.sort_by_key(|note| std::cmp::Reverse((note.created_at, note.id)));
    let ids = notes.iter().map(|note| global("Blog", note.id));
    ids.collect()
}

/// Notes in bulk, as if they had reached everybody long ago: number and time of each.
async fn insert_notes(app: &TestApp, author: i64, notes: &[(i64, i64)]) {
    insert_rows(app, author, notes, true).await;
}

/// A note under way, without an event; for when clocks were moved further than ids can be made.
async fn insert_under_way(app: &TestApp, author: i64, id: i64) -> String {
    let now = app.services().infra().clock.now_ms();
    insert_rows(app, author, &[(id, now)], false).await;
    global("Blog", id)
}

async fn insert_rows(app: &TestApp, author: i64, notes: &[(i64, i64)], is_done: bool) {
    for notes in notes.chunks(500) {
        let rows = notes.iter().map(|(id, created_at)| blog::Model {
            id: *id,
            author_id: author,
            shop_id: None,
            title: "an old note".to_owned(),
            content: "its words".to_owned(),
            image_ids: "[]".to_owned(),
            like_count: 0,
            comment_count: 0,
            edit_count: 0,
            request_id: None,
            request_hash: None,
            created_at: *created_at,
            updated_at: *created_at,
            deleted_at: None,
            version: 1,
        });
        let ways = notes.iter().map(|(id, created_at)| blog_fanout::Model {
            blog_id: *id,
            author_id: author,
            created_at: *created_at,
            step: None,
            done_at: is_done.then_some(*created_at),
        });
        blog::Entity::insert_many(rows.map(IntoActiveModel::into_active_model))
            .exec_without_returning(app.db())
            .await
            .unwrap();
        blog_fanout::Entity::insert_many(ways.map(IntoActiveModel::into_active_model))
            .exec_without_returning(app.db())
            .await
            .unwrap();
    }
}

/// The two keys of somebody's inbox.
fn inbox_keys(redis: &Redis, reader: i64) -> [String; 2] {
    let user = UserId(reader);
    [
        redis.key(format!("feeds:inbox:{user}")),
        redis.key(format!("feeds:inbox:{user}:entries")),
    ]
}

/// The notes in somebody's inbox, the newest first.
async fn inbox(redis: &Redis, reader: i64) -> Vec<String> {
    let [_, entries] = inbox_keys(redis, reader);
    let mut read = deadpool_redis::redis::cmd("ZRANGE");
    read.arg(entries).arg(0).arg(-1).arg("REV");
    let entries: Vec<String> = redis.query(&read).await.unwrap();
    let number = |entry: &String| i64::from_str_radix(entry.get(12..28)?, 16).ok();
    let notes = entries.iter().filter(|entry| !entry.starts_with('!'));
    notes
        .map(|entry| global("Blog", number(entry).unwrap()))
        .collect()
}

/// Carries all notes to everybody, in the test's own task.
async fn carry_all(app: &TestApp) {
    while app.services().feeds.fan_out_due().await.unwrap() > 0 {}
}
