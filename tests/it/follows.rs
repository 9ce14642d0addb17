//! Following: once a pair, counted exactly, listed newest first, and whom two follow in common, however many that are.

use std::time::Duration;

use domain::users::UserId;
use entity::{follow, follow_count, user};
use futures_util::future::join_all;
use sea_orm::{ConnectionTrait, EntityTrait, IntoActiveModel, PaginatorTrait, TransactionTrait};
use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::client::{Answer, Client};
use crate::support::people::TestUser;
use crate::support::private::PrivateRedis;
use crate::support::stores::Store;

/// More than any database takes as parameters of one statement.
const MANY: i64 = 70_000;

fn id_of(user: i64) -> String {
    schema::scalars::global_id("User", user).0
}

async fn tap(client: &Client, field: &str, user: i64) -> Answer {
    let query = format!(
        "mutation($user: ID!) {{ {field}(input: {{ userId: $user }}) {{ user {{ id isFollowedByViewer followerCount }} }} }}"
    );
    client.gql(&query, json!({ "user": id_of(user) })).await
}

async fn look(client: &Client, user: i64) -> Answer {
    let query = "query($user: ID!) { user(id: $user) {
        followerCount followingCount isFollowedByViewer isMutual } }";
    client.gql(query, json!({ "user": id_of(user) })).await
}

/// Every node of a list, page by page.
async fn walk(client: &Client, user: i64, list: &str, first: usize) -> Vec<String> {
    let query = format!(
        "query($user: ID!, $first: Int, $after: String) {{ user(id: $user) {{
            list: {list}(first: $first, after: $after) {{ edges {{ node {{ id }} }} pageInfo {{ hasNextPage endCursor }} }} }} }}"
    );
    let (mut all, mut after) = (Vec::new(), Value::Null);
    loop {
        let wanted = json!({ "user": id_of(user), "first": first, "after": after });
        let answer = client.gql(&query, wanted).await;
        let edges = answer.list("user.list.edges");
        all.extend(
            edges
                .iter()
                .map(|e| e["node"]["id"].as_str().unwrap().to_owned()),
        );
        if answer.at("user.list.pageInfo.hasNextPage") == &json!(false) {
            return all;
        }
        assert_eq!(edges.len(), first, "a page before the last is full");
        after = answer.at("user.list.pageInfo.endCursor").clone();
    }
}

fn ids(users: &[TestUser]) -> Vec<String> {
    users.iter().map(|user| id_of(user.id)).collect()
}

async fn follow_is_idempotent_and_not_oneself(store: Store) {
    let app = TestApp::build().on(store).start().await;
    let people = app.users(2).await;
    let (ann, ben) = (app.as_user(&people[0]), app.as_user(&people[1]));
    for _ in 0..2 {
        let answer = tap(&ann, "follow", people[1].id).await;
        assert_eq!(answer.at("follow.user.isFollowedByViewer"), true);
        assert_eq!(answer.int("follow.user.followerCount"), 1);
    }
    let seen = look(&ann, people[1].id).await;
    assert_eq!(seen.at("user.isMutual"), false);
    tap(&ben, "follow", people[0].id).await.data();
    let seen = look(&ann, people[1].id).await;
    assert_eq!(
        seen.at("user"),
        &json!({ "followerCount": 1, "followingCount": 1, "isFollowedByViewer": true, "isMutual": true })
    );
    let seen = look(&app.client(), people[1].id).await;
    assert_eq!(seen.at("user.isFollowedByViewer"), false);
    assert_eq!(seen.at("user.isMutual"), false);
    for _ in 0..2 {
        let answer = tap(&ann, "unfollow", people[1].id).await;
        assert_eq!(answer.at("unfollow.user.isFollowedByViewer"), false);
        assert_eq!(answer.int("unfollow.user.followerCount"), 0);
    }
    let seen = look(&ann, people[1].id).await;
    assert_eq!(seen.at("user.isMutual"), false);

    for field in ["follow", "unfollow"] {
        let oneself = tap(&ann, field, people[0].id).await;
        let refusal = oneself.expect_code("BAD_INPUT");
        assert_eq!(refusal["extensions"]["argument"], "input.userId");
        tap(&ann, field, 5).await.expect_code("NOT_FOUND");
        tap(&app.client(), field, people[0].id)
            .await
            .expect_code("UNAUTHENTICATED");
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn following_twice_is_once_and_nobody_follows_themselves() {
    follow_is_idempotent_and_not_oneself(Store::MariaDb).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn following_twice_is_once_on_postgres_too() {
    follow_is_idempotent_and_not_oneself(Store::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn following_twice_is_once_on_sqlite_too() {
    follow_is_idempotent_and_not_oneself(Store::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_are_newest_first_and_pages_neither_skip_nor_repeat() {
    let app = TestApp::start().await;
    let people = app.users(12).await;
    let star = &people[0];
    for fan in &people[1..] {
        tap(&app.as_user(fan), "follow", star.id).await.data();
        tap(&app.as_user(star), "follow", fan.id).await.data();
    }
    // As if all had been written in the same millisecond: the place in the list is the number too.
    let same = "UPDATE follows SET created_at = 1800000000000";
    app.db().execute_unprepared(same).await.unwrap();
    let newest: Vec<_> = ids(&people[1..]).into_iter().rev().collect();
    for first in [1, 4, 50] {
        let client = app.client();
        assert_eq!(walk(&client, star.id, "followers", first).await, newest);
        assert_eq!(walk(&client, star.id, "following", first).await, newest);
    }

    // A cursor of one list is none of another.
    let query = "query($user: ID!, $after: String) { user(id: $user) { followers(first: 1, after: $after) { pageInfo { endCursor } } } }";
    let page = app.gql(query, json!({ "user": id_of(star.id) })).await;
    let cursor = page.text("user.followers.pageInfo.endCursor");
    let foreign = json!({ "user": id_of(people[1].id), "after": cursor });
    app.gql(query, foreign).await.expect_code("BAD_CURSOR");
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_taps_at_once_leave_counts_that_equal_the_rows() {
    let mut app = TestApp::start().await;
    let second = app.second_node().await;
    let people = app.users(26).await;
    let (one, fans) = people.split_first().unwrap();
    // Everybody taps four times at once, on two nodes; those of an even number end with an unfollow.
    let taps = fans.iter().enumerate().flat_map(|(index, fan)| {
        let (here, there) = (app.as_user(fan), second.as_user(fan));
        let field = if index % 3 == 0 { "unfollow" } else { "follow" };
        [
            (here.clone(), "follow"),
            (there.clone(), "follow"),
            (here, field),
            (there, field),
        ]
    });
    let taps: Vec<_> = taps.collect();
    assert_eq!(taps.len(), 100);
    let answers = join_all(
        taps.iter()
            .map(|(client, field)| tap(client, field, one.id)),
    )
    .await;
    for answer in &answers {
        answer.data();
    }
    let rows = follow::Entity::find().all(app.db()).await.unwrap();
    let followers = i64::try_from(rows.len()).unwrap();
    assert!((16..=25).contains(&followers), "{followers}");
    let seen = look(&app.client(), one.id).await;
    assert_eq!(seen.int("user.followerCount"), followers);
    for fan in fans {
        let his = rows.iter().filter(|row| row.follower_id == fan.id).count();
        let seen = look(&app.client(), fan.id).await;
        assert_eq!(seen.int("user.followingCount"), i64::try_from(his).unwrap());
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_who_follow_each_other_at_once_do_not_lock_each_other_out() {
    let app = TestApp::start().await;
    let people = app.users(10).await;
    let pairs = people
        .iter()
        .flat_map(|a| people.iter().map(move |b| (a, b)));
    let taps = pairs
        .filter(|(a, b)| a.id != b.id)
        .map(|(a, b)| (app.as_user(a), b.id));
    let taps: Vec<_> = taps.collect();
    for answer in join_all(taps.iter().map(|(a, b)| tap(a, "follow", *b))).await {
        answer.data();
    }
    for one in &people {
        let seen = look(&app.as_user(&people[0]), one.id).await;
        assert_eq!(seen.int("user.followerCount"), 9);
        assert_eq!(seen.int("user.followingCount"), 9);
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_two_follow_in_common_is_right_after_each_change_and_without_redis() {
    let mut redis = PrivateRedis::start().await;
    let app = TestApp::build()
        .on_redis(redis.url().to_owned())
        .start()
        .await;
    let people = app.users(8).await;
    let (ann, ben) = (app.as_user(&people[0]), app.as_user(&people[1]));
    let common =
        async |of: &Client, other: &TestUser| walk(of, other.id, "followsInCommon", 2).await;
    assert!(common(&ann, &people[1]).await.is_empty());
    for other in &people[2..7] {
        tap(&ann, "follow", other.id).await.data();
    }
    for other in &people[3..8] {
        tap(&ben, "follow", other.id).await.data();
    }
    let mut expected = ids(&people[3..7]);
    expected.reverse();
    assert_eq!(common(&ann, &people[1]).await, expected);
    assert_eq!(common(&ben, &people[0]).await, expected);
    assert!(common(&app.client(), &people[0]).await.is_empty());

    // The sets are there now; a change must not leave the old ones in use.
    tap(&ann, "unfollow", people[5].id).await.data();
    tap(&ben, "follow", people[2].id).await.data();
    let expected: Vec<_> = [6, 4, 3, 2].map(|i: usize| id_of(people[i].id)).into();
    assert_eq!(common(&ann, &people[1]).await, expected);

    // Sets that are lost are built again; one that holds what it should not shows that the sets are asked at all.
    let count = |key: String| {
        let mut command = deadpool_redis::redis::cmd("SCARD");
        command.arg(key);
        command
    };
    let key = app.redis().key(format!("follows:set:{}:6", people[0].id));
    let held: i64 = app.redis().query(&count(key.clone())).await.unwrap();
    assert_eq!(held, 4);
    app.redis()
        .query::<()>(deadpool_redis::redis::cmd("DEL").arg(&key))
        .await
        .unwrap();
    assert_eq!(common(&ann, &people[1]).await, expected);

    let (ann_id, ben_id) = (UserId(people[0].id), UserId(people[1].id));
    redis.kill9();
    let follows = &app.services().follows;
    let found = follows.in_common(ann_id, ben_id, None, 10).await.unwrap();
    let found: Vec<_> = found.iter().map(|user| id_of(user.0)).collect();
    assert_eq!(found, expected);
    let rest = follows
        .in_common(ann_id, ben_id, Some(UserId(people[4].id)), 10)
        .await
        .unwrap();
    assert_eq!(rest, [people[3].id, people[2].id].map(UserId));
    app.close().await;
}

/// People in bulk, all of whom two users follow.
async fn two_follow_very_many(app: &TestApp, first: i64, one: i64, other: i64) {
    let txn = app.db().begin().await.unwrap();
    let numbers: Vec<i64> = (first..first + MANY).collect();
    for numbers in numbers.chunks(1_000) {
        let rows = numbers.iter().map(|id| {
            let row = user::Model {
                id: *id,
                phone: format!("+1{:09}", id - first),
                nickname: "somebody".to_owned(),
                avatar_url: None,
                city: None,
                intro: None,
                gender: None,
                birthday: None,
                time_zone: None,
                role: user::Role::User,
                banned_at: None,
                created_at: id - first,
                updated_at: id - first,
                version: 1,
            };
            row.into_active_model()
        });
        user::Entity::insert_many(rows)
            .exec_without_returning(&txn)
            .await
            .unwrap();
    }
    for (place, follower) in [one, other].into_iter().enumerate() {
        let rows = format!(
            "INSERT INTO follows (id, follower_id, followee_id, seq, created_at) \
             SELECT id * 2 + {place}, {follower}, id, 1, created_at FROM users WHERE id >= {first} AND id < {}",
            first + MANY
        );
        txn.execute_unprepared(&rows).await.unwrap();
        let counts = follow_count::Model {
            user_id: follower,
            followers: 0,
            following: MANY,
            seq: 1,
        };
        follow_count::Entity::insert(counts.into_active_model())
            .exec_without_returning(&txn)
            .await
            .unwrap();
    }
    txn.commit().await.unwrap();
}

async fn very_many_follows(store: Store) {
    let app = TestApp::build().on(store).start().await;
    let people = app.users(3).await;
    let (one, other) = (&people[0], &people[1]);
    // Numbers as if they were made now: others are unknown until somebody reads the table as a whole.
    let first = app.services().infra().ids.next().unwrap();
    two_follow_very_many(&app, first, one.id, other.id).await;
    let viewer = app.as_user(one);
    assert_eq!(
        look(&viewer, other.id).await.int("user.followingCount"),
        MANY
    );

    // Pages from both ends of the list in common, and from its middle.
    let follows = &app.services().follows;
    let (a, b) = (UserId(one.id), UserId(other.id));
    let last = first + MANY - 1;
    for after in [None, Some(first + 35_000), Some(first + 10)] {
        let page = follows
            .in_common(a, b, after.map(UserId), 51)
            .await
            .unwrap();
        let begin = after.map_or(last, |after| after - 1);
        let expected: Vec<_> = (first..=begin).rev().take(51).map(UserId).collect();
        assert_eq!(page, expected);
    }
    let query = "query($user: ID!) { user(id: $user) {
        followsInCommon(first: 50) { edges { node { id isFollowedByViewer } } pageInfo { hasNextPage } }
        following(first: 50) { edges { node { id isMutual } } pageInfo { hasNextPage } } } }";
    let answer = viewer.gql(query, json!({ "user": id_of(other.id) })).await;
    for list in ["followsInCommon", "following"] {
        let edges = answer.list(&format!("user.{list}.edges"));
        assert_eq!(edges.len(), 50);
        assert_eq!(edges[0]["node"]["id"], id_of(last));
        assert_eq!(
            answer.at(&format!("user.{list}.pageInfo.hasNextPage")),
            true
        );
    }

    // As many in one question as there are.
    let all: Vec<UserId> = (first..first + MANY).map(UserId).collect();
    assert_eq!(
        follows.is_following(a, &all).await.unwrap().len(),
        all.len()
    );
    assert!(follows.followers_among(a, &all).await.unwrap().is_empty());
    // With somebody who follows few, and a change to the long list.
    let third = app.as_user(&people[2]);
    for user in [first + 3, first + 60_000] {
        tap(&third, "follow", user).await.data();
    }
    let found = follows.in_common(a, UserId(people[2].id), None, 10);
    assert_eq!(
        found.await.unwrap(),
        [first + 60_000, first + 3].map(UserId)
    );
    tap(&viewer, "unfollow", first + 3).await.data();
    let found = follows.in_common(a, UserId(people[2].id), None, 10);
    assert_eq!(found.await.unwrap(), [UserId(first + 60_000)]);
    let rows = follow::Entity::find().count(app.db()).await.unwrap();
    assert_eq!(rows, u64::try_from(2 * MANY + 1).unwrap());
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn seventy_thousand_follows_are_listed_and_compared_by_pages() {
    tokio::time::timeout(Duration::from_secs(120), very_many_follows(Store::MariaDb))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn seventy_thousand_follows_are_listed_and_compared_by_pages_on_sqlite_too() {
    tokio::time::timeout(Duration::from_secs(120), very_many_follows(Store::Sqlite))
        .await
        .unwrap();
}
