//! Books of a sale that are out of order, and what mends them: nobody loses a unit, and nobody gets one too many.

use std::collections::BTreeMap;
use std::time::Duration;

use deadpool_redis::redis::cmd;
use domain::infra::bus::Delivery;
use domain::orders::recovery::Recovered;
use entity::sale::SaleStage;
use entity::{dead_letter, giveback, order, order_reject, sale};
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, PaginatorTrait, QueryFilter};
use serde_json::json;

use crate::support::app::TestApp;
use crate::support::client::Client;
use crate::support::private::{PrivateKafka, PrivateRedis};
use crate::support::sale::{TestSale, cancel, order as read_order, sandbox_pay, seckill};
use crate::support::wait::eventually;

const LIMIT: Duration = Duration::from_secs(20);

/// The name of one of a sale's keys.
fn key(app: &TestApp, sale: &TestSale, part: &str) -> String {
    app.redis().key(format!("{{v:{}}}:{part}", sale.voucher_id))
}

/// What the outbox holds beside its sentinel, in the order of the orders' ids.
async fn outbox(app: &TestApp, sale: &TestSale) -> BTreeMap<String, String> {
    let mut all: BTreeMap<String, String> = app
        .redis()
        .query(cmd("HGETALL").arg(key(app, sale, "outbox")))
        .await
        .unwrap();
    all.remove("epoch");
    all
}

async fn set(app: &TestApp, sale: &TestSale, part: &str, field: &str, value: &str) {
    let key = key(app, sale, part);
    app.redis()
        .query::<i64>(cmd("HSET").arg(key).arg(field).arg(value))
        .await
        .unwrap();
}

/// A sale with buyers who were accepted, and the orders they were told, in the order of their clicks.
async fn sold(app: &TestApp, buyers: u32) -> (TestSale, Vec<(Client, String)>) {
    let sale = app.sale().await.stock(10).create().await;
    let mut orders = Vec::new();
    for user in app.users(buyers).await {
        let buyer = app.as_user(&user);
        let order = seckill(&buyer, &sale.voucher, "r1").await.accepted();
        orders.push((buyer, order));
    }
    (sale, orders)
}

async fn stock(app: &TestApp, sale: &TestSale) -> i64 {
    let books = app.services().orders.books(sale.voucher_id).await.unwrap();
    books.stock.unwrap()
}

/// Lets the sweeper run until the outbox holds so many entries.
async fn sweep_until(app: &TestApp, sale: &TestSale, entries: usize) {
    eventually(LIMIT, "the sweep", async || {
        app.services().orders.sweep().await.unwrap();
        outbox(app, sale).await.len() == entries
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sale_that_is_open_already_keeps_its_orders_when_it_is_opened_again() {
    let app = TestApp::build().without_workers().start().await;
    let (sale, bought) = sold(&app, 1).await;
    app.redis()
        .query::<i64>(cmd("DEL").arg(key(&app, &sale, "meta")))
        .await
        .unwrap();
    let opened = app.services().orders.open_sale(sale.voucher_id).await;
    assert_eq!(opened.unwrap(), Recovered::Installed);
    let (buyer, order) = &bought[0];
    assert_eq!(read_order(buyer, order).await["status"], "UNPAID");
    assert_eq!(stock(&app, &sale).await, 9);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outbox_that_is_none_is_mended_and_the_other_sales_are_swept() {
    let app = TestApp::build().without_workers().start().await;
    let (broken, bought) = sold(&app, 1).await;
    let (whole, _) = sold(&app, 2).await;
    sweep_until(&app, &broken, 0).await;
    let name = key(&app, &broken, "outbox");
    app.redis()
        .query::<i64>(cmd("DEL").arg(&name))
        .await
        .unwrap();
    app.redis()
        .query::<String>(cmd("SET").arg(&name).arg("x"))
        .await
        .unwrap();
    sweep_until(&app, &whole, 0).await;
    let orders = &app.services().orders;
    assert_eq!(orders.look_after_sales().await.unwrap(), 1);
    assert!(!orders.books(broken.voucher_id).await.unwrap().is_damaged());
    let (buyer, order) = &bought[0];
    assert_eq!(read_order(buyer, order).await["status"], "UNPAID");
    app.finish().await;
}

/// Of five orders one cannot be read, one was written by a later version, one has its row, and one field is no order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_that_cannot_be_read_is_rejected_by_the_database_before_its_unit_goes_back() {
    let app = TestApp::build().without_workers().start().await;
    let (sale, bought) = sold(&app, 3).await;
    let orders = &app.services().orders;
    let entries: Vec<_> = outbox(&app, &sale).await.into_iter().collect();
    let delivery = Delivery {
        payload: entries[2].1.clone().into_bytes(),
        position: None,
    };
    assert_eq!(orders.write(&[delivery]).await.unwrap().inserted, 1);
    let later = entries[1].1.replace(r#""v":1"#, r#""v":2"#);
    set(&app, &sale, "outbox", &entries[0].0, "{").await;
    set(&app, &sale, "outbox", &entries[1].0, &later).await;
    set(&app, &sale, "outbox", &entries[2].0, "{").await;
    set(&app, &sale, "outbox", "nonsense", "{").await;
    sweep_until(&app, &sale, 1).await;
    assert_eq!(outbox(&app, &sale).await[&entries[1].0], later);
    assert_eq!(
        dead_letter::Entity::find().count(app.db()).await.unwrap(),
        3,
        "each is buried once"
    );
    let statuses = [
        read_order(&bought[0].0, &bought[0].1).await["status"].clone(),
        read_order(&bought[1].0, &bought[1].1).await["status"].clone(),
        read_order(&bought[2].0, &bought[2].1).await["status"].clone(),
    ];
    assert_eq!(statuses, ["REJECTED", "QUEUED", "UNPAID"]);
    assert_eq!(stock(&app, &sale).await, 7, "no unit has gone back yet");
    assert_eq!(orders.give_back_due().await.unwrap(), 1);
    assert_eq!(stock(&app, &sale).await, 8);
    // The later version would have written it.
    set(&app, &sale, "outbox", &entries[1].0, &entries[1].1).await;
    sweep_until(&app, &sale, 0).await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_trouble_of_one_sale_does_not_keep_the_others_from_being_swept() {
    let app = TestApp::build().without_workers().start().await;
    let (broken, _) = sold(&app, 1).await;
    let (whole, bought) = sold(&app, 1).await;
    let entry = outbox(&app, &broken).await.into_iter().next().unwrap();
    set(&app, &broken, "outbox", &entry.0, "{").await;
    let currency = async |code: &str| {
        sale::Entity::update_many()
            .col_expr(sale::Column::Currency, Expr::value(code))
            .filter(sale::Column::VoucherId.eq(broken.voucher_id.0))
            .exec(app.db())
            .await
            .unwrap();
    };
    currency("QQQ").await;
    sweep_until(&app, &whole, 0).await;
    let (buyer, order) = &bought[0];
    assert_eq!(read_order(buyer, order).await["status"], "UNPAID");
    assert_eq!(outbox(&app, &broken).await.len(), 1, "nothing is lost");
    currency("CNY").await;
    sweep_until(&app, &broken, 0).await;
    assert_eq!(
        app.services().orders.give_back_due().await.unwrap(),
        1,
        "the unit of the rejected order"
    );
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_that_a_constraint_refuses_is_buried_once_and_keeps_its_unit() {
    let app = TestApp::build().without_workers().start().await;
    let (sale, _) = sold(&app, 3).await;
    let payloads = outbox(&app, &sale).await;
    let refused = payloads.keys().next().unwrap().clone();
    let run = async |statement: &str| app.db().execute_unprepared(statement).await.unwrap();
    run(&format!(
        "ALTER TABLE orders ADD CONSTRAINT ck_orders_test CHECK (id <> {refused})"
    ))
    .await;
    let batch: Vec<_> = payloads
        .values()
        .map(|payload| Delivery {
            payload: payload.clone().into_bytes(),
            position: None,
        })
        .collect();
    let orders = &app.services().orders;
    for _ in 0..2 {
        assert_eq!(orders.write(&batch).await.unwrap().dead, 1);
    }
    assert_eq!(order::Entity::find().count(app.db()).await.unwrap(), 2);
    assert_eq!(
        dead_letter::Entity::find().count(app.db()).await.unwrap(),
        1
    );
    assert_eq!(
        outbox(&app, &sale).await.keys().collect::<Vec<_>>(),
        [&refused],
        "without row or reject the entry is all there is of it"
    );
    run("ALTER TABLE orders DROP CONSTRAINT ck_orders_test").await;
    sweep_until(&app, &sale, 0).await;
    assert_eq!(order::Entity::find().count(app.db()).await.unwrap(), 3);
    assert_eq!(
        order_reject::Entity::find().count(app.db()).await.unwrap(),
        0
    );
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_giveback_in_an_epoch_that_the_database_does_not_know_comes_later() {
    let app = TestApp::build().without_workers().start().await;
    let (sale, bought) = sold(&app, 1).await;
    let (buyer, order) = &bought[0];
    cancel(buyer, order).await.data();
    for part in ["meta", "outbox", "attempts"] {
        set(&app, &sale, part, "epoch", "99").await;
    }
    let orders = &app.services().orders;
    assert_eq!(orders.give_back_due().await.unwrap(), 0);
    let waiting = giveback::Entity::find().one(app.db()).await.unwrap();
    let waiting = waiting.unwrap();
    assert_eq!(waiting.attempts, 1);
    assert!(
        waiting.next_at > waiting.created_at,
        "it lets others go first"
    );
    assert_eq!(orders.look_after_sales().await.unwrap(), 1);
    eventually(LIMIT, "the giveback", async || {
        orders.give_back_due().await.unwrap() == 1
    })
    .await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_buyer_whose_price_cannot_be_read_hears_of_his_unit_all_the_same() {
    let app = TestApp::build().without_workers().start().await;
    let sale = app.sale().await.create().await;
    let buyer = app.as_user(&app.user().await);
    set(&app, &sale, "meta", "currency", "QQQ").await;
    let first = seckill(&buyer, &sale.voucher, "r1").await;
    assert_eq!(first.kind(), "SeckillPending");
    let again = seckill(&buyer, &sale.voucher, "r1").await;
    assert_eq!(again.kind(), "SeckillPending");
    assert_eq!(again.order(), first.order());
    assert_eq!(stock(&app, &sale).await, 9);
    set(&app, &sale, "meta", "currency", "CNY").await;
    let (id, payload) = outbox(&app, &sale).await.into_iter().next().unwrap();
    set(&app, &sale, "outbox", &id, &payload.replace("QQQ", "CNY")).await;
    sweep_until(&app, &sale, 0).await;
    let order = first.order().unwrap();
    assert_eq!(read_order(&buyer, order).await["status"], "UNPAID");
    assert_eq!(seckill(&buyer, &sale.voucher, "r1").await.accepted(), order);
    app.finish().await;
}

/// How many connections this Redis has taken so far; a look of the gauge takes one of its own.
async fn connections(redis: &PrivateRedis) -> u64 {
    let info: String = cmd("INFO")
        .arg("stats")
        .query_async(&mut redis.connection().await)
        .await
        .unwrap();
    let line = info
        .lines()
        .find_map(|line| line.strip_prefix("total_connections_received:"));
    line.unwrap().trim().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clicks_on_vouchers_that_nobody_made_wake_nobody() {
    let redis = PrivateRedis::start().await;
    let app = TestApp::build().on_redis(redis.url()).start().await;
    let buyer = app.as_user(&app.user().await);
    let (before, began) = (connections(&redis).await, std::time::Instant::now());
    for n in 0..100 {
        let invented = schema::scalars::global_id("Voucher", 1_000 + n).to_string();
        let click = seckill(&buyer, &invented, "r1").await;
        assert_eq!(click.kind(), "NOT_FOUND");
    }
    let most = 2 * began.elapsed().as_secs() + 10;
    let looks = connections(&redis).await - before;
    assert!(looks < most, "{looks} connections, {most} at the most");
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sale_that_is_over_says_so_though_redis_has_lost_its_scripts() {
    let redis = PrivateRedis::start().await;
    let app = TestApp::build()
        .on_redis(redis.url())
        .without_workers()
        .start()
        .await;
    let over = app.sale().await.create().await;
    let runs = app.sale().await.create().await;
    let end = "mutation($v: ID!) { endVoucher(input: { voucherId: $v }) { sale { state } } }";
    let merchant = app.as_user(&over.merchant);
    merchant.gql(end, json!({ "v": over.voucher })).await.data();
    cmd("SCRIPT")
        .arg("FLUSH")
        .query_async::<()>(&mut redis.connection().await)
        .await
        .unwrap();
    let buyer = app.as_user(&app.user().await);
    assert_eq!(
        seckill(&buyer, &over.voucher, "r1").await.kind(),
        "SaleEnded"
    );
    assert_eq!(
        seckill(&buyer, &runs.voucher, "r1").await.kind(),
        "TryLater"
    );
    app.services().orders.look_after_sales().await.unwrap();
    seckill(&buyer, &runs.voucher, "r2").await.accepted();
    sweep_until(&app, &runs, 0).await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_that_is_nowhere_when_its_sale_is_settled_is_rejected() {
    let app = TestApp::build().without_workers().start().await;
    let (sale, bought) = sold(&app, 1).await;
    let (buyer, order) = &bought[0];
    // A Redis that lost acknowledged writes, and a sale that was settled without them.
    for part in ["meta", "stock", "buyers", "orders", "outbox", "attempts"] {
        app.redis()
            .query::<i64>(cmd("DEL").arg(key(&app, &sale, part)))
            .await
            .unwrap();
    }
    sale::Entity::update_many()
        .col_expr(sale::Column::Stage, Expr::value(SaleStage::Settled))
        .col_expr(sale::Column::SettledAt, Expr::value(1_i64))
        .filter(sale::Column::VoucherId.eq(sale.voucher_id.0))
        .exec(app.db())
        .await
        .unwrap();
    assert_eq!(
        read_order(buyer, order).await["status"],
        "QUEUED",
        "it may be on its way"
    );
    app.shift_clocks(Duration::from_secs(11));
    let rejected = read_order(buyer, order).await;
    assert_eq!(
        (rejected["status"].as_str(), rejected["rejection"].as_str()),
        (Some("REJECTED"), Some("NOT_PLACED"))
    );
    assert_eq!(app.services().orders.give_back_due().await.unwrap(), 1);
    app.finish().await;
}

/// Money of a wrong amount is on its way back when the order is cancelled: whoever watches hears of both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_order_is_told_with_the_money_that_goes_back() {
    let app = TestApp::build().without_workers().start().await;
    let sale = app.sale().await.create().await;
    let user = app.user().await;
    let buyer = app.as_user(&user);
    let order = seckill(&buyer, &sale.voucher, "r1").await.accepted();
    sweep_until(&app, &sale, 0).await;
    sandbox_pay(&buyer, &order, "WRONG_AMOUNT").await.data();
    let query = "subscription($id: ID!) { orderStatus(orderId: $id) { status refund { status } } }";
    let mut changes = app.subscribe(&user, query, json!({ "id": order })).await;
    assert_eq!(
        changes.next(LIMIT).await["orderStatus"],
        json!({ "status": "UNPAID", "refund": { "status": "PENDING" } })
    );
    cancel(&buyer, &order).await.data();
    assert_eq!(
        changes.next(LIMIT).await["orderStatus"],
        json!({ "status": "CLOSED", "refund": { "status": "PENDING" } })
    );
    let orders = &app.services().orders;
    assert_eq!(orders.work_on_payments().await.unwrap(), 1);
    assert_eq!(
        changes.next(LIMIT).await["orderStatus"],
        json!({ "status": "CLOSED", "refund": { "status": "DONE" } })
    );
    changes.completes(LIMIT).await;
    assert_eq!(orders.give_back_due().await.unwrap(), 1);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pass_waits_for_a_kafka_that_is_away_once_and_not_for_each_sale() {
    let kafka = PrivateKafka::start().await;
    let app = TestApp::build()
        .on_kafka(kafka.brokers())
        .without_workers()
        .start()
        .await;
    let mut sales = Vec::new();
    for _ in 0..4 {
        sales.push(sold(&app, 1).await);
    }
    kafka.kill9().await;
    for (sale, _) in &sales {
        app.redis()
            .query::<i64>(cmd("DEL").arg(key(&app, sale, "meta")))
            .await
            .unwrap();
    }
    let began = std::time::Instant::now();
    let orders = &app.services().orders;
    assert_eq!(orders.look_after_sales().await.unwrap(), 4);
    let taken = began.elapsed();
    assert!(taken < Duration::from_secs(15), "{taken:?} for four sales");
    for (_, bought) in &sales {
        let (buyer, order) = &bought[0];
        assert_eq!(read_order(buyer, order).await["status"], "UNPAID");
    }
    app.finish().await;
}
