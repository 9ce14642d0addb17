//! A note on its way to a hundred thousand followers, and the worker killed in the middle of it.

use std::time::Duration;

use entity::{blog_fanout, follow, follow_count};
use sea_orm::sea_query::Expr;
use sea_orm::{
    ColumnTrait, ConnectionTrait, DatabaseConnection, EntityTrait, ExprTrait, QueryFilter,
};
use serde_json::{Value, json};

use crate::processes::Cluster;
use crate::support::client::Client;
use crate::support::process::{Process, run};
use crate::support::stores::{Store, Stores, connect};
use crate::support::wait::eventually;

/// A note is visible to its author's followers this long after publishing.
const VISIBLE: Duration = Duration::from_secs(2);
/// A hundred batches, and the claim of a worker that died.
const CARRIED: Duration = Duration::from_secs(90);
const FANS: i64 = 100_000;

/// People with a session each: number, and token.
async fn people(env: &[(String, String)], stores: &Stores, count: usize) -> Vec<String> {
    let out = stores.folder.path().join("people").display().to_string();
    let count = count.to_string();
    let args = ["admin", "sessions", "--count", &count, "--out", &out];
    let minted = run(&args, env).await;
    assert!(minted.status.success(), "{}", minted.stderr);
    let lines = std::fs::read_to_string(out).unwrap();
    let token = |line: &str| {
        let session: Value = serde_json::from_str(line).unwrap();
        session["token"].as_str().unwrap().to_owned()
    };
    lines.lines().map(token).collect()
}

async fn user_id(client: &Client) -> (String, i64) {
    let answer = client.gql("{ viewer { user { id } } }", json!({})).await;
    let id = answer.text("viewer.user.id").to_owned();
    let number = schema::scalars::parse_id(&async_graphql::ID(id.clone()), "User", "id").unwrap();
    (id, number)
}

async fn feed(client: &Client) -> Vec<String> {
    let query = "{ viewer { feed(first: 10) { edges { node { id } } } } }";
    let answer = client.gql(query, json!({})).await;
    let edges = answer.list("viewer.feed.edges").iter();
    edges
        .map(|edge| edge["node"]["id"].as_str().unwrap().to_owned())
        .collect()
}

/// Very many who follow an author, half of them before everybody else and half after.
async fn add_fans(database: &DatabaseConnection, author: i64) {
    let rows = format!(
        "INSERT INTO follows (id, follower_id, followee_id, seq, created_at) \
         SELECT 1000 + seq, 1000000 + seq, {author}, 1, \
                IF(seq <= {half}, 1700000000000, 1900000000000) + seq \
         FROM seq_1_to_{FANS}",
        half = FANS / 2
    );
    database.execute_unprepared(&rows).await.unwrap();
    let count = follow_count::Entity::update_many()
        .col_expr(
            follow_count::Column::Followers,
            Expr::col(follow_count::Column::Followers).add(FANS),
        )
        .filter(follow_count::Column::UserId.eq(author));
    count.exec(database).await.unwrap();
}

/// Moves somebody in the order in which an author's followers came.
async fn place(database: &DatabaseConnection, follower: i64, created_at: i64) {
    let moved = follow::Entity::update_many()
        .col_expr(follow::Column::CreatedAt, Expr::value(created_at))
        .filter(follow::Column::FollowerId.eq(follower));
    assert_eq!(moved.exec(database).await.unwrap().rows_affected, 1);
}

async fn way(database: &DatabaseConnection) -> blog_fanout::Model {
    let way = blog_fanout::Entity::find().one(database).await.unwrap();
    way.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_note_reaches_a_hundred_thousand_though_its_worker_is_killed_on_the_way() {
    let stores = Stores::create(Store::MariaDb).await.with_kafka();
    let all_pushed = [("LIFEMATE_FEED_PUSH_MAX_FOLLOWERS", "1000000")];
    let mut cluster = Cluster::start(stores, &all_pushed).await;
    let database = connect(cluster.stores.database_url.as_ref().unwrap()).await;
    let tokens = people(&cluster.env, &cluster.stores, 4).await;
    let author = cluster.nodes[0].client().with_token(&tokens[0]);
    let (author_id, author_number) = user_id(&author).await;
    // The first of all, one in the middle, the last of all; each has an inbox, at the other node.
    let mut readers = Vec::new();
    for (token, created_at) in tokens[1..]
        .iter()
        .zip([1, 1_800_000_000_000, 2_000_000_000_000])
    {
        let reader = cluster.nodes[1].client().with_token(token);
        let follow = "mutation($id: ID!) { follow(input: { userId: $id }) { __typename } }";
        reader.gql(follow, json!({ "id": author_id })).await.data();
        assert!(feed(&reader).await.is_empty());
        place(&database, user_id(&reader).await.1, created_at).await;
        readers.push(reader);
    }
    add_fans(&database, author_number).await;

    let publish = "mutation { publishBlog(input: { title: \"News\", content: \"For all.\" }) { blog { id author { followerCount } } } }";
    let published = author.gql(publish, json!({})).await;
    let followers = published.int("publishBlog.blog.author.followerCount");
    assert_eq!(followers, FANS + 3);
    let note = vec![published.text("publishBlog.blog.id").to_owned()];
    // Whoever comes first and last sees it alike.
    let seen = async || {
        for reader in &readers {
            eventually(VISIBLE, "the note", async || feed(reader).await == note).await;
        }
    };
    seen().await;

    // Somewhere on the way, the worker is gone.
    eventually(CARRIED, "the first batches", async || {
        let step = way(&database).await.step.unwrap_or_default();
        step.contains("\"after\":{\"created_at\":17000")
    })
    .await;
    cluster.worker.kill9();
    let left = way(&database).await;
    assert_eq!(left.done_at, None, "it was not on its way any more");
    seen().await;

    let logs = cluster.stores.folder.path().to_owned();
    cluster.worker = Process::spawn(&["work"], &cluster.env, &logs);
    eventually(CARRIED, "the other batches", async || {
        way(&database).await.done_at.is_some()
    })
    .await;
    assert_ne!(way(&database).await.step, left.step);
    seen().await;
    database.close().await.unwrap();
    cluster.end().await;
}
