//! Likes: counts that are those of the likers under many taps at once, the newest likers first, and the viewer's own.

use std::collections::HashSet;

use entity::blog_like;
use futures_util::future::join_all;
use sea_orm::EntityTrait;
use serde_json::{Value, json};

use super::{delete, global, note, read};
use crate::support::app::TestApp;
use crate::support::client::{Answer, Client};
use crate::support::people::TestUser;
use crate::support::stores::Store;

async fn tap(client: &Client, likes: bool, id: &str) -> Answer {
    let (name, input) = match likes {
        true => ("likeBlog", "LikeBlogInput"),
        false => ("unlikeBlog", "UnlikeBlogInput"),
    };
    let query = format!(
        "mutation($input: {input}!) {{ {name}(input: $input) {{ blog {{ likeCount isLikedByViewer version }} }} }}"
    );
    client
        .gql(&query, json!({ "input": { "blogId": id } }))
        .await
}

/// Who likes the only note there is, by the rows.
async fn likers(app: &TestApp) -> HashSet<i64> {
    let rows = blog_like::Entity::find().all(app.db()).await.unwrap();
    rows.iter().map(|like| like.user_id).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_count_is_that_of_the_likers_whoever_taps_at_once() {
    for store in [Store::MariaDb, Store::Sqlite, Store::Postgres] {
        let app = TestApp::build().on(store).start().await;
        let users = app.users(101).await;
        let id = note(&app.as_user(&app.user().await), "loved").await;
        let count = async || read(&app.client(), &id, "likeCount").await["likeCount"].clone();
        let taps = |user: &TestUser, likes| {
            let (client, id) = (app.as_user(user), id.clone());
            async move { tap(&client, likes, &id).await.data().clone() }
        };

        // A hundred once, and one of them fifty-one times.
        let once = users[1..].iter().map(|user| (user, true));
        let often = (0..51).map(|_| (&users[0], true));
        join_all(once.chain(often).map(|(user, likes)| taps(user, likes))).await;
        assert_eq!(count().await, 101);
        assert_eq!(likers(&app).await.len(), 101);

        // One taps back and forth at once, a third of the others takes it back, a third does both at once.
        let often = (0..51).map(|n| (&users[0], n % 2 == 0));
        let others = users[1..]
            .iter()
            .enumerate()
            .flat_map(|(n, user)| match n % 3 {
                0 => vec![(user, false)],
                1 => vec![(user, false), (user, true)],
                _ => vec![(user, true)],
            });
        join_all(often.chain(others).map(|(user, likes)| taps(user, likes))).await;
        let left = likers(&app).await;
        assert_eq!(count().await, left.len());
        for (n, user) in users[1..].iter().enumerate() {
            if n % 3 != 1 {
                assert_eq!(left.contains(&user.id), n % 3 == 2, "{n}");
            }
        }
        app.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_like_is_there_once_and_gone_once_and_a_repeat_is_no_new_version() {
    let app = TestApp::start().await;
    let user = app.user().await;
    let reader = app.as_user(&user);
    let id = note(&app.as_user(&app.user().await), "liked").await;
    for (likes, name, count) in [
        (false, "unlikeBlog", 0),
        (true, "likeBlog", 1),
        (true, "likeBlog", 1),
        (false, "unlikeBlog", 0),
        (false, "unlikeBlog", 0),
        (true, "likeBlog", 1),
    ] {
        let answer = tap(&reader, likes, &id).await;
        let blog = answer.at(&format!("{name}.blog"));
        assert_eq!(
            (&blog["likeCount"], &blog["isLikedByViewer"]),
            (&json!(count), &json!(likes))
        );
        assert_eq!(
            read(&reader, &id, "likeCount isLikedByViewer version").await,
            *blog
        );
    }
    // Three of the six changed something.
    assert_eq!(read(&reader, &id, "version").await["version"], "4");
    // What one viewer likes is not what others like.
    let others = read(&app.client(), &id, "likeCount isLikedByViewer").await;
    assert_eq!(others, json!({ "likeCount": 1, "isLikedByViewer": false }));
    tap(&app.client(), true, &id)
        .await
        .expect_code("UNAUTHENTICATED");
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_latest_likers_are_the_newest_five_the_newest_first() {
    for store in [Store::MariaDb, Store::Sqlite, Store::Postgres] {
        let app = TestApp::build().on(store).start().await;
        let author = app.user().await;
        let (first, second) = {
            let client = app.as_user(&author);
            (note(&client, "first").await, note(&client, "second").await)
        };
        let users = app.users(7).await;
        for user in &users {
            tap(&app.as_user(user), true, &first).await.data();
        }
        tap(&app.as_user(&users[2]), true, &second).await.data();
        let expected = |numbers: &[usize]| {
            let ids = numbers.iter().map(|n| global("User", users[*n].id));
            json!(ids.map(|id| json!({ "id": id })).collect::<Vec<_>>())
        };
        let latest = async || {
            read(&app.client(), &first, "latestLikers { id }").await["latestLikers"].clone()
        };
        assert_eq!(latest().await, expected(&[6, 5, 4, 3, 2]));
        tap(&app.as_user(&users[5]), false, &first).await.data();
        assert_eq!(latest().await, expected(&[6, 4, 3, 2, 1]));
        tap(&app.as_user(&users[0]), false, &first).await.data();
        tap(&app.as_user(&users[0]), true, &first).await.data();
        assert_eq!(latest().await, expected(&[0, 6, 4, 3, 2]));

        // Of many notes at once, each its own.
        let query = "query($id: ID!) { user(id: $id) { blogs { edges { node {
            title likeCount isLikedByViewer latestLikers { id } } } } } }";
        let viewer = app.as_user(&users[4]);
        let answer = viewer
            .gql(query, json!({ "id": global("User", author.id) }))
            .await;
        let told: Vec<&Value> = answer
            .list("user.blogs.edges")
            .iter()
            .map(|edge| &edge["node"])
            .collect();
        let wanted = json!([
            { "title": "second", "likeCount": 1, "isLikedByViewer": false, "latestLikers": expected(&[2]) },
            { "title": "first", "likeCount": 6, "isLikedByViewer": true, "latestLikers": expected(&[0, 6, 4, 3, 2]) },
        ]);
        assert_eq!(json!(told), wanted);
        app.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_note_is_liked_by_nobody_any_more() {
    let app = TestApp::start().await;
    let author = app.as_user(&app.user().await);
    let reader = app.as_user(&app.user().await);
    let id = note(&author, "gone").await;
    tap(&reader, true, &id).await.data();
    delete(&author, &id).await.data();
    tap(&reader, true, &id).await.expect_code("NOT_FOUND");
    tap(&reader, false, &id).await.expect_code("NOT_FOUND");
    tap(&author, true, &id).await.expect_code("NOT_FOUND");
    tap(&author, true, &global("Blog", 77))
        .await
        .expect_code("NOT_FOUND");
    tap(&author, true, &global("Shop", 77))
        .await
        .expect_code("BAD_INPUT");
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_author_is_told_of_a_like_once_and_never_of_their_own() {
    let app = TestApp::start().await;
    let (user, other) = (app.user().await, app.user().await);
    let (author, reader) = (app.as_user(&user), app.as_user(&other));
    let id = note(&author, "Phở").await;
    for likes in [true, true, false, true] {
        tap(&reader, likes, &id).await.data();
    }
    tap(&author, true, &id).await.data();
    let query =
        "{ viewer { notifications { edges { node { kind text actor { id } subject { id } } } } } }";
    let answer = author.gql(query, Value::Null).await;
    let told = json!({ "kind": "BLOG_LIKED", "text": "Phở", "actor": { "id": global("User", other.id) }, "subject": { "id": id } });
    assert_eq!(
        answer.at("viewer.notifications.edges"),
        &json!([{ "node": told }])
    );
    let answer = reader.gql(query, Value::Null).await;
    assert_eq!(answer.at("viewer.notifications.edges"), &json!([]));
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_note_is_read_while_everybody_taps() {
    let app = TestApp::start().await;
    let users = app.users(60).await;
    let author = app.user().await;
    let id = note(&app.as_user(&author), "loved").await;
    let query = "query($id: ID!, $author: ID!) { blog(id: $id) { likeCount }
        nodes(ids: [$id]) { id } user(id: $author) { blogs { edges { node { likeCount } } } } }";
    let variables = json!({ "id": id, "author": global("User", author.id) });
    let reading = join_all((0..20).map(async |_| {
        let client = app.client();
        let mut counts = Vec::new();
        for _ in 0..10 {
            let answer = client.gql(query, variables.clone()).await;
            assert_eq!(answer.at("nodes.0.id"), &json!(id));
            counts.push(answer.int("blog.likeCount"));
        }
        assert!(counts.is_sorted(), "never older after newer: {counts:?}");
    }));
    let taps = join_all(users.iter().map(async |user| {
        tap(&app.as_user(user), true, &id).await.data();
    }));
    tokio::join!(reading, taps);
    assert_eq!(read(&app.client(), &id, "likeCount").await["likeCount"], 60);
    app.finish().await;
}
