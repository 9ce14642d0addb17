//! Sessions: how long one lives, and that its end reaches every node and socket.

use std::collections::HashSet;

use deadpool_redis::redis::cmd;
use domain::users::{Phone, Role};
use serde_json::{Value, json};

use super::{
    DEAD_WITHIN, MINUTE, SLACK_MS, VIEWER, is_signed_in, keys, let_pass, log_out, update_profile,
};
use crate::support::app::TestApp;
use crate::support::client::Client;
use crate::support::people::random_phone;
use crate::support::subscription::{Event, Subscription};
use crate::support::wait::eventually;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_token_there_is_no_viewer_and_nothing_to_change() {
    let app = TestApp::start().await;
    let viewer = app.gql(VIEWER, Value::Null).await;
    assert_eq!(viewer.data(), &json!({ "viewer": null }));
    update_profile(&app.client(), json!({ "nickname": "x" }))
        .await
        .expect_code("UNAUTHENTICATED");
    app.gql("mutation { logout { loggedOut } }", Value::Null)
        .await
        .expect_code("UNAUTHENTICATED");
    for token in ["nonsense", &"a".repeat(43)] {
        app.client()
            .with_token(token)
            .gql(VIEWER, Value::Null)
            .await
            .expect_code("UNAUTHENTICATED");
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_is_random_and_stored_only_as_a_hash() {
    let app = TestApp::start().await;
    let users = app.users(2).await;
    let logged_in = app.log_in(&random_phone()).await;
    let tokens: HashSet<&str> = users
        .iter()
        .chain([&logged_in])
        .map(|user| user.token.as_str())
        .collect();
    assert_eq!(tokens.len(), 3);
    assert!(
        tokens.iter().all(|token| token.len() == 43),
        "43 characters of base64 are 256 bits"
    );
    let mut stored = keys(&app, "").await;
    for key in keys(&app, "session:").await {
        stored.extend(
            app.redis()
                .query::<Vec<String>>(cmd("HGETALL").arg(key))
                .await
                .unwrap(),
        );
    }
    for key in keys(&app, "user:").await {
        stored.extend(
            app.redis()
                .query::<Vec<String>>(cmd("ZRANGE").arg(key).arg(0).arg(-1))
                .await
                .unwrap(),
        );
    }
    assert_eq!(
        stored
            .iter()
            .filter(|text| tokens.iter().any(|token| text.contains(token)))
            .count(),
        0
    );
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_lives_thirty_minutes_from_its_last_use_and_seven_days_in_all() {
    let app = TestApp::start().await;
    let user = app.user().await;
    let session = keys(&app, "session:").await.remove(0);
    let life_ms = async || {
        app.redis()
            .query::<i64>(cmd("PTTL").arg(&session))
            .await
            .unwrap()
    };
    let set = async |field: &str, ms_ago: i64| {
        let at = chrono::Utc::now().timestamp_millis() - ms_ago;
        app.redis()
            .query::<i64>(cmd("HSET").arg(&session).arg(field).arg(at))
            .await
            .unwrap()
    };
    let thirty_minutes = 1_800_000;
    assert!((thirty_minutes - SLACK_MS..=thirty_minutes).contains(&life_ms().await));

    // Used a moment ago: nothing is written. Used more than a minute ago: the life starts anew.
    let _: i64 = app
        .redis()
        .query(cmd("PEXPIRE").arg(&session).arg(100_000))
        .await
        .unwrap();
    assert!(
        app.services()
            .users
            .authenticate(&user.token)
            .await
            .unwrap()
            .is_some()
    );
    assert!(life_ms().await <= 100_000);
    set("seen", 61_000).await;
    let is_slid = async || {
        // Through a copy of at most five seconds.
        assert!(is_signed_in(&app.as_user(&user)).await);
        life_ms().await > thirty_minutes - SLACK_MS
    };
    eventually(2 * DEAD_WITHIN, "a longer life", is_slid).await;

    // Never past the seventh day.
    let seven_days = 7 * 24 * 3_600_000;
    set("created", seven_days - 600_000).await;
    set("seen", 61_000).await;
    let is_shortened = async || {
        assert!(is_signed_in(&app.as_user(&user)).await);
        life_ms().await <= 600_000
    };
    eventually(2 * DEAD_WITHIN, "the end of the seventh day", is_shortened).await;
    set("created", seven_days + 1).await;
    eventually(2 * DEAD_WITHIN, "the end of the session", async || {
        !is_signed_in(&app.as_user(&user)).await
    })
    .await;
    assert_eq!(keys(&app, "session:").await, Vec::<String>::new());
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_logout_at_one_node_ends_the_session_at_the_other_and_its_sockets() {
    let mut app = TestApp::start().await;
    let second = app.second_node().await;
    let user = app.user().await;
    let (here, there) = (app.as_user(&user), second.as_user(&user));
    assert!(is_signed_in(&here).await && is_signed_in(&there).await);
    let updates = "subscription { orderUpdates { id } }";
    let mut socket = Subscription::open(&there, updates, Value::Null).await;

    assert_eq!(log_out(&here, false).await, 1);
    assert!(!is_signed_in(&here).await);
    eventually(
        DEAD_WITHIN,
        "the end of the session at the other node",
        async || !is_signed_in(&there).await,
    )
    .await;
    assert_eq!(socket.event(DEAD_WITHIN).await, Event::Closed(4403));
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_ends_without_a_word_is_dead_within_five_seconds() {
    let app = TestApp::start().await;
    let user = app.user().await;
    assert!(is_signed_in(&app.as_user(&user)).await);
    for session in keys(&app, "session:").await {
        let _: i64 = app.redis().query(cmd("DEL").arg(session)).await.unwrap();
    }
    eventually(DEAD_WITHIN, "the end of the session", async || {
        !is_signed_in(&app.as_user(&user)).await
    })
    .await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_logout_everywhere_ends_all_sessions_of_the_user_and_no_others() {
    let mut app = TestApp::start().await;
    let second = app.second_node().await;
    let phone = random_phone();
    let mut mine = Vec::new();
    for _ in 0..3 {
        mine.push(app.log_in(&phone).await);
        let_pass(&app, MINUTE).await;
    }
    let other = app.user().await;
    for user in mine.iter().chain([&other]) {
        assert!(is_signed_in(&second.as_user(user)).await);
    }

    // One of them alone first.
    assert_eq!(log_out(&app.as_user(&mine[0]), false).await, 1);
    assert!(is_signed_in(&app.as_user(&mine[1])).await);
    assert_eq!(log_out(&app.as_user(&mine[1]), true).await, 2);
    for user in &mine {
        assert!(!is_signed_in(&app.as_user(user)).await);
        eventually(
            DEAD_WITHIN,
            "the end of the session at the other node",
            async || !is_signed_in(&second.as_user(user)).await,
        )
        .await;
    }
    assert!(
        is_signed_in(&app.as_user(&other)).await && is_signed_in(&second.as_user(&other)).await
    );

    // The account lives on.
    assert!(is_signed_in(&app.as_user(&app.log_in(&phone).await)).await);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_granted_role_reaches_living_sessions_on_every_node_and_so_does_its_end() {
    let mut app = TestApp::start().await;
    let second = app.second_node().await;
    let user = app.user().await;
    let create = async |client: &Client| {
        let location = json!({ "latitude": 21.0287, "longitude": 105.8524 });
        let input = json!({ "name": "Phở", "typeId": schema::scalars::global_id("ShopType", 1), "location": location });
        let query =
            "mutation($input: CreateShopInput!) { createShop(input: $input) { shop { id } } }";
        client
            .gql(query, json!({ "input": input }))
            .await
            .code()
            .map(str::to_owned)
    };
    for (role, refusal) in [
        (Role::User, Some("FORBIDDEN")),
        (Role::Merchant, None),
        (Role::User, Some("FORBIDDEN")),
    ] {
        app.services()
            .users
            .grant(&Phone::parse(&user.phone).unwrap(), role)
            .await
            .unwrap();
        assert_eq!(create(&app.as_user(&user)).await.as_deref(), refusal);
        let there = second.as_user(&user);
        eventually(DEAD_WITHIN, "the role at the other node", async || {
            create(&there).await.as_deref() == refusal
        })
        .await;
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ban_ends_sessions_and_sockets_on_all_nodes_and_keeps_out_until_it_is_lifted() {
    let mut app = TestApp::start().await;
    let second = app.second_node().await;
    let phone = random_phone();
    let user = app.log_in(&phone).await;
    let admin = app.as_user(&app.admin().await);
    let elsewhere = second.as_user(&user);
    assert!(is_signed_in(&elsewhere).await);
    let mut socket = Subscription::open(
        &elsewhere,
        "subscription { orderUpdates { id } }",
        Value::Null,
    )
    .await;

    let ban = async |client: &Client, banned: bool| {
        let query = "mutation($input: SetUserBannedInput!) { setUserBanned(input: $input) { banned user { id } } }";
        let id = schema::scalars::global_id("User", user.id).to_string();
        client
            .gql(
                query,
                json!({ "input": { "userId": id, "banned": banned } }),
            )
            .await
    };
    ban(&app.as_user(&app.merchant().await), true)
        .await
        .expect_code("FORBIDDEN");
    assert_eq!(ban(&admin, true).await.at("setUserBanned.banned"), true);
    assert_eq!(
        ban(&admin, true).await.at("setUserBanned.banned"),
        true,
        "again is the same"
    );
    eventually(
        DEAD_WITHIN,
        "the session's end at the other node",
        async || !is_signed_in(&elsewhere).await,
    )
    .await;
    let closed = eventually(DEAD_WITHIN, "the socket's end", async || {
        match socket.event(DEAD_WITHIN).await {
            Event::Closed(code) => Some(code),
            _ => None,
        }
    })
    .await;
    assert_eq!(closed, 4403);

    let refused = async || {
        let key = crate::support::people::request_login_code(&app.client(), &phone).await;
        key.code().map(str::to_owned)
    };
    let_pass(&app, MINUTE).await;
    assert_eq!(
        refused().await,
        None,
        "a code is sent, for nobody is told who is banned"
    );
    let code = app.inbox.code_for(&phone).await;
    crate::support::people::try_log_in(&app.client(), &phone, &code)
        .await
        .expect_code("FORBIDDEN");
    assert_eq!(ban(&admin, false).await.at("setUserBanned.banned"), false);
    let_pass(&app, MINUTE).await;
    app.log_in(&phone).await;
    app.finish().await;
}
