//! Figures of each day: by one process, the same whenever they are made, and equal to what one counts by hand.

use std::ops::ControlFlow;
use std::time::Duration;

use chrono::{Days, NaiveDate};
use deadpool_redis::redis::cmd;
use domain::infra::ids::first_at_ms;
use domain::infra::zones::DEFAULT_ZONE;
use domain::statistics::Error;
use entity::order::{self, OrderStatus};
use entity::{daily_statistics, lease};
use sea_orm::{ActiveModelTrait, EntityTrait};
use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::client::{Answer, Client};
use crate::support::stores::Store;
use crate::support::wait::eventually;

const SOON: Duration = Duration::from_secs(30);
const HOUR_MS: i64 = 3_600_000;

async fn statistics(client: &Client, from: NaiveDate, to: NaiveDate) -> Answer {
    let query = "query($from: Date!, $to: Date!) { statistics(from: $from, to: $to) {
        day dau wau mau uv orders paidOrders isEstimate } }";
    client.gql(query, json!({ "from": from, "to": to })).await
}

/// An order as it would be written: its id says when it was made.
async fn an_order(app: &TestApp, made_ms: i64, written_ms: i64, paid_ms: Option<i64>) {
    let row = order::Model {
        id: first_at_ms(made_ms) + i64::from(rand::random::<u16>()) * 64,
        voucher_id: 1,
        shop_id: 1,
        user_id: rand::random::<u32>().into(),
        slot: 1,
        active: None,
        status: OrderStatus::Closed,
        price_minor: 100,
        currency: "VND".to_owned(),
        request_id: "r".to_owned(),
        reserved_at: made_ms,
        epoch: 1,
        created_at: written_ms,
        pay_by: written_ms + 900_000,
        paid_at: paid_ms,
        closed_at: Some(written_ms),
        close_reason: None,
        used_at: None,
        version: 1,
        quantity: 1,
        redeem_tag: None,
    };
    let row = order::ActiveModel::from(row).reset_all();
    order::Entity::insert(row)
        .exec_without_returning(app.db())
        .await
        .unwrap();
}

/// Orders on both sides of each midnight around a day, some written or paid on another day than they were made.
async fn orders_around(app: &TestApp, day: NaiveDate) {
    let (begin, end) = DEFAULT_ZONE.span_ms(day);
    for midnight in [begin, end] {
        for offset in [-3 * HOUR_MS, -1_000, -1, 0, 1, 1_000, 2 * HOUR_MS] {
            let at = midnight + offset;
            an_order(app, at - 2, at, None).await;
            an_order(app, at - 60_000, at, Some(at + 500)).await;
            an_order(app, at - 6 * 24 * HOUR_MS, at - 6 * 24 * HOUR_MS, Some(at)).await;
        }
    }
}

/// Written and paid orders of a day, counted one by one.
async fn by_hand(app: &TestApp, day: NaiveDate) -> (i64, i64) {
    let span = DEFAULT_ZONE.span_ms(day);
    let is_in = |at: i64| span.0 <= at && at < span.1;
    let rows = order::Entity::find().all(app.db()).await.unwrap();
    let written = rows.iter().filter(|row| is_in(row.created_at)).count();
    let paid = rows
        .iter()
        .filter(|row| row.paid_at.is_some_and(is_in))
        .count();
    (written as i64, paid as i64)
}

async fn rows(app: &TestApp) -> Vec<daily_statistics::Model> {
    daily_statistics::Entity::find()
        .all(app.db())
        .await
        .unwrap()
}

fn figures(row: &daily_statistics::Model) -> [i64; 6] {
    [
        row.dau,
        row.wau,
        row.mau,
        row.uv,
        row.orders,
        row.paid_orders,
    ]
}

/// Moves the clocks to an hour of today in the deployment's zone.
fn go_to_hour(app: &TestApp, hour: i64) {
    let clock = &app.services().infra().clock;
    let now_ms = clock.now_ms();
    let begin = DEFAULT_ZONE.begin_ms(DEFAULT_ZONE.day(now_ms));
    clock.shift_ms(begin + hour * HOUR_MS - now_ms);
}

async fn a_day_is_what_one_counts_by_hand(store: Store) {
    let app = TestApp::build().on(store).without_workers().start().await;
    let service = &app.services().statistics;
    let yesterday = service.today() - Days::new(1);
    orders_around(&app, yesterday).await;
    // Stopped half-way: nothing is written, and the next run is none the worse.
    let stopped = service.compute(yesterday, |done, total| match done * 2 >= total {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    });
    assert!(matches!(stopped.await, Err(Error::Stopped)));
    assert!(rows(&app).await.is_empty());
    let go_on = |_, _| ControlFlow::Continue(());
    for day in [yesterday, yesterday - Days::new(1)] {
        let first = service.compute(day, go_on).await.unwrap();
        let again = service.compute(day, go_on).await.unwrap();
        assert_eq!((first.orders, first.paid_orders), by_hand(&app, day).await);
        assert!(first.orders > 0 && first.paid_orders > first.orders / 2);
        assert_eq!((figures(&first), again.version), (figures(&again), 2));
    }
    // What came later is in the next run, in the place of what was there.
    let (begin, _) = DEFAULT_ZONE.span_ms(yesterday);
    an_order(&app, begin, begin, None).await;
    let later = service.compute(yesterday, go_on).await.unwrap();
    assert_eq!(
        (later.orders, later.paid_orders),
        by_hand(&app, yesterday).await
    );
    assert_eq!(rows(&app).await.len(), 2);
    app.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_days_orders_are_those_that_one_counts_whenever_they_are_counted() {
    a_day_is_what_one_counts_by_hand(Store::MariaDb).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_days_orders_are_those_that_one_counts_on_sqlite() {
    a_day_is_what_one_counts_by_hand(Store::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_days_orders_are_those_that_one_counts_on_postgres() {
    a_day_is_what_one_counts_by_hand(Store::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn active_users_of_a_week_are_counted_once_and_today_is_an_estimate() {
    let app = TestApp::build().without_workers().start().await;
    let admin = app.as_user(&app.admin().await);
    let users = app.users(5).await;
    go_to_hour(&app, 12);
    let service = &app.services().statistics;
    let today = service.today();
    let visit = async |count: usize| {
        for user in &users[..count] {
            app.as_user(user)
                .gql("{ serverTime }", Value::Null)
                .await
                .data();
        }
        app.gql("{ serverTime }", Value::Null).await.data();
        app.services().visits.flush().await.unwrap();
    };
    visit(5).await;
    let answer = statistics(&admin, today, today).await;
    assert_eq!(
        answer.at("statistics.0"),
        &json!({ "day": today, "dau": 5, "wau": 5, "mau": 5, "uv": 6, "orders": 0, "paidOrders": 0,
            "isEstimate": true })
    );
    // The next day; the administrator, who looked on the first, is one of its users.
    app.shift_clocks(Duration::from_secs(12 * 3_600 + 60));
    visit(2).await;
    let tomorrow = service.today();
    assert_eq!(tomorrow, today + Days::new(1));
    let query = "mutation($day: Date!) { recomputeStatistics(input: { day: $day }) { statistics { dau uv isEstimate } } }";
    let answer = admin.gql(query, json!({ "day": today })).await;
    assert_eq!(
        answer.at("recomputeStatistics.statistics"),
        &json!({ "dau": 6, "uv": 7, "isEstimate": false })
    );
    let answer = admin.gql(query, json!({ "day": tomorrow })).await;
    let error = answer.expect_code("BAD_INPUT");
    assert_eq!(error["extensions"]["argument"], "input.day");
    app.services().visits.flush().await.unwrap();
    let both = statistics(&admin, today, tomorrow + Days::new(9)).await;
    assert_eq!(both.list("statistics").len(), 2);
    let (dau, wau) = (both.int("statistics.1.dau"), both.int("statistics.1.wau"));
    assert_eq!(
        (dau, wau),
        (3, 6),
        "two and the administrator; all six in the week"
    );

    // A Redis that lost its counts takes nothing from the table.
    let lost = app
        .redis()
        .key(format_args!("visits:accounts:{}", today.format("%Y%m%d")));
    let gone: i64 = app.redis().query(cmd("DEL").arg(lost)).await.unwrap();
    assert_eq!(gone, 1);
    let answer = admin.gql(query, json!({ "day": today })).await;
    assert_eq!(answer.int("recomputeStatistics.statistics.dau"), 6);

    // Switched off: what is in the table, and nothing that has to be counted.
    let off = "mutation { setFeatureSwitch(input: { name: STATISTICS, on: false }) { featureSwitch { on } } }";
    admin.gql(off, Value::Null).await.data();
    let answer = statistics(&admin, today, tomorrow).await;
    assert_eq!(answer.list("statistics").len(), 1);
    assert_eq!(
        answer.body.pointer("/extensions/degraded"),
        Some(&json!(["statistics"]))
    );
    app.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ranges_have_limits_and_figures_are_for_administrators() {
    let app = TestApp::start().await;
    let admin = app.as_user(&app.admin().await);
    let day = |text: &str| text.parse::<NaiveDate>().unwrap();
    for (from, to) in [("2028-01-02", "2028-01-01"), ("2028-01-01", "2029-01-01")] {
        let answer = statistics(&admin, day(from), day(to)).await;
        let error = answer.expect_code("BAD_INPUT");
        assert_eq!(error["extensions"]["argument"], "to", "{from}");
    }
    let answer = statistics(&admin, day("2028-01-01"), day("2028-12-31")).await;
    assert_eq!(answer.at("statistics"), &json!([]));
    let user = app.as_user(&app.user().await);
    for query in [
        "{ statistics(from: \"2028-01-01\", to: \"2028-01-01\") { dau } }",
        "{ statisticsProgress { computedUntil } }",
    ] {
        app.gql(query, Value::Null)
            .await
            .expect_code("UNAUTHENTICATED");
        user.gql(query, Value::Null).await.expect_code("FORBIDDEN");
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_several_processes_one_computes_a_day_and_a_dead_one_is_succeeded() {
    let app = TestApp::build().without_workers().start().await;
    let admin = app.as_user(&app.admin().await);
    go_to_hour(&app, 4);
    let service = &app.services().statistics;
    let today = service.today();
    orders_around(&app, today - Days::new(1)).await;
    // A process took the lease and died half-way through the day.
    let now_ms = app.services().infra().clock.now_ms();
    let dead = lease::Model {
        name: "statistics".to_owned(),
        owner: "dead".to_owned(),
        expires_at: now_ms + 50_000,
    };
    lease::Entity::insert(lease::ActiveModel::from(dead).reset_all())
        .exec_without_returning(app.db())
        .await
        .unwrap();
    let stop = tokio_util::sync::CancellationToken::new();
    assert_eq!(
        service.compute_due(&stop).await.unwrap(),
        0,
        "its lease runs"
    );
    assert!(rows(&app).await.is_empty());
    app.shift_clocks(Duration::from_secs(60));
    // Another process told to stop computes nothing, and leaves the day to the next.
    let stopped = tokio_util::sync::CancellationToken::new();
    stopped.cancel();
    assert!(matches!(
        service.compute_due(&stopped).await,
        Err(Error::Stopped)
    ));
    let looks = (0..8).map(|_| service.compute_due(&stop));
    let computed = futures_util::future::try_join_all(looks).await.unwrap();
    assert!(computed.iter().sum::<u32>() >= 1);
    let row = rows(&app).await.remove(0);
    assert_eq!(row.day, today - Days::new(1));
    assert_eq!((row.orders, row.paid_orders), by_hand(&app, row.day).await);
    // Nobody for three days: each is made up for.
    app.shift_clocks(Duration::from_secs(3 * 86_400));
    assert_eq!(service.compute_due(&stop).await.unwrap(), 3);
    assert_eq!(service.compute_due(&stop).await.unwrap(), 0);
    let query = "{ statisticsProgress { computedUntil runningDay percent } }";
    let answer = admin.gql(query, Value::Null).await;
    assert_eq!(
        answer.at("statisticsProgress"),
        &json!({ "computedUntil": today + Days::new(2), "runningDay": null, "percent": null })
    );
    app.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_with_workers_compute_a_day_once() {
    let mut app = TestApp::start().await;
    app.second_node().await;
    // Whatever the hour was, yesterday was computed once if it was due; the next day is due at three.
    let clock_of_both = Duration::from_secs(27 * 3_600);
    let today = app.services().statistics.today();
    app.shift_clocks(clock_of_both);
    let last = app.services().statistics.today() - Days::new(1);
    assert!(last >= today);
    eventually(SOON, "the day", async || {
        rows(&app).await.iter().any(|row| row.day >= today)
    })
    .await;
    for row in rows(&app).await {
        assert_eq!(row.version, 1, "{row:?}");
    }
    app.close().await;
}
