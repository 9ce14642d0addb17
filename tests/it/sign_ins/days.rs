//! Days and streaks in one zone.

use entity::sign_in;
use sea_orm::EntityTrait;
use serde_json::json;

use domain::users::UserId;

use super::{calendar, go_to, make_up, sign_in, signed, streak};
use crate::support::app::TestApp;
use crate::support::stores::Store;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_day_ends_at_midnight_in_shanghai_and_not_at_the_servers() {
    let app = TestApp::build().without_workers().start().await;
    // The last second is short on a busy machine: tried with other users until it was long enough.
    for _ in 0..10 {
        let client = app.as_user(&app.user().await);
        // A round trip first, so that the session is known.
        go_to(&app, "2029-06-14T12:00:00+08:00");
        assert_eq!(streak(&client).await, (0, false));
        go_to(&app, "2029-06-14T23:59:59+08:00");
        let last = signed(&sign_in(&client).await);
        let was_in_time = app.services().infra().clock.now_ms() % 86_400_000 < 16 * 3_600_000;
        go_to(&app, "2029-06-15T00:00:00+08:00");
        if !was_in_time {
            continue;
        }
        assert_eq!(last, (1, true));
        assert_eq!(
            streak(&client).await,
            (1, false),
            "in UTC it is the same day"
        );
        assert_eq!(signed(&sign_in(&client).await), (2, true));
        // Midnight of the server is no border.
        go_to(&app, "2029-06-16T07:59:58+08:00");
        assert_eq!(signed(&sign_in(&client).await), (3, true));
        go_to(&app, "2029-06-16T08:00:01+08:00");
        assert_eq!(signed(&sign_in(&client).await), (3, true));
        let days = calendar(&client, 2029, Some(6)).await;
        assert_eq!(
            days.at("viewer.signIns"),
            &json!({ "year": 2029, "month": 6, "days": ["2029-06-14", "2029-06-15", "2029-06-16"],
                "madeUpDays": [], "count": 3 })
        );
        app.close().await;
        return;
    }
    panic!("a sign-in takes longer than a second");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_days_signed_and_not_yet_today_are_five() {
    let app = TestApp::build().without_workers().start().await;
    let client = app.as_user(&app.user().await);
    // Over the end of a month, on whose first a key a month would cut the streak.
    for day in ["29", "30", "31"] {
        go_to(&app, &format!("2029-01-{day}T10:00:00+08:00"));
        sign_in(&client).await.data();
    }
    for day in ["01", "02"] {
        go_to(&app, &format!("2029-02-{day}T22:00:00+08:00"));
        sign_in(&client).await.data();
    }
    assert_eq!(streak(&client).await, (5, true));
    go_to(&app, "2029-02-03T23:00:00+08:00");
    assert_eq!(streak(&client).await, (5, false));
    go_to(&app, "2029-02-04T00:00:10+08:00");
    assert_eq!(streak(&client).await, (0, false));
    assert_eq!(signed(&sign_in(&client).await), (1, true));
    app.close().await;
}

/// Signs each day at noon in Shanghai, `count` days from one on; the last answer.
async fn sign_days(app: &TestApp, user: UserId, first: &str, count: u32) -> (u32, bool) {
    go_to(app, &format!("{first}T12:00:00+08:00"));
    let mut last = (0, false);
    for number in 0..count {
        if number > 0 {
            app.services().infra().clock.shift_ms(86_400_000);
        }
        let streak = app.services().sign_ins.sign_in(user, None).await.unwrap();
        last = (streak.days, streak.signed_today);
    }
    last
}

async fn a_streak_crosses_every_border(store: Store) {
    let app = TestApp::build().on(store).without_workers().start().await;
    let users = app.users(4).await;
    let id = |at: usize| UserId(users[at].id);
    assert_eq!(
        sign_days(&app, id(0), "2027-12-27", 400).await,
        (400, true),
        "two ends of a year and the 29th of February"
    );
    let client = app.as_user(&users[0]);
    assert_eq!(streak(&client).await, (400, true));
    assert_eq!(
        calendar(&client, 2027, None)
            .await
            .int("viewer.signIns.count"),
        5
    );
    let year = calendar(&client, 2028, None).await;
    assert_eq!(year.int("viewer.signIns.count"), 366);
    assert_eq!(year.list("viewer.signIns.days")[59], "2028-02-29");
    assert_eq!(year.list("viewer.signIns.days")[365], "2028-12-31");
    let february = calendar(&client, 2028, Some(2)).await;
    assert_eq!(february.int("viewer.signIns.count"), 29);

    assert_eq!(
        sign_days(&app, id(1), "2027-01-15", 90).await,
        (90, true),
        "more than 63 bits"
    );
    assert_eq!(
        sign_days(&app, id(2), "2027-02-27", 4).await,
        (4, true),
        "no 29th"
    );
    assert_eq!(sign_days(&app, id(3), "2028-02-27", 2).await, (2, true));
    assert_eq!(
        sign_days(&app, id(3), "2028-03-01", 1).await,
        (1, true),
        "the 29th was missed"
    );
    app.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_streak_crosses_months_years_and_leap_days() {
    a_streak_crosses_every_border(Store::MariaDb).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_streak_crosses_months_years_and_leap_days_on_sqlite() {
    a_streak_crosses_every_border(Store::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_streak_crosses_months_years_and_leap_days_on_postgres() {
    a_streak_crosses_every_border(Store::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_missed_days_of_a_month_can_be_made_up() {
    let app = TestApp::build().without_workers().start().await;
    let client = app.as_user(&app.user().await);
    go_to(&app, "2029-03-03T12:00:00+08:00");
    assert_eq!(signed(&sign_in(&client).await), (1, true));
    for refused in ["2029-03-04", "2029-01-31", "1999-01-01"] {
        let answer = make_up(&client, refused).await;
        let error = answer.expect_code("BAD_INPUT");
        assert_eq!(error["extensions"]["argument"], "input.day", "{refused}");
    }
    assert_eq!(signed(&make_up(&client, "2029-03-02").await), (2, true));
    assert_eq!(signed(&make_up(&client, "2029-03-01").await), (3, true));
    for day in ["2029-02-28", "2029-02-27", "2029-02-25"] {
        make_up(&client, day).await.data();
    }
    assert_eq!(streak(&client).await, (5, true));
    let answer = make_up(&client, "2029-02-26").await;
    assert_eq!(
        answer.expect_code("BAD_INPUT")["extensions"]["argument"],
        "input.day"
    );
    // What is signed already costs nothing, and today is no make-up.
    for day in ["2029-02-28", "2029-03-02", "2029-03-03"] {
        assert_eq!(signed(&make_up(&client, day).await), (5, true));
    }
    let month = calendar(&client, 2029, Some(2)).await;
    assert_eq!(
        month.at("viewer.signIns.madeUpDays"),
        &json!(["2029-02-25", "2029-02-27", "2029-02-28"])
    );
    let month = calendar(&client, 2029, Some(3)).await;
    assert_eq!(
        (
            month.int("viewer.signIns.count"),
            month.at("viewer.signIns.madeUpDays")
        ),
        (3, &json!(["2029-03-01", "2029-03-02"]))
    );
    for (year, month, argument) in [
        (0, None, "year"),
        (2029, Some(13), "month"),
        (2029, Some(-1), "month"),
    ] {
        let answer = calendar(&client, year, month).await;
        assert_eq!(
            answer.expect_code("BAD_INPUT")["extensions"]["argument"],
            argument
        );
    }
    app.close().await;
}

async fn taps_at_once_sign_once(store: Store) {
    let mut app = TestApp::build().on(store).without_workers().start().await;
    let second = app.second_node().await;
    let user = app.user().await;
    let (here, there) = (app.as_user(&user), second.as_user(&user));
    let today = domain::infra::zones::DEFAULT_ZONE.day(app.services().infra().clock.now_ms());
    let missed: Vec<String> = (1..=6)
        .map(|days| (today - chrono::Days::new(days)).to_string())
        .collect();
    let taps = (0..10).map(|number| {
        let client = if number % 2 == 0 {
            here.clone()
        } else {
            there.clone()
        };
        async move { sign_in(&client).await.data().clone() }
    });
    let make_ups = missed.iter().enumerate().map(|(number, day)| {
        let client = if number % 2 == 0 {
            here.clone()
        } else {
            there.clone()
        };
        async move { make_up(&client, day).await }
    });
    let (_, made_up) = tokio::join!(
        futures_util::future::join_all(taps),
        futures_util::future::join_all(make_ups)
    );
    let rows = sign_in::Entity::find().all(app.db()).await.unwrap();
    let bits = |map: fn(&sign_in::Model) -> &Vec<u8>| -> u32 {
        rows.iter()
            .flat_map(map)
            .map(|byte| byte.count_ones())
            .sum()
    };
    let taken = made_up
        .iter()
        .filter(|answer| answer.errors().is_empty())
        .count();
    // Six days may lie in two months.
    let months: std::collections::BTreeMap<&str, usize> =
        missed.iter().fold(Default::default(), |mut months, day| {
            *months.entry(&day[..7]).or_default() += 1;
            months
        });
    let allowed: usize = months.values().map(|days| (*days).min(3)).sum();
    assert_eq!(taken, allowed, "{made_up:?}");
    assert_eq!(bits(|row| &row.made_up) as usize, allowed);
    assert_eq!(bits(|row| &row.signed) as usize, allowed + 1);
    let versions: i64 = rows.iter().map(|row| row.version).sum();
    assert_eq!(versions as usize, allowed + 1, "each day was written once");
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn taps_at_once_on_two_nodes_sign_a_day_once() {
    taps_at_once_sign_once(Store::MariaDb).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn taps_at_once_on_two_nodes_sign_a_day_once_on_sqlite() {
    taps_at_once_sign_once(Store::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn taps_at_once_on_two_nodes_sign_a_day_once_on_postgres() {
    taps_at_once_sign_once(Store::Postgres).await;
}
