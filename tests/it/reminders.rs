//! Reminders: a little before a sale begins, once for its beginning, whoever dies, and also when that moves.

use std::time::Duration;

use sea_orm::ConnectionTrait;
use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::client::{Answer, Client};
use crate::support::subscription::Subscription;
use crate::support::wait::eventually;

/// Sales are looked at every 2 s; the limit is only for a loaded machine.
const SOON: Duration = Duration::from_secs(10);
const MINUTE: Duration = Duration::from_secs(60);

async fn remind(client: &Client, voucher: &str) -> Answer {
    let query = "mutation($id: ID!) { remindMe(input: { voucherId: $id }) { remindAt refusal } }";
    client.gql(query, json!({ "id": voucher })).await
}

async fn cancel(client: &Client, voucher: &str) -> bool {
    let query = "mutation($id: ID!) { cancelReminder(input: { voucherId: $id }) { cancelled } }";
    let answer = client.gql(query, json!({ "id": voucher })).await;
    answer.at("cancelReminder.cancelled") == true
}

/// Vouchers of whose beginning a user was told, the latest first.
async fn told(client: &Client) -> Vec<Value> {
    let query = "{ viewer { notifications { edges { node { kind subject { id } } } } } }";
    let told = client.gql(query, Value::Null).await;
    let of = |edge: &Value| {
        assert_eq!(edge["node"]["kind"], "SALE_STARTING");
        edge["node"]["subject"]["id"].clone()
    };
    told.list("viewer.notifications.edges")
        .iter()
        .map(of)
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_who_asked_are_told_live_once_before_the_beginning_by_several_processes() {
    let mut app = TestApp::start().await;
    let second = app.second_node().await;
    let sale = app.sale().await.opens_in(10 * MINUTE).create().await;
    let later = app.sale().await.opens_in(60 * MINUTE);
    let later = later.ends_in(120 * MINUTE).create().await;
    let users = app.users(3).await;
    let people: Vec<Client> = users.iter().map(|u| app.as_user(u)).collect();
    for person in &people {
        for _ in 0..2 {
            let noted = remind(person, &sale.voucher).await;
            assert!(noted.at("remindMe.remindAt").is_string(), "{}", noted.body);
            remind(person, &later.voucher).await.data();
        }
    }
    assert!(cancel(&people[2], &sale.voucher).await);
    assert!(!cancel(&people[2], &sale.voucher).await);
    let query = "subscription { notificationReceived { kind subject { id } } }";
    let mut live = Subscription::open(&second.as_user(&users[0]), query, Value::Null).await;
    let heard = live.event(Duration::from_secs(3)).await;
    assert_eq!(heard, crate::support::subscription::Event::Silence);
    assert_eq!(told(&people[0]).await, [] as [Value; 0]);

    app.shift_clocks(5 * MINUTE + Duration::from_secs(1));
    let heard = live.next(SOON).await;
    let wanted = json!({ "kind": "SALE_STARTING", "subject": { "id": sale.voucher } });
    assert_eq!(heard["notificationReceived"], wanted);
    eventually(SOON, "the other reminder", async || {
        !told(&people[1]).await.is_empty()
    })
    .await;
    // A process that starts now does not tell again, nor do those that go on.
    app.second_node().await;
    app.services().reminders.remind_due().await.unwrap();
    for person in &people[..2] {
        assert_eq!(told(person).await, [json!(sale.voucher)]);
    }
    assert_eq!(told(&people[2]).await, [] as [Value; 0]);
    live.stop().await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reminder_moves_with_the_beginning_and_comes_late_rather_than_never() {
    let app = TestApp::build().without_workers().start().await;
    let sale = app.sale().await.opens_in(10 * MINUTE).create().await;
    let person = app.as_user(&app.user().await);
    remind(&person, &sale.voucher).await.data();
    let reminders = &app.services().reminders;
    let move_by = |ms: i64| format!("UPDATE sales SET begin_ms = begin_ms + {ms}");
    app.db()
        .execute_unprepared(&move_by(600_000))
        .await
        .unwrap();
    app.shift_clocks(6 * MINUTE);
    assert_eq!(reminders.remind_due().await.unwrap(), 0);
    app.db()
        .execute_unprepared(&move_by(-600_000))
        .await
        .unwrap();
    assert_eq!(reminders.remind_due().await.unwrap(), 1);
    assert_eq!(reminders.remind_due().await.unwrap(), 0);
    // Another beginning is news.
    app.db().execute_unprepared(&move_by(30_000)).await.unwrap();
    assert_eq!(reminders.remind_due().await.unwrap(), 1);
    assert_eq!(told(&person).await.len(), 2);
    // As if nobody had told before: the reminder is late, but the sale is still on.
    let again = "UPDATE reminders SET told_begin_ms = 1";
    app.db().execute_unprepared(again).await.unwrap();
    app.shift_clocks(6 * MINUTE);
    assert_eq!(reminders.remind_due().await.unwrap(), 1);
    assert_eq!(
        told(&person).await.len(),
        2,
        "the same beginning is told once"
    );
    app.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_a_sale_to_come_has_reminders() {
    let app = TestApp::start().await;
    let person = app.as_user(&app.user().await);
    let running = app.sale().await.create().await;
    let answer = remind(&person, &running.voucher).await;
    assert_eq!(answer.text("remindMe.refusal"), "ALREADY_STARTED");
    let draft = app.sale().await.opens_in(MINUTE).draft().create().await;
    remind(&person, &draft.voucher)
        .await
        .expect_code("NOT_FOUND");
    let unknown = schema::scalars::global_id("Voucher", 1).0;
    remind(&person, &unknown).await.expect_code("NOT_FOUND");
    app.finish().await;
}
