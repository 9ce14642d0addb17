//! The hot list: its order, pages of one moment whatever is liked between them, and what is left of it when it is
//! switched off.

use std::time::Duration;

use deadpool_redis::redis::cmd;
use entity::blog::{self, Column};
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, IntoActiveModel, QueryFilter};
use serde_json::{Value, json};

use super::{delete, global, note};
use crate::support::app::TestApp;
use crate::support::client::{Answer, Client};
use crate::support::stores::Store;
use crate::support::wait::eventually;

const SOON: Duration = Duration::from_secs(10);
const LIKE: &str = "mutation($id: ID!) { likeBlog(input: { blogId: $id }) { blog { likeCount } } }";

fn row(id: i64, like_count: i64) -> blog::Model {
    blog::Model {
        id,
        author_id: 1,
        shop_id: None,
        title: "x".to_owned(),
        content: "x".to_owned(),
        image_ids: "[]".to_owned(),
        like_count,
        comment_count: 0,
        edit_count: 0,
        request_id: None,
        request_hash: None,
        created_at: 0,
        updated_at: 0,
        deleted_at: (id == 7).then_some(1),
        version: 1,
    }
}

async fn page(client: &Client, first: usize, after: &Value) -> Answer {
    let query = "query($first: Int, $after: String) { hotBlogs(first: $first, after: $after) {
        edges { node { id likeCount } } pageInfo { hasNextPage endCursor } } }";
    client
        .gql(query, json!({ "first": first, "after": after }))
        .await
}

fn ids(answer: &Answer) -> Vec<String> {
    let edges = answer.list("hotBlogs.edges").iter();
    let id = |edge: &Value| edge["node"]["id"].as_str().unwrap().to_owned();
    edges.map(id).collect()
}

async fn set_likes(app: &TestApp, id: i64, likes: i64) {
    let update = blog::Entity::update_many().col_expr(Column::LikeCount, Expr::value(likes));
    let update = update.filter(Column::Id.eq(id));
    update.exec(app.db()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_the_hot_list_neither_repeat_nor_leave_out_whatever_is_liked_between_them() {
    for store in [Store::MariaDb, Store::Sqlite, Store::Postgres] {
        let mut app = TestApp::build().on(store).start().await;
        let second = app.second_node().await;
        let rows = (1..=30).map(|id| row(id, id % 6));
        let mut wanted: Vec<_> = rows.clone().filter(|b| b.deleted_at.is_none()).collect();
        wanted.sort_by_key(|b| std::cmp::Reverse((b.like_count, b.id)));
        let wanted: Vec<String> = wanted.iter().map(|b| global("Blog", b.id)).collect();
        blog::Entity::insert_many(rows.map(IntoActiveModel::into_active_model))
            .exec_without_returning(app.db())
            .await
            .unwrap();

        let (mut found, mut after) = (Vec::new(), Value::Null);
        for round in 0_i64.. {
            // Pages come from both nodes.
            let client = [app.client(), second.clone()][usize::from(round % 2 == 1)].clone();
            let answer = page(&client, 4, &after).await;
            found.extend(ids(&answer));
            if answer.at("hotBlogs.pageInfo.hasNextPage") == false {
                break;
            }
            after = answer.at("hotBlogs.pageInfo.endCursor").clone();
            // The last become the first, and the first the last.
            for id in 1..=30 {
                set_likes(&app, id, (id + round) * 7 % 30).await;
            }
        }
        assert_eq!(found, wanted);

        // Deleted between two pages: skipped, and the page is full all the same.
        let answer = page(&app.client(), 3, &Value::Null).await;
        let admin = app.as_user(&app.admin().await);
        let next = ids(&page(&app.client(), 3, answer.at("hotBlogs.pageInfo.endCursor")).await);
        delete(&admin, &next[1]).await.data();
        let now = ids(&page(&app.client(), 3, answer.at("hotBlogs.pageInfo.endCursor")).await);
        assert_eq!((&now[0], &now[1], now.len()), (&next[0], &next[2], 3));
        app.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_note_that_is_liked_rises_and_an_old_cursor_is_refused() {
    let mut app = TestApp::start().await;
    let author = app.as_user(&app.user().await);
    let (older, newer) = (note(&author, "older").await, note(&author, "newer").await);
    let first = page(&app.client(), 1, &Value::Null).await;
    assert_eq!(ids(&first), std::slice::from_ref(&newer));
    let cursor = first.at("hotBlogs.pageInfo.endCursor").clone();
    author.gql(LIKE, json!({ "id": older })).await.data();
    // The old ranking goes on, with counts as they are.
    let answer = page(&app.client(), 1, &cursor).await;
    assert_eq!(
        answer.at("hotBlogs.edges.0.node"),
        &json!({ "id": older, "likeCount": 1 })
    );
    eventually(SOON, "the next ranking", async || {
        ids(&page(&app.client(), 2, &Value::Null).await) == [older.clone(), newer.clone()]
    })
    .await;

    // What the cache has lost cannot be gone on with, made again or not.
    let pattern = app.redis().key("*hot_blogs:*");
    let keys: Vec<String> = app.redis().query(cmd("KEYS").arg(pattern)).await.unwrap();
    assert!(!keys.is_empty());
    let _: i64 = app.redis().query(cmd("DEL").arg(keys)).await.unwrap();
    let second = app.second_node().await;
    page(&second, 1, &cursor).await.expect_code("BAD_CURSOR");
    let foreign = app
        .client()
        .gql(
            "{ shops(first: 1) { pageInfo { endCursor } } }",
            Value::Null,
        )
        .await;
    assert_eq!(foreign.at("shops.pageInfo.endCursor"), &Value::Null);
    page(&app.client(), 1, &json!("bm9uZQ"))
        .await
        .expect_code("BAD_CURSOR");
    page(&app.client(), 0, &Value::Null)
        .await
        .expect_code("BAD_INPUT");
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn switched_off_the_hot_list_stays_as_it_was_and_says_so() {
    let app = TestApp::start().await;
    // To where a round of ten minutes begins, so that none ends within this test.
    let now_ms = app.services().infra().clock.now_ms().unsigned_abs();
    app.shift_clocks(Duration::from_millis(600_000 - now_ms % 600_000));
    let author = app.as_user(&app.user().await);
    let (older, newer) = (note(&author, "older").await, note(&author, "newer").await);
    let switch = "mutation($on: Boolean!) { setFeatureSwitch(input: { name: HOT_BLOGS, on: $on }) { featureSwitch { on } } }";
    let admin = app.as_user(&app.admin().await);
    admin.gql(switch, json!({ "on": false })).await.data();
    let before = page(&app.client(), 2, &Value::Null).await;
    assert_eq!(before.body["extensions"]["degraded"], json!(["hotBlogs"]));
    assert_eq!(ids(&before), [newer.clone(), older.clone()]);
    author.gql(LIKE, json!({ "id": older })).await.data();
    // Half a minute later, other nodes and later rounds still have that list.
    app.shift_clocks(Duration::from_secs(30));
    let after = page(&app.client(), 2, &Value::Null).await;
    assert_eq!(ids(&after), [newer.clone(), older.clone()]);
    admin.gql(switch, json!({ "on": true })).await.data();
    let now = page(&app.client(), 2, &Value::Null).await;
    assert_eq!(ids(&now), [older, newer]);
    assert!(now.body["extensions"].get("degraded").is_none());
    app.finish().await;
}
