//! Unique visitors: who counts as one, that a week is no sum, and that counting costs and breaks nothing.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use chrono::Days;
use deadpool_redis::redis::cmd;
use domain::visits::{Count, Period, Subject};
use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::client::{Answer, Client};
use crate::support::private::PrivateRedis;
use crate::support::sale::create_shop;
use crate::support::wait::eventually;

const SOON: Duration = Duration::from_secs(10);
const NOBODY: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
const READ: &str = "query($id: ID!) { shop(id: $id) { id } }";
const COUNTS: &str = "query($id: ID!, $day: Date) { node(id: $id) { ... on Shop {
    today: uniqueVisitors day: uniqueVisitors(day: $day) week: uniqueVisitors(day: $day, period: WEEK)
    month: uniqueVisitors(day: $day, period: MONTH) } } }";

async fn a_shop(app: &TestApp) -> String {
    create_shop(&app.as_user(&app.merchant().await)).await
}

async fn look(client: &Client, shop: &str) -> Answer {
    client.gql(READ, json!({ "id": shop })).await
}

fn number(shop: &str) -> i64 {
    schema::scalars::parse_id(&shop.into(), "Shop", "id").unwrap()
}

/// Every key of visits in this test, without the deployment's name.
async fn keys(app: &TestApp) -> Vec<String> {
    let prefix = app.redis().key("visits:");
    let pattern = format!("{prefix}*");
    let found: Vec<String> = app.redis().query(cmd("KEYS").arg(pattern)).await.unwrap();
    found
        .into_iter()
        .map(|key| key.trim_start_matches(&prefix).to_owned())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_visitors_on_seven_days_are_a_week_of_a_thousand() {
    let app = TestApp::build().without_workers().start().await;
    let shop = a_shop(&app).await;
    let subject = Subject::Shop(number(&shop));
    let visits = &app.services().visits;
    let first = visits.today();
    for day in 0..7 {
        if day > 0 {
            app.shift_clocks(Duration::from_secs(86_400));
        }
        for user in 1..=1_000 {
            visits.record(subject, visits.visitor(Some(user), None, NOBODY));
            // Somebody of the day alone.
            if user == 500 {
                visits.record(subject, visits.visitor(Some(10_000 + day), None, NOBODY));
            }
        }
        visits.flush().await.unwrap();
    }
    let last = first + Days::new(6);
    let count = |day, period| Count {
        subject,
        day,
        period,
    };
    let found = visits
        .unique(&[
            count(last, Period::Day),
            count(last, Period::Week),
            count(last, Period::Month),
            count(first, Period::Day),
            count(first - Days::new(1), Period::Week),
        ])
        .await
        .unwrap();
    for number in &found[..4] {
        assert!((980..=1_027).contains(number), "{found:?}");
    }
    assert_eq!(found[4], 0);
    let answer = app.gql(COUNTS, json!({ "id": shop, "day": last })).await;
    let of = |name: &str| answer.int(&format!("node.{name}"));
    assert_eq!(
        (of("today"), of("day"), of("week"), of("month")),
        (
            found[0] as i64,
            found[0] as i64,
            found[1] as i64,
            found[2] as i64
        )
    );
    app.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_user_counts_else_the_device_else_the_address() {
    let mut app = TestApp::start().await;
    let second = app.second_node().await;
    let shop = a_shop(&app).await;
    let users = app.users(3).await;
    for user in &users {
        // The same person from two devices, at two nodes.
        look(
            &app.as_user(user).with_header("X-Device-Id", "phone"),
            &shop,
        )
        .await
        .data();
        look(
            &second.as_user(user).with_header("X-Device-Id", "tablet"),
            &shop,
        )
        .await
        .data();
    }
    for device in ["phone", "tablet", "phone"] {
        look(&app.client().with_header("X-Device-Id", device), &shop)
            .await
            .data();
    }
    for client in [app.client(), second.clone(), app.client()] {
        look(&client, &shop).await.data();
    }
    eventually(SOON, "three users, two devices, one address", async || {
        app.gql(COUNTS, json!({ "id": shop }))
            .await
            .int("node.today")
            == 6
    })
    .await;
    // The merchant who made the shop used the site, and read no shop.
    let visits = &app.services().visits;
    let count = |subject| Count {
        subject,
        day: visits.today(),
        period: Period::Day,
    };
    let counts = [count(Subject::Site), count(Subject::Accounts)];
    assert_eq!(visits.unique(&counts).await.unwrap(), [7, 4]);
    // Marks, not people, and none for ever.
    for key in keys(&app).await {
        let key = app.redis().key(format_args!("visits:{key}"));
        let ttl: i64 = app.redis().query(cmd("TTL").arg(key)).await.unwrap();
        assert!((39 * 86_400..=100 * 86_400).contains(&ttl), "{ttl}");
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shops_that_are_not_there_have_no_keys() {
    let app = TestApp::start().await;
    let shop = a_shop(&app).await;
    for batch in 0..20 {
        let fields: String = (0..50)
            .map(|at| {
                let id = schema::scalars::global_id("Shop", 1_000 + batch * 50 + at);
                format!("s{at}: shop(id: \"{}\") {{ id }} ", id.as_str())
            })
            .collect();
        app.gql(&format!("{{ {fields} }}"), Value::Null)
            .await
            .data();
    }
    look(&app.client(), &shop).await.data();
    app.services().visits.flush().await.unwrap();
    let shops: Vec<String> = keys(&app)
        .await
        .into_iter()
        .filter(|key| key.starts_with("shop:"))
        .collect();
    assert_eq!(shops.len(), 1, "{shops:?}");
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn visits_wait_for_a_redis_that_is_away_and_reads_do_not() {
    let mut redis = PrivateRedis::start().await;
    let app = TestApp::build().on_redis(redis.url()).start().await;
    let shop = a_shop(&app).await;
    look(&app.client(), &shop).await.data();
    redis.kill9();
    // Warm in the process, so that only the counting would need Redis.
    for device in ["a", "b", "c"] {
        look(&app.client().with_header("X-Device-Id", device), &shop)
            .await
            .data();
    }
    let answer = app.gql(COUNTS, json!({ "id": shop })).await;
    assert_eq!(answer.int("node.today"), 0);
    let degraded = answer.body["extensions"]["degraded"].as_array().unwrap();
    assert!(degraded.contains(&json!("uniqueVisitors")), "{degraded:?}");
    assert!(app.services().visits.flush().await.is_err());
    redis.start_again().await;
    eventually(SOON, "the visits of the outage", async || {
        app.gql(COUNTS, json!({ "id": shop }))
            .await
            .int("node.today")
            == 4
    })
    .await;
    app.close().await;
}
