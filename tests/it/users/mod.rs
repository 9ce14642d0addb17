//! Accounts: codes that reach one phone, once, and not too often; sessions that end everywhere; profiles; roles.

mod accounts;
mod codes;
mod profiles;
mod sessions;

use std::time::Duration;

use deadpool_redis::redis::cmd;
use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::client::{Answer, Client};

const MINUTE: Duration = Duration::from_secs(60);
/// What a call may take between the stores' clock and ours, in milliseconds.
const SLACK_MS: i64 = 20_000;
/// How long a dead token may live on at another node, and in an open socket: five seconds, and two for a loaded machine.
const DEAD_WITHIN: Duration = Duration::from_secs(7);
const VIEWER: &str = "{ viewer { phone user { id } } }";

/// Every key of the test that starts so, without the deployment's name.
async fn keys(app: &TestApp, prefix: &str) -> Vec<String> {
    let pattern = app.redis().key(format_args!("{prefix}*"));
    app.redis().query(cmd("KEYS").arg(pattern)).await.unwrap()
}

/// Lets the limits of login codes believe that so much time has passed.
async fn let_pass(app: &TestApp, time: Duration) {
    let by = i64::try_from(time.as_millis()).unwrap();
    for prefix in ["{login}:sent:", "{login}:address:"] {
        for key in keys(app, prefix).await {
            let entries: Vec<(String, i64)> = app
                .redis()
                .query(cmd("ZRANGE").arg(&key).arg(0).arg(-1).arg("WITHSCORES"))
                .await
                .unwrap();
            for (member, at) in entries {
                let _: i64 = app
                    .redis()
                    .query(cmd("ZADD").arg(&key).arg("XX").arg(at - by).arg(member))
                    .await
                    .unwrap();
            }
        }
    }
}

/// Asserts that a code was refused for being asked for too early, and that `retryAfterMs` is about this.
#[track_caller]
fn assert_throttled(answer: &Answer, wait: Duration) {
    let error = answer.expect_code("RATE_LIMITED");
    let retry_after_ms = error["extensions"]["retryAfterMs"].as_i64().unwrap();
    let wait_ms = i64::try_from(wait.as_millis()).unwrap();
    assert!(
        (wait_ms - SLACK_MS..=wait_ms).contains(&retry_after_ms),
        "{retry_after_ms} ms, not {wait_ms}"
    );
}

/// Asserts that a login was refused without a word on why the code is not good.
#[track_caller]
fn assert_wrong_code(answer: &Answer) {
    let error = answer.expect_code("BAD_INPUT");
    assert_eq!(error["extensions"]["argument"], "input.code");
}

async fn log_out(client: &Client, everywhere: bool) -> i64 {
    let query = "mutation($everywhere: Boolean!) { logout(input: { everywhere: $everywhere }) { loggedOut } }";
    client
        .gql(query, json!({ "everywhere": everywhere }))
        .await
        .int("logout.loggedOut")
}

async fn is_signed_in(client: &Client) -> bool {
    client.gql(VIEWER, Value::Null).await.code() != Some("UNAUTHENTICATED")
}

async fn update_profile(client: &Client, input: Value) -> Answer {
    let query = "mutation($input: UpdateProfileInput!) { updateProfile(input: $input) {
        user { nickname avatarUrl city intro gender birthday } } }";
    client.gql(query, json!({ "input": input })).await
}
