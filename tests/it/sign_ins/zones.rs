//! Users elsewhere, and users who move.

use serde_json::{Value, json};

use super::{calendar, go_to, move_to, sign_in, signed, streak};
use crate::support::app::TestApp;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_in_new_york_has_its_days_when_the_clocks_change() {
    let app = TestApp::build().without_workers().start().await;
    let client = app.as_user(&app.user().await);
    assert_eq!(
        move_to(&client, "America/New_York")
            .await
            .text("updateProfile.user.timeZone"),
        "America/New_York"
    );
    // In March a day of 23 hours: with the offset of winter, its last hour would be the day after.
    let days = [
        ("2029-03-10T23:30:00-05:00", 1),
        ("2029-03-11T00:30:00-05:00", 2),
        ("2029-03-11T23:30:00-04:00", 2),
        ("2029-03-12T00:30:00-04:00", 3),
        ("2029-03-12T23:30:00-04:00", 3),
    ];
    for (moment, expected) in days {
        go_to(&app, moment);
        assert_eq!(
            signed(&sign_in(&client).await),
            (expected, true),
            "{moment}"
        );
    }
    // In November one of 25 hours.
    let days = [
        ("2029-11-03T23:30:00-04:00", 1),
        ("2029-11-04T00:30:00-04:00", 2),
        ("2029-11-04T01:30:00-05:00", 2),
        ("2029-11-04T23:30:00-05:00", 2),
        ("2029-11-05T00:30:00-05:00", 3),
    ];
    for (moment, expected) in days {
        go_to(&app, moment);
        assert_eq!(
            signed(&sign_in(&client).await),
            (expected, true),
            "{moment}"
        );
    }
    let march = calendar(&client, 2029, Some(3)).await;
    assert_eq!(
        march.at("viewer.signIns.days"),
        &json!(["2029-03-10", "2029-03-11", "2029-03-12"])
    );
    app.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_moves_signs_no_day_twice_and_keeps_the_streak() {
    let app = TestApp::build().without_workers().start().await;
    let client = app.as_user(&app.user().await);
    for day in ["01", "02"] {
        go_to(&app, &format!("2029-05-{day}T08:00:00+08:00"));
        sign_in(&client).await.data();
    }
    // West: the first of May is not over in New York; it was signed in Shanghai.
    move_to(&client, "America/New_York").await.data();
    assert_eq!(streak(&client).await, (2, true));
    assert_eq!(signed(&sign_in(&client).await), (2, true));
    go_to(&app, "2029-05-02T20:00:00-04:00");
    assert_eq!(
        signed(&sign_in(&client).await),
        (2, true),
        "signed in Shanghai"
    );
    go_to(&app, "2029-05-03T20:00:00-04:00");
    assert_eq!(signed(&sign_in(&client).await), (3, true));

    // East over the date line: at the same hour a day later, and a day has not been missed.
    go_to(&app, "2029-05-04T20:00:00-04:00");
    move_to(&client, "Pacific/Pago_Pago").await.data();
    assert_eq!(signed(&sign_in(&client).await), (4, true));
    go_to(&app, "2029-05-05T20:00:00-11:00");
    move_to(&client, "Pacific/Apia").await.data();
    assert_eq!(streak(&client).await, (4, false), "in Apia it is the sixth");
    assert_eq!(signed(&sign_in(&client).await), (5, true));
    let may = calendar(&client, 2029, Some(5)).await;
    assert_eq!(
        may.at("viewer.signIns.days"),
        &json!([
            "2029-05-01",
            "2029-05-02",
            "2029-05-03",
            "2029-05-04",
            "2029-05-06"
        ])
    );
    // From here on Apia's days count, and one that passes there is missed.
    go_to(&app, "2029-05-08T01:00:00+13:00");
    assert_eq!(streak(&client).await, (0, false));
    app.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_zone_that_is_none_is_refused_and_a_users_zone_is_theirs_alone() {
    let app = TestApp::start().await;
    let client = app.as_user(&app.user().await);
    let own = "{ viewer { user { id timeZone } } }";
    let answer = client.gql(own, Value::Null).await;
    assert_eq!(answer.text("viewer.user.timeZone"), "Asia/Shanghai");
    for name in ["Mars/Base", "", "+08:00", "asia/shanghai"] {
        let answer = move_to(&client, name).await;
        let error = answer.expect_code("BAD_INPUT");
        assert_eq!(error["extensions"]["argument"], "input.timeZone", "{name}");
    }
    move_to(&client, "Asia/Kathmandu").await.data();
    let others = "query($id: ID!) { user(id: $id) { timeZone } }";
    let variables = json!({ "id": answer.text("viewer.user.id") });
    let seen = app.gql(others, variables.clone()).await;
    assert_eq!(seen.at("user.timeZone"), &Value::Null);
    let seen = client.gql(others, variables).await;
    assert_eq!(seen.text("user.timeZone"), "Asia/Kathmandu");
    let query = "mutation { updateProfile(input: { timeZone: null }) { user { timeZone } } }";
    let answer = client.gql(query, Value::Null).await;
    assert_eq!(answer.text("updateProfile.user.timeZone"), "Asia/Shanghai");
    app.finish().await;
}
