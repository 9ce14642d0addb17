//! Notifications: told once an event, live on every node, read up to a mark, bounded; and nobody sees another's.

use std::time::Duration;

use domain::notifications::{KEPT, NewNotification, NotificationKind};
use domain::users::UserId;
use entity::notification;
use futures_util::future::join_all;
use sea_orm::{ColumnTrait, EntityTrait, PaginatorTrait, QueryFilter};
use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::client::Client;
use crate::support::people::TestUser;
use crate::support::stores::Store;
use crate::support::subscription::{Event, Subscription};
use crate::support::wait::eventually;

const SOON: Duration = Duration::from_secs(5);
/// Lost events are made good within 2 s.
const REPAIRED: Duration = Duration::from_secs(7);
const RECEIVED: &str = "subscription { notificationReceived { id kind text isRead } }";

fn news(user: &TestUser, key: &str) -> NewNotification {
    NewNotification {
        user: UserId(user.id),
        kind: NotificationKind::BlogLiked,
        actor: None,
        subject: "blog:1".to_owned(),
        text: Some(key.to_owned()),
        key: key.to_owned(),
    }
}

async fn tell(app: &TestApp, user: &TestUser, key: &str) {
    let told = app.services().notifications.notify(news(user, key));
    told.await.unwrap();
}

/// Texts of a user's notifications, newest first, page by page, and how many are unread.
async fn list(client: &Client) -> (Vec<String>, i64) {
    let query = "query($after: String) { viewer { unreadNotificationCount notifications(first: 7, after: $after) {
        edges { node { text } } pageInfo { hasNextPage endCursor } } } }";
    let (mut texts, mut after) = (Vec::new(), Value::Null);
    loop {
        let answer = client.gql(query, json!({ "after": after })).await;
        let edges = answer.list("viewer.notifications.edges");
        texts.extend(
            edges
                .iter()
                .map(|e| e["node"]["text"].as_str().unwrap().to_owned()),
        );
        if answer.at("viewer.notifications.pageInfo.hasNextPage") != true {
            return (texts, answer.int("viewer.unreadNotificationCount"));
        }
        after = answer.at("viewer.notifications.pageInfo.endCursor").clone();
    }
}

async fn mark(client: &Client, up_to: Value) -> i64 {
    let query = "mutation($id: ID) { markNotificationsRead(input: { upTo: $id }) { unreadNotificationCount } }";
    let answer = client.gql(query, json!({ "id": up_to })).await;
    answer.int("markNotificationsRead.unreadNotificationCount")
}

/// A subscription that is known to run: what is written after this is told.
async fn listen(app: &TestApp, client: &Client, user: &TestUser) -> Subscription {
    let mut told = Subscription::open(client, RECEIVED, Value::Null).await;
    let mut probes = 0;
    loop {
        probes += 1;
        tell(
            app,
            user,
            &format!("probe {probes} of {}", client.base_url()),
        )
        .await;
        if let Event::Data(data) = told.event(Duration::from_millis(300)).await {
            let last = format!("probe {probes} of {}", client.base_url());
            if data["notificationReceived"]["text"] != last {
                told.until(SOON, |data| data["notificationReceived"]["text"] == last)
                    .await;
            }
            return told;
        }
    }
}

async fn parallel_events_are_told_once_each_in_one_order(store: Store) {
    const EVENTS: usize = 40;
    let mut app = TestApp::build().on(store).start().await;
    let second = app.second_node().await;
    let user = app.user().await;
    let mut here = listen(&app, &app.as_user(&user), &user).await;
    let mut there = listen(&app, &second.as_user(&user), &user).await;
    let (before, _) = list(&app.as_user(&user)).await;

    let services = app.services().clone();
    let telling = (0..EVENTS * 2).map(|n| {
        let (services, news) = (services.clone(), news(&user, &format!("e{}", n % EVENTS)));
        tokio::spawn(async move { services.notifications.notify(news).await.unwrap() })
    });
    join_all(telling).await;

    let (mut listed, unread) = list(&app.as_user(&user)).await;
    listed.truncate(listed.len() - before.len());
    listed.reverse();
    assert_eq!(listed.len(), EVENTS, "{listed:?}");
    assert_eq!(unread, (EVENTS + before.len()) as i64);
    // The first listener also heard the probes of the second.
    let last = listed.last().unwrap().clone();
    for told in [&mut here, &mut there] {
        let heard = told.until(SOON, |data| {
            data["notificationReceived"]["text"] == last.as_str()
        });
        let heard: Vec<_> = heard
            .await
            .iter()
            .map(|data| {
                data["notificationReceived"]["text"]
                    .as_str()
                    .unwrap()
                    .to_owned()
            })
            .filter(|text| !text.starts_with("probe"))
            .collect();
        assert_eq!(heard, listed);
    }
    here.stop().await;
    there.stop().await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parallel_events_are_told_once_each_in_one_order_on_mariadb() {
    parallel_events_are_told_once_each_in_one_order(Store::MariaDb).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parallel_events_are_told_once_each_in_one_order_on_sqlite() {
    parallel_events_are_told_once_each_in_one_order(Store::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parallel_events_are_told_once_each_in_one_order_on_postgres() {
    parallel_events_are_told_once_each_in_one_order(Store::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mark_counts_for_all_before_it_never_goes_back_and_is_for_own_ones_only() {
    let app = TestApp::start().await;
    let users = app.users(2).await;
    let (owner, other) = (app.as_user(&users[0]), app.as_user(&users[1]));
    for key in ["1", "2", "3", "4"] {
        tell(&app, &users[0], key).await;
    }
    let query = "{ viewer { notifications { edges { node { id text isRead actor { id } subject { id } kind createdAt } } } } }";
    let listed = owner.gql(query, Value::Null).await;
    let ids: Vec<Value> = listed
        .list("viewer.notifications.edges")
        .iter()
        .map(|e| e["node"]["id"].clone())
        .collect();
    assert_eq!(mark(&owner, ids[1].clone()).await, 1);
    assert_eq!(mark(&owner, ids[1].clone()).await, 1);
    assert_eq!(mark(&owner, ids[3].clone()).await, 1, "a mark went back");
    let read: Vec<bool> = owner
        .gql(query, Value::Null)
        .await
        .list("viewer.notifications.edges")
        .iter()
        .map(|e| e["node"]["isRead"].as_bool().unwrap())
        .collect();
    assert_eq!(read, [false, true, true, true]);

    let foreign = "mutation($id: ID) { markNotificationsRead(input: { upTo: $id }) { unreadNotificationCount } }";
    let answer = other.gql(foreign, json!({ "id": ids[0] })).await;
    answer.expect_code("NOT_FOUND");
    let node = "query($id: ID!) { node(id: $id) { id } }";
    let answer = other.gql(node, json!({ "id": ids[0] })).await;
    assert_eq!(answer.at("node"), &Value::Null);
    let answer = owner.gql(node, json!({ "id": ids[0] })).await;
    assert_eq!(answer.at("node.id"), &ids[0]);
    assert_eq!(list(&other).await, (vec![], 0));
    assert_eq!(mark(&owner, Value::Null).await, 0);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_brought_it_about_and_what_it_is_about_are_told_and_null_once_gone() {
    let app = TestApp::start().await;
    let sale = app.sale().await.create().await;
    let users = app.users(2).await;
    for (key, subject) in [
        ("there", format!("voucher:{}", sale.voucher_id)),
        ("gone", "voucher:1".to_owned()),
    ] {
        let told = NewNotification {
            kind: NotificationKind::SaleStarting,
            actor: Some(UserId(users[1].id)),
            subject,
            text: Some("字".repeat(300)),
            ..news(&users[0], key)
        };
        app.services().notifications.notify(told).await.unwrap();
    }
    let query = "{ viewer { notifications { edges { node { kind text actor { nickname } subject { id __typename } } } } } }";
    let listed = app.as_user(&users[0]).gql(query, Value::Null).await;
    let edges = listed.list("viewer.notifications.edges");
    assert_eq!(edges[0]["node"]["subject"], Value::Null);
    assert_eq!(
        edges[1]["node"]["subject"],
        json!({ "id": sale.voucher, "__typename": "Voucher" })
    );
    assert_eq!(edges[1]["node"]["kind"], "SALE_STARTING");
    assert_eq!(edges[1]["node"]["text"], "字".repeat(200));
    assert!(edges[1]["node"]["actor"]["nickname"].is_string());
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_newest_thousand_are_kept() {
    let app = TestApp::start().await;
    let user = app.user().await;
    tell(&app, &user, "first").await;
    // As if nearly all had come already.
    let boxes = "UPDATE notification_boxes SET last_seq = 999 WHERE user_id > 0";
    sea_orm::ConnectionTrait::execute_unprepared(app.db(), boxes)
        .await
        .unwrap();
    tell(&app, &user, "thousandth").await;
    let client = app.as_user(&user);
    assert_eq!(
        list(&client).await,
        (vec!["thousandth".into(), "first".into()], KEPT)
    );
    tell(&app, &user, "one more").await;
    assert_eq!(
        list(&client).await,
        (vec!["one more".into(), "thousandth".into()], KEPT)
    );
    let kept = notification::Entity::find()
        .filter(notification::Column::UserId.eq(user.id))
        .count(app.db());
    assert_eq!(kept.await.unwrap(), 2);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_written_without_an_event_is_heard_all_the_same() {
    let app = TestApp::start().await;
    let user = app.user().await;
    let mut told = listen(&app, &app.as_user(&user), &user).await;
    let last = notification::Entity::find()
        .all(app.db())
        .await
        .unwrap()
        .into_iter()
        .max_by_key(|n| n.seq)
        .unwrap();
    let seq = last.seq + 1;
    let silent = notification::Model {
        id: app.services().infra().ids.next().unwrap(),
        seq,
        text: Some("silent".to_owned()),
        once_key: "silent".to_owned(),
        ..last
    };
    let row = sea_orm::ActiveModelTrait::reset_all(notification::ActiveModel::from(silent));
    notification::Entity::insert(row)
        .exec_without_returning(app.db())
        .await
        .unwrap();
    let grow = format!("UPDATE notification_boxes SET last_seq = {seq}");
    sea_orm::ConnectionTrait::execute_unprepared(app.db(), &grow)
        .await
        .unwrap();
    let heard = told.next(REPAIRED).await;
    assert_eq!(heard["notificationReceived"]["text"], "silent");
    told.stop().await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_needs_a_session_and_ends_with_it() {
    let app = TestApp::start().await;
    let mut nobody = Subscription::open(&app.client(), RECEIVED, Value::Null).await;
    let Event::Errors(errors) = nobody.event(SOON).await else {
        panic!("notifications were told to nobody");
    };
    assert!(errors.to_string().contains("UNAUTHENTICATED"), "{errors}");

    let users = app.users(2).await;
    let mut told = listen(&app, &app.as_user(&users[0]), &users[0]).await;
    tell(&app, &users[1], "another's").await;
    tell(&app, &users[0], "own").await;
    assert_eq!(told.next(SOON).await["notificationReceived"]["text"], "own");
    let logout = "mutation { logout(input: {}) { loggedOut } }";
    app.as_user(&users[0]).gql(logout, Value::Null).await.data();
    eventually(REPAIRED, "the end of the stream", async || {
        matches!(told.event(SOON).await, Event::Closed(4403))
    })
    .await;
    app.finish().await;
}
