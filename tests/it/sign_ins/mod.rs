//! Signing in day by day: the user's own day, the streak over every border, days made up, and moving between zones.

mod days;
mod zones;

use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::client::{Answer, Client};

const SIGN_IN: &str =
    "mutation($input: SignInInput!) { signIn(input: $input) { streak { days signedToday } } }";

/// Moves the clock of every node of the app to a moment.
fn go_to(app: &TestApp, moment: &str) {
    let to_ms = chrono::DateTime::parse_from_rfc3339(moment)
        .unwrap()
        .timestamp_millis();
    let clock = &app.services().infra().clock;
    clock.shift_ms(to_ms - clock.now_ms());
}

async fn sign_in(client: &Client) -> Answer {
    client.gql(SIGN_IN, json!({ "input": {} })).await
}

async fn make_up(client: &Client, day: &str) -> Answer {
    client
        .gql(SIGN_IN, json!({ "input": { "day": day } }))
        .await
}

/// The streak that a sign-in answered.
#[track_caller]
fn signed(answer: &Answer) -> (i64, bool) {
    assert!(answer.at("signIn.streak.signedToday").is_boolean());
    let today = answer.at("signIn.streak.signedToday") == true;
    (answer.int("signIn.streak.days"), today)
}

async fn streak(client: &Client) -> (i64, bool) {
    let query = "{ viewer { signInStreak { days signedToday } } }";
    let answer = client.gql(query, Value::Null).await;
    let today = answer.at("viewer.signInStreak.signedToday") == true;
    (answer.int("viewer.signInStreak.days"), today)
}

/// The map of a year or a month: days, those made up, and their number.
async fn calendar(client: &Client, year: i32, month: Option<i32>) -> Answer {
    let query = "query($year: Int!, $month: Int) { viewer { signIns(year: $year, month: $month) {
        year month days madeUpDays count } } }";
    client
        .gql(query, json!({ "year": year, "month": month }))
        .await
}

async fn move_to(client: &Client, zone: &str) -> Answer {
    let query = "mutation($zone: String) { updateProfile(input: { timeZone: $zone }) { user { timeZone } } }";
    client.gql(query, json!({ "zone": zone })).await
}
