//! Waiting for a unit of a sold-out sale: in the order of joining, before everybody else, and never a unit too many.

use std::time::Duration;

use domain::infra::redis::Redis;
use entity::waiter;
use futures_util::future::join_all;
use sea_orm::{ConnectionTrait, EntityTrait};
use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::client::{Answer, Client};
use crate::support::people::TestUser;
use crate::support::sale::{TestSale, cancel, publish, seckill};
use crate::support::stores::Store;
use crate::support::wait::eventually;

/// Units are issued four times a second; the limit is only for a loaded machine.
const SOON: Duration = Duration::from_secs(10);

async fn join(client: &Client, voucher: &str) -> Answer {
    let query = "mutation($id: ID!) { joinWaitlist(input: { voucherId: $id }) { waitlistPosition refusal } }";
    client.gql(query, json!({ "id": voucher })).await
}

async fn position(client: &Client, voucher: &str) -> i64 {
    join(client, voucher)
        .await
        .int("joinWaitlist.waitlistPosition")
}

async fn refusal(client: &Client, voucher: &str) -> String {
    let answer = join(client, voucher).await;
    answer.text("joinWaitlist.refusal").to_owned()
}

async fn leave(client: &Client, voucher: &str) -> bool {
    let query = "mutation($id: ID!) { leaveWaitlist(input: { voucherId: $id }) { left } }";
    let answer = client.gql(query, json!({ "id": voucher })).await;
    answer.at("leaveWaitlist.left") == true
}

/// How often a user was told that a unit of the sale is theirs.
async fn times_told(client: &Client, sale: &TestSale) -> usize {
    let query = "{ viewer { notifications { edges { node { kind subject { id } } } } } }";
    let told = client.gql(query, Value::Null).await;
    let issued = json!({ "kind": "WAITLIST_ISSUED", "subject": { "id": sale.voucher } });
    let edges = told.list("viewer.notifications.edges");
    edges.iter().filter(|e| e["node"] == issued).count()
}

/// A user's newest order that can be paid, once they have been told of it.
async fn issued(client: &Client, sale: &TestSale) -> String {
    eventually(SOON, "a unit for the waiter", async || {
        if times_told(client, sale).await == 0 {
            return None;
        }
        let query =
            "{ viewer { orders(status: UNPAID) { edges { node { id voucher { id } } } } } }";
        let found = client.gql(query, Value::Null).await;
        let first = found.list("viewer.orders.edges").first()?["node"].clone();
        assert_eq!(first["voucher"]["id"], json!(sale.voucher));
        Some(first["id"].as_str().unwrap().to_owned())
    })
    .await
}

async fn waiting_in_redis(redis: &Redis, sale: &TestSale) -> i64 {
    let key = redis.key(format!("{{v:{}}}:meta", sale.voucher_id));
    let ask = deadpool_redis::redis::cmd("HGET")
        .arg(key)
        .arg("waiting")
        .to_owned();
    redis.query(&ask).await.unwrap()
}

/// Writes what is queued, where no worker does.
async fn write_all(app: &TestApp, sale: &TestSale) {
    let key = app.redis().key(format!("{{v:{}}}:outbox", sale.voucher_id));
    let ask = deadpool_redis::redis::cmd("HLEN").arg(key).to_owned();
    eventually(SOON, "the rows", async || {
        app.services().orders.sweep().await.unwrap();
        // The sentinel stays.
        app.redis().query::<i64>(&ask).await.unwrap() == 1
    })
    .await;
}

/// A sale of some units that are all taken, by users of its own.
async fn sold_out(app: &TestApp, units: u32) -> (TestSale, Vec<(Client, String)>) {
    let sale = app.sale().await.stock(u64::from(units)).create().await;
    let mut holders = Vec::new();
    for user in app.users(units).await {
        let buyer = app.as_user(&user);
        let order = seckill(&buyer, &sale.voucher, "r").await.accepted();
        holders.push((buyer, order));
    }
    (sale, holders)
}

async fn clients(app: &TestApp, count: u32) -> (Vec<TestUser>, Vec<Client>) {
    let users = app.users(count).await;
    let clients = users.iter().map(|user| app.as_user(user)).collect();
    (users, clients)
}

async fn a_unit_that_comes_back_goes_to_the_waiters_in_their_order(store: Store) {
    let app = TestApp::build().on(store);
    let app = app.config(|c| c.clicks_per_second = 1_000);
    let mut app = app.start().await;
    // Two processes with workers issue units at the same time.
    app.second_node().await;
    let (sale, holders) = sold_out(&app, 1).await;
    let (_, waiters) = clients(&app, 3).await;
    let (_, others) = clients(&app, 5).await;
    for (index, waiter) in waiters.iter().enumerate() {
        assert_eq!(position(waiter, &sale.voucher).await, index as i64 + 1);
    }
    assert_eq!(position(&waiters[1], &sale.voucher).await, 2, "a repeat");
    assert_eq!(waiting_in_redis(app.redis(), &sale).await, 3);

    let (mut holder, mut order) = holders.into_iter().next().unwrap();
    for (index, waiter) in waiters.iter().enumerate() {
        cancel(&holder, &order).await.data();
        // Whoever is not first gets nothing, however fast he is; nor does a waiter whose turn it is not.
        let rest = others.iter().chain(&waiters[index + 1..]);
        let clicks = rest.map(|other| seckill(other, &sale.voucher, "r"));
        for click in join_all(clicks).await {
            assert_eq!(click.kind(), "SoldOut");
        }
        order = issued(waiter, &sale).await;
        holder = waiter.clone();
        assert_eq!(
            seckill(&others[0], &sale.voucher, "s").await.kind(),
            "SoldOut"
        );
        // A node that has just said "sold out" to others may say it to him too, for half a second.
        eventually(SOON, "his own order", async || {
            let click = seckill(waiter, &sale.voucher, "mine").await;
            (click.kind(), click.order()) == ("AlreadyOrdered", Some(&*order))
        })
        .await;
    }
    for waiter in &waiters {
        assert_eq!(times_told(waiter, &sale).await, 1);
    }
    // Nobody waits any more: the unit is everybody's again.
    eventually(SOON, "the end of the list", async || {
        waiting_in_redis(app.redis(), &sale).await == 0
    })
    .await;
    cancel(&holder, &order).await.data();
    eventually(SOON, "a unit for anybody", async || {
        seckill(&others[0], &sale.voucher, "t").await.is_accepted()
    })
    .await;
    assert_eq!(waiter::Entity::find().all(app.db()).await.unwrap(), []);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_unit_that_comes_back_goes_to_the_waiters_in_their_order_on_mariadb() {
    a_unit_that_comes_back_goes_to_the_waiters_in_their_order(Store::MariaDb).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_unit_that_comes_back_goes_to_the_waiters_in_their_order_on_sqlite() {
    a_unit_that_comes_back_goes_to_the_waiters_in_their_order(Store::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_unit_that_comes_back_goes_to_the_waiters_in_their_order_on_postgres() {
    a_unit_that_comes_back_goes_to_the_waiters_in_their_order(Store::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn units_that_are_added_go_to_waiters_first_and_the_rest_to_everybody() {
    let app = TestApp::start().await;
    let (sale, _) = sold_out(&app, 2).await;
    let (_, waiters) = clients(&app, 20).await;
    let positions = join_all(waiters.iter().map(|w| position(w, &sale.voucher))).await;
    let mut sorted = positions.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, (1..=20).collect::<Vec<_>>(), "no place twice");

    let adjust = "mutation($input: AdjustVoucherStockInput!) { adjustVoucherStock(input: $input) { sale { total } } }";
    let input = json!({ "input": { "voucherId": sale.voucher, "total": 25 } });
    app.as_user(&sale.merchant).gql(adjust, input).await.data();
    for waiter in &waiters {
        issued(waiter, &sale).await;
    }
    let (_, others) = clients(&app, 4).await;
    let clicks = join_all(others.iter().map(|o| seckill(o, &sale.voucher, "r"))).await;
    let taken = clicks.iter().filter(|c| c.is_accepted()).count();
    assert_eq!(taken, 3);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_a_running_sale_that_is_sold_out_has_a_waiting_list() {
    let app = TestApp::start().await;
    let (_, people) = clients(&app, 2).await;
    let announced = app
        .sale()
        .await
        .opens_in(Duration::from_secs(600))
        .create()
        .await;
    assert_eq!(refusal(&people[0], &announced.voucher).await, "NOT_RUNNING");
    let free = app.sale().await.stock(1).create().await;
    assert_eq!(refusal(&people[0], &free.voucher).await, "NOT_SOLD_OUT");
    let draft = app.sale().await.draft().create().await;
    join(&people[0], &draft.voucher)
        .await
        .expect_code("NOT_FOUND");
    publish(&app.as_user(&draft.merchant), &draft.voucher)
        .await
        .data();

    let (sale, holders) = sold_out(&app, 1).await;
    assert_eq!(
        refusal(&holders[0].0, &sale.voucher).await,
        "ALREADY_ORDERED"
    );
    assert!(!leave(&people[0], &sale.voucher).await);
    assert_eq!(position(&people[0], &sale.voucher).await, 1);
    assert_eq!(position(&people[1], &sale.voucher).await, 2);
    assert!(leave(&people[0], &sale.voucher).await);
    assert!(!leave(&people[0], &sale.voucher).await);
    assert_eq!(position(&people[1], &sale.voucher).await, 1);
    assert_eq!(waiting_in_redis(app.redis(), &sale).await, 1);
    assert!(leave(&people[1], &sale.voucher).await);
    assert_eq!(waiting_in_redis(app.redis(), &sale).await, 0);
    let end = "mutation($id: ID!) { endVoucher(input: { voucherId: $id }) { sale { state } } }";
    let id = json!({ "id": sale.voucher });
    app.as_user(&sale.merchant).gql(end, id).await.data();
    assert_eq!(refusal(&people[0], &sale.voucher).await, "NOT_RUNNING");
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recovered_sale_still_keeps_its_units_for_the_waiters() {
    let app = TestApp::build().without_workers().start().await;
    let (sale, holders) = sold_out(&app, 2).await;
    let (_, people) = clients(&app, 3).await;
    for waiter in &people[..2] {
        position(waiter, &sale.voucher).await;
    }
    write_all(&app, &sale).await;
    for part in ["meta", "stock"] {
        let key = app.redis().key(format!("{{v:{}}}:{part}", sale.voucher_id));
        let gone = deadpool_redis::redis::cmd("DEL").arg(key).to_owned();
        app.redis().query::<i64>(&gone).await.unwrap();
    }
    app.services().orders.look_after_sales().await.unwrap();
    assert_eq!(waiting_in_redis(app.redis(), &sale).await, 2);

    // A length that Redis was told wrong is told again.
    let key = app.redis().key(format!("{{v:{}}}:meta", sale.voucher_id));
    let wrong = deadpool_redis::redis::cmd("HSET")
        .arg(key)
        .arg("waiting")
        .arg(9)
        .to_owned();
    app.redis().query::<i64>(&wrong).await.unwrap();
    app.services().orders.call_waiters().await.unwrap();
    assert_eq!(waiting_in_redis(app.redis(), &sale).await, 2);

    let (holder, order) = &holders[0];
    cancel(holder, order).await.data();
    app.services().orders.give_back_due().await.unwrap();
    assert_eq!(
        seckill(&people[2], &sale.voucher, "r").await.kind(),
        "SoldOut"
    );
    assert_eq!(app.services().orders.call_waiters().await.unwrap(), 1);
    assert_eq!(times_told(&people[0], &sale).await, 1);
    assert_eq!(times_told(&people[1], &sale).await, 0);
    assert_eq!(waiting_in_redis(app.redis(), &sale).await, 1);
    app.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_was_cut_off_is_repeated_without_a_second_unit_or_word() {
    let app = TestApp::build().without_workers().start().await;
    let (sale, holders) = sold_out(&app, 2).await;
    let (_, people) = clients(&app, 1).await;
    position(&people[0], &sale.voucher).await;
    let orders = &app.services().orders;
    write_all(&app, &sale).await;
    for (holder, order) in &holders {
        cancel(holder, order).await.data();
    }
    orders.give_back_due().await.unwrap();
    assert_eq!(orders.call_waiters().await.unwrap(), 1);
    // As if the process had died before it wrote down whom it had called.
    let forget = "UPDATE waiters SET status = 'WAITING', order_id = NULL";
    app.db().execute_unprepared(forget).await.unwrap();
    assert_eq!(orders.call_waiters().await.unwrap(), 1);
    assert_eq!(times_told(&people[0], &sale).await, 1);
    write_all(&app, &sale).await;
    orders.call_waiters().await.unwrap();
    let listed = "{ viewer { orders { edges { node { status } } } } }";
    let listed = people[0].gql(listed, Value::Null).await;
    assert_eq!(listed.list("viewer.orders.edges").len(), 1);
    assert_eq!(waiter::Entity::find().all(app.db()).await.unwrap(), []);
    app.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_whose_order_was_rejected_is_called_again_at_his_place() {
    let app = TestApp::build().without_workers().start().await;
    let (sale, holders) = sold_out(&app, 1).await;
    let (_, people) = clients(&app, 2).await;
    position(&people[0], &sale.voucher).await;
    let orders = &app.services().orders;
    write_all(&app, &sale).await;
    cancel(&holders[0].0, &holders[0].1).await.data();
    orders.give_back_due().await.unwrap();
    assert_eq!(orders.call_waiters().await.unwrap(), 1);
    position(&people[1], &sale.voucher).await;
    // His order is written in an epoch that is over, and so rejected.
    let epoch = "UPDATE sales SET epoch = epoch + 1, announced = announced + 1";
    app.db().execute_unprepared(epoch).await.unwrap();
    write_all(&app, &sale).await;
    orders.look_after_sales().await.unwrap();
    orders.give_back_due().await.unwrap();
    eventually(SOON, "a second call", async || {
        orders.call_waiters().await.unwrap() == 1
    })
    .await;
    write_all(&app, &sale).await;
    let order = issued(&people[0], &sale).await;
    assert_eq!(times_told(&people[0], &sale).await, 2);
    assert_eq!(times_told(&people[1], &sale).await, 0);
    cancel(&people[0], &order).await.data();
    app.close().await;
}
