//! Notes from their first word to their end: rules of text, whose they are, repeats, lists, what a deletion leaves.

use std::time::Duration;

use entity::{blog, blog_fanout};
use futures_util::future::join_all;
use sea_orm::{EntityTrait, IntoActiveModel};
use serde_json::{Value, json};

use super::{delete, global, note, number, publish, read, update, walk};
use crate::support::app::TestApp;
use crate::support::sale::create_shop;
use crate::support::stores::Store;
use crate::support::wait::eventually;

const SOON: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_note_is_published_changed_and_deleted_by_its_author_byte_for_byte() {
    for store in [Store::MariaDb, Store::Sqlite, Store::Postgres] {
        let app = TestApp::build().on(store).start().await;
        let (user, other) = (app.user().await, app.user().await);
        let author = app.as_user(&user);
        let shop = create_shop(&app.as_user(&app.merchant().await)).await;
        let words = "Phở 老字号 👩‍👩‍👧‍👦\n<b>100%</b> \\ ' \" _";
        let input = json!({ "shopId": shop, "title": "😀".repeat(100), "content": words });
        let answer = publish(&author, input).await;
        let blog = answer.at("publishBlog.blog");
        let id = blog["id"].as_str().unwrap();
        assert_eq!(blog["title"], "😀".repeat(100));
        assert_eq!(blog["content"], words);
        assert_eq!(blog["author"]["id"], global("User", user.id));
        assert_eq!(blog["shop"]["id"], json!(shop));
        assert_eq!(blog["updatedAt"], blog["createdAt"]);

        // Its way to followers begins with it.
        let fanouts = blog_fanout::Entity::find().all(app.db()).await.unwrap();
        let row = (fanouts[0].blog_id, fanouts[0].author_id);
        assert_eq!((fanouts.len(), row), (1, (number("Blog", id), user.id)));

        let fields = "title content editCount shop { id } author { id }";
        assert_eq!(read(&app.client(), id, fields).await["content"], words);
        let change = json!({ "blogId": id, "content": "x" });
        update(&app.as_user(&other), change.clone())
            .await
            .expect_code("FORBIDDEN");
        update(&app.as_user(&app.admin().await), change.clone())
            .await
            .expect_code("FORBIDDEN");
        app.shift_clocks(Duration::from_secs(60));
        let answer = update(&author, change).await;
        let changed = answer.at("updateBlog.blog");
        assert_eq!(
            (&changed["content"], &changed["editCount"]),
            (&json!("x"), &json!(1))
        );
        assert_eq!(changed["title"], "😀".repeat(100), "what is left out stays");
        assert_eq!(changed["createdAt"], blog["createdAt"]);
        assert_ne!(changed["updatedAt"], blog["updatedAt"]);
        assert_eq!(read(&app.client(), id, fields).await["content"], "x");

        // Who saw an older one changes nothing.
        let answer = update(
            &author,
            json!({ "blogId": id, "title": "y", "editCount": 0 }),
        )
        .await;
        let error = answer.expect_code("BAD_INPUT");
        assert_eq!(error["extensions"]["argument"], "input.editCount");

        delete(&app.as_user(&other), id)
            .await
            .expect_code("FORBIDDEN");
        assert_eq!(
            delete(&author, id).await.text("deleteBlog.deletedBlogId"),
            id
        );
        delete(&author, id).await.expect_code("NOT_FOUND");
        update(&author, json!({ "blogId": id, "title": "y" }))
            .await
            .expect_code("NOT_FOUND");
        assert_eq!(read(&app.client(), id, "id").await, Value::Null);
        app.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn texts_that_break_a_rule_are_refused_by_name() {
    let app = TestApp::start().await;
    let author = app.as_user(&app.user().await);
    let shop = global("Shop", 77);
    let bad = [
        ("input.title", json!({ "title": " \n", "content": "x" })),
        (
            "input.title",
            json!({ "title": "x".repeat(101), "content": "x" }),
        ),
        ("input.title", json!({ "title": "a\u{0}b", "content": "x" })),
        (
            "input.title",
            json!({ "title": "\u{202E}x", "content": "x" }),
        ),
        ("input.content", json!({ "title": "x", "content": "" })),
        (
            "input.content",
            json!({ "title": "x", "content": "河".repeat(5_001) }),
        ),
        (
            "input.content",
            json!({ "title": "x", "content": "\u{2066}" }),
        ),
        (
            "input.shopId",
            json!({ "title": "x", "content": "x", "shopId": shop }),
        ),
        (
            "input.shopId",
            json!({ "title": "x", "content": "x", "shopId": "7" }),
        ),
        (
            "input.clientRequestId",
            json!({ "title": "x", "content": "x", "clientRequestId": "a b" }),
        ),
    ];
    for (argument, input) in bad {
        let answer = publish(&author, input.clone()).await;
        let error = answer.expect_code("BAD_INPUT");
        assert_eq!(error["extensions"]["argument"], argument, "{input}");
    }
    let longest = json!({ "title": "x", "content": "😀".repeat(5_000) });
    let id = publish(&author, longest).await;
    let id = id.text("publishBlog.blog.id");
    for (argument, input) in [
        ("input.title", json!({ "blogId": id, "title": "" })),
        (
            "input.content",
            json!({ "blogId": id, "content": "a\u{0}" }),
        ),
    ] {
        let answer = update(&author, input).await;
        let error = answer.expect_code("BAD_INPUT");
        assert_eq!(error["extensions"]["argument"], argument);
    }
    let kept = blog::Entity::find().all(app.db()).await.unwrap();
    assert_eq!((kept.len(), kept[0].edit_count), (1, 0));
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_request_publishes_one_note_and_never_another() {
    for store in [Store::MariaDb, Store::Sqlite, Store::Postgres] {
        let app = TestApp::build().on(store).start().await;
        let author = app.as_user(&app.user().await);
        let input = |title| json!({ "title": title, "content": "x", "clientRequestId": "r-1" });
        let answers = join_all((0..10).map(|_| publish(&author, input("a")))).await;
        let first = answers[0].text("publishBlog.blog.id");
        for answer in &answers {
            assert_eq!(answer.text("publishBlog.blog.id"), first);
        }
        let answer = publish(&author, input("b")).await;
        let error = answer.expect_code("BAD_INPUT");
        assert_eq!(error["extensions"]["argument"], "input.clientRequestId");
        // An id is its author's own.
        let other = publish(&app.as_user(&app.user().await), input("b")).await;
        assert_ne!(other.text("publishBlog.blog.id"), first);
        // The note has changed since: the request stays the same one.
        update(&author, json!({ "blogId": first, "title": "c" }))
            .await
            .data();
        let again = publish(&author, input("a")).await;
        assert_eq!(again.text("publishBlog.blog.title"), "c");
        delete(&author, first).await.data();
        publish(&author, input("a")).await.expect_code("NOT_FOUND");
        let fanouts = blog_fanout::Entity::find().all(app.db()).await.unwrap();
        assert_eq!(fanouts.len(), 2);
        app.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_of_an_author_and_of_a_shop_have_no_gap_and_no_repeat_within_a_millisecond() {
    for store in [Store::MariaDb, Store::Sqlite, Store::Postgres] {
        let app = TestApp::build().on(store).start().await;
        let user = app.user().await;
        let shop = create_shop(&app.as_user(&app.merchant().await)).await;
        let shop_number = number("Shop", &shop);
        // Seven in each millisecond, more than fit a page, and every fourth deleted.
        let rows = (1..=28).map(|id: i64| blog::Model {
            id,
            author_id: user.id,
            shop_id: Some(shop_number),
            title: "x".to_owned(),
            content: "x".to_owned(),
            image_ids: "[]".to_owned(),
            like_count: 0,
            comment_count: 0,
            edit_count: 0,
            request_id: None,
            request_hash: None,
            created_at: 1_000 + id % 4,
            updated_at: 0,
            deleted_at: (id % 4 == 3).then_some(1),
            version: 1,
        });
        let mut wanted: Vec<_> = rows.clone().filter(|b| b.deleted_at.is_none()).collect();
        wanted.sort_by_key(|b| std::cmp::Reverse((b.created_at, b.id)));
        let wanted: Vec<String> = wanted.iter().map(|b| global("Blog", b.id)).collect();
        blog::Entity::insert_many(rows.map(IntoActiveModel::into_active_model))
            .exec_without_returning(app.db())
            .await
            .unwrap();
        let client = app.client();
        let author = global("User", user.id);
        for first in [1, 3, 50] {
            assert_eq!(
                walk(&client, ("user", &author, "blogs"), first).await,
                wanted
            );
            assert_eq!(walk(&client, ("shop", &shop, "blogs"), first).await, wanted);
        }
        // A cursor belongs to its list.
        let query = "query($id: ID!, $after: String) { user(id: $id) { blogs(first: 1, after: $after) { pageInfo { endCursor } } } }";
        let page = client.gql(query, json!({ "id": author })).await;
        let cursor = page.text("user.blogs.pageInfo.endCursor");
        let other = global("User", app.user().await.id);
        client
            .gql(query, json!({ "id": other, "after": cursor }))
            .await
            .expect_code("BAD_CURSOR");
        app.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_note_is_gone_everywhere_on_every_node() {
    let mut app = TestApp::start().await;
    let second = app.second_node().await;
    let user = app.user().await;
    let author = app.as_user(&user);
    let (gone, kept) = (note(&author, "gone").await, note(&author, "kept").await);
    // Both nodes have it in their caches.
    for client in [&app.client(), &second] {
        assert_eq!(read(client, &gone, "title").await["title"], "gone");
    }
    delete(&app.as_user(&app.admin().await), &gone).await.data();
    let everything = "query($id: ID!, $ids: [ID!]!) { blog(id: $id) { id } node(id: $id) { id } nodes(ids: $ids) { id } }";
    let variables = json!({ "id": gone, "ids": [gone, kept] });
    let nothing = json!({ "blog": null, "node": null, "nodes": [null, { "id": kept }] });
    let answer = app.gql(everything, variables.clone()).await;
    assert_eq!(answer.data(), &nothing);
    eventually(SOON, "the other node", async || {
        second.gql(everything, variables.clone()).await.data() == &nothing
    })
    .await;
    let list = walk(&second, ("user", &global("User", user.id), "blogs"), 50).await;
    assert_eq!(list, [kept]);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_that_was_told_is_asked_for_on_another_node() {
    let mut app = TestApp::start().await;
    let second = app.second_node().await;
    let author = app.as_user(&app.user().await);
    let id = note(&author, "first").await;
    read(&second, &id, "title").await;
    let query = "query($id: ID!, $version: String!) { blog(id: $id, minVersion: $version) { title version } }";
    for round in 0..10 {
        let title = format!("title {round}");
        let answer = update(&author, json!({ "blogId": id, "title": title })).await;
        let version = answer.text("updateBlog.blog.version");
        let answer = second
            .gql(query, json!({ "id": id, "version": version }))
            .await;
        assert_eq!(answer.text("blog.title"), title);
    }
    let answer = second
        .gql(query, json!({ "id": id, "version": "99" }))
        .await;
    answer.expect_code("TRY_LATER");
    assert_eq!(answer.body["data"], json!({ "blog": null }));
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_notes_of_a_banned_author_stay() {
    let app = TestApp::start().await;
    let user = app.user().await;
    let id = note(&app.as_user(&user), "stays").await;
    let ban =
        "mutation($id: ID!) { setUserBanned(input: { userId: $id, banned: true }) { banned } }";
    let author = global("User", user.id);
    let admin = app.as_user(&app.admin().await);
    admin.gql(ban, json!({ "id": author })).await.data();
    let blog = read(&app.client(), &id, "title author { id }").await;
    assert_eq!(
        blog,
        json!({ "title": "stays", "author": { "id": author } })
    );
    publish(&app.as_user(&user), json!({ "title": "x", "content": "x" }))
        .await
        .expect_code("UNAUTHENTICATED");
    app.finish().await;
}
