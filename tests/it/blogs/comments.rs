//! Comments: counts that hold under many at once, who may delete, pages, repeats.

use entity::comment;
use futures_util::future::join_all;
use sea_orm::EntityTrait;
use serde_json::json;

use super::{delete, global, note, number, read, walk};
use crate::support::app::TestApp;
use crate::support::client::{Answer, Client};
use crate::support::stores::Store;

async fn say(client: &Client, input: serde_json::Value) -> Answer {
    let query = "mutation($input: AddCommentInput!) { addComment(input: $input) { comment {
        id text createdAt author { id } blog { id commentCount } } } }";
    client.gql(query, json!({ "input": input })).await
}

async fn comment(client: &Client, blog: &str, text: &str) -> String {
    let answer = say(client, json!({ "blogId": blog, "text": text })).await;
    answer.text("addComment.comment.id").to_owned()
}

async fn unsay(client: &Client, id: &str) -> Answer {
    let query = "mutation($input: DeleteCommentInput!) { deleteComment(input: $input) {
        deletedCommentId blog { commentCount } } }";
    client
        .gql(query, json!({ "input": { "commentId": id } }))
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_count_is_that_of_the_comments_whoever_writes_and_deletes_at_once() {
    for store in [Store::MariaDb, Store::Sqlite, Store::Postgres] {
        let app = TestApp::build().on(store).start().await;
        let users = app.users(40).await;
        let author = app.as_user(&app.user().await);
        let id = note(&author, "discussed").await;
        let clients: Vec<Client> = users.iter().map(|user| app.as_user(user)).collect();
        let written = join_all(clients.iter().map(|client| comment(client, &id, "😀"))).await;
        let count = async || read(&app.client(), &id, "commentCount").await["commentCount"].clone();
        assert_eq!(count().await, 40);
        // Half of them are deleted, each by two at once, while others write.
        let by_both = written[..20].iter().zip(&clients);
        let deletions =
            by_both.flat_map(|(comment, client)| [(client, comment), (&author, comment)]);
        let deletions = join_all(deletions.map(|(client, comment)| unsay(client, comment)));
        let more = join_all(clients[20..].iter().map(|client| comment(client, &id, "x")));
        let (deletions, _) = tokio::join!(deletions, more);
        for answer in deletions.chunks(2) {
            let refused = answer.iter().filter(|a| a.code() == Some("NOT_FOUND"));
            assert_eq!(refused.count(), 1, "one of two deletes it");
        }
        assert_eq!(count().await, 40);
        let rows = comment::Entity::find().all(app.db()).await.unwrap();
        assert_eq!(rows.iter().filter(|c| c.deleted_at.is_none()).count(), 40);
        app.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn comments_come_newest_first_in_whole_pages_while_others_are_written() {
    for store in [Store::MariaDb, Store::Sqlite, Store::Postgres] {
        let app = TestApp::build().on(store).start().await;
        let (user, other) = (app.user().await, app.user().await);
        let (author, reader) = (app.as_user(&user), app.as_user(&other));
        let (id, next) = (note(&author, "long").await, note(&author, "short").await);
        let mut wanted = Vec::new();
        for n in 0..11 {
            wanted.insert(0, comment(&reader, &id, &format!("{n}")).await);
        }
        unsay(&reader, &wanted.remove(4)).await.data();
        for first in [1, 4, 50] {
            assert_eq!(
                walk(&app.client(), ("blog", &id, "comments"), first).await,
                wanted
            );
        }
        let answer = say(&author, json!({ "blogId": next, "text": "Phở 😀" })).await;
        let told = answer.at("addComment.comment");
        assert_eq!(told["text"], "Phở 😀");
        assert_eq!(told["author"]["id"], global("User", user.id));
        assert_eq!(told["blog"], json!({ "id": next, "commentCount": 1 }));

        // Pages of several notes at once, two of the same note among them.
        let query = "query($author: ID!) { user(id: $author) { blogs { edges { node { title
            two: comments(first: 2) { edges { node { text } } pageInfo { hasNextPage } }
            one: comments(first: 1) { edges { node { text } } } } } } } }";
        let variables = json!({ "author": global("User", user.id) });
        let answer = app.client().gql(query, variables).await;
        let texts = |texts: &[&str]| {
            let edges = texts.iter().map(|text| json!({ "node": { "text": text } }));
            edges.collect::<Vec<_>>()
        };
        let edges = answer.list("user.blogs.edges");
        assert_eq!(edges[0]["node"]["two"]["edges"], json!(texts(&["Phở 😀"])));
        assert_eq!(edges[1]["node"]["two"]["edges"], json!(texts(&["10", "9"])));
        assert_eq!(edges[1]["node"]["two"]["pageInfo"]["hasNextPage"], true);
        assert_eq!(edges[1]["node"]["one"]["edges"], json!(texts(&["10"])));
        app.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_comment_is_deleted_by_its_author_the_notes_author_and_administrators() {
    let app = TestApp::start().await;
    let author = app.as_user(&app.user().await);
    let reader = app.as_user(&app.user().await);
    let stranger = app.as_user(&app.user().await);
    let admin = app.as_user(&app.admin().await);
    let id = note(&author, "discussed").await;
    let is_there = async |comment: &str| {
        let node =
            "query($id: ID!) { node(id: $id) { id ... on Comment { text blog { title } } } }";
        let answer = stranger.gql(node, json!({ "id": comment })).await;
        answer.at("node").clone()
    };
    for deleter in [&reader, &author, &admin] {
        let said = comment(&reader, &id, "x").await;
        unsay(&stranger, &said).await.expect_code("FORBIDDEN");
        let told = json!({ "id": said, "text": "x", "blog": { "title": "discussed" } });
        assert_eq!(is_there(&said).await, told);
        let answer = unsay(deleter, &said).await;
        assert_eq!(answer.text("deleteComment.deletedCommentId"), said);
        assert_eq!(answer.int("deleteComment.blog.commentCount"), 0);
        unsay(deleter, &said).await.expect_code("NOT_FOUND");
        assert!(is_there(&said).await.is_null());
    }
    // With its note, everything on it is out of reach.
    let said = comment(&reader, &id, "x").await;
    delete(&author, &id).await.data();
    assert!(is_there(&said).await.is_null());
    unsay(&reader, &said).await.expect_code("NOT_FOUND");
    say(&reader, json!({ "blogId": id, "text": "x" }))
        .await
        .expect_code("NOT_FOUND");
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_request_adds_one_comment_and_bad_ones_none() {
    let app = TestApp::start().await;
    let reader = app.as_user(&app.user().await);
    let id = note(&reader, "discussed").await;
    let input = |text| json!({ "blogId": id, "text": text, "clientRequestId": "r-1" });
    let answers = join_all((0..10).map(|_| say(&reader, input("a")))).await;
    let first = answers[0].text("addComment.comment.id");
    for answer in &answers {
        assert_eq!(answer.text("addComment.comment.id"), first);
    }
    let error = say(&reader, input("b")).await;
    let error = error.expect_code("BAD_INPUT");
    assert_eq!(error["extensions"]["argument"], "input.clientRequestId");
    for text in [" ", "a\u{0}", "\u{202E}", &"x".repeat(501)] {
        let answer = say(&reader, json!({ "blogId": id, "text": text })).await;
        let error = answer.expect_code("BAD_INPUT");
        assert_eq!(error["extensions"]["argument"], "input.text");
    }
    let longest = "😀".repeat(500);
    comment(&reader, &id, &longest).await;
    let rows = comment::Entity::find().all(app.db()).await.unwrap();
    assert_eq!(rows.len(), 2);
    assert!(rows.iter().any(|c| c.text == longest));
    assert!(rows.iter().any(|c| c.id == number("Comment", first)));
    assert_eq!(
        read(&app.client(), &id, "commentCount").await["commentCount"],
        2
    );
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_author_is_told_of_each_comment_of_others() {
    let app = TestApp::start().await;
    let (user, other) = (app.user().await, app.user().await);
    let (author, reader) = (app.as_user(&user), app.as_user(&other));
    let id = note(&author, "Phở").await;
    comment(&author, &id, "mine").await;
    let input = json!({ "blogId": id, "text": "first", "clientRequestId": "r-1" });
    say(&reader, input.clone()).await.data();
    say(&reader, input).await.data();
    comment(&reader, &id, "second").await;
    let query =
        "{ viewer { notifications { edges { node { kind text actor { id } subject { id } } } } } }";
    let answer = author.gql(query, serde_json::Value::Null).await;
    let told = json!({ "kind": "BLOG_COMMENTED", "text": "Phở", "actor": { "id": global("User", other.id) }, "subject": { "id": id } });
    let twice = json!([{ "node": told }, { "node": told }]);
    assert_eq!(answer.at("viewer.notifications.edges"), &twice);
    app.finish().await;
}
