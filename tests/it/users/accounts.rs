//! Accounts: one a phone, made by the first login or by the operator, on every database.

use std::collections::HashSet;

use domain::users::{Phone, Role};
use entity::user;
use futures_util::future::join_all;
use sea_orm::{ColumnTrait, EntityTrait, PaginatorTrait, QueryFilter};
use serde_json::{Value, json};

use super::{MINUTE, VIEWER, let_pass, update_profile};
use crate::support::app::TestApp;
use crate::support::people::{random_phone, request_login_code, try_log_in};
use crate::support::process::run;
use crate::support::stores::Store;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_login_registers_and_every_spelling_of_a_phone_is_the_same_account() {
    let app = TestApp::start().await;
    let phone = random_phone();
    let national = &phone[3..];
    let full_width: String = national
        .chars()
        .map(|c| char::from_u32(c as u32 - '0' as u32 + '０' as u32).unwrap())
        .collect();
    let spellings = [
        national.to_owned(),
        format!("0086 {} {}", &national[..3], &national[3..]),
        format!("+86-{}-{}", &national[..3], &national[3..]),
        format!("＋８６（{full_width}）"),
    ];
    let mut accounts = HashSet::new();
    for (turn, spelling) in spellings.iter().enumerate() {
        request_login_code(&app.client(), spelling).await.data();
        let code = app.inbox.code_for(&phone).await;
        // The code is typed with the phone in another spelling than it was asked for.
        let other = &spellings[(turn + 1) % spellings.len()];
        let token = try_log_in(&app.client(), other, &code)
            .await
            .text("login.token")
            .to_owned();
        let viewer = app
            .client()
            .with_token(&token)
            .gql(VIEWER, Value::Null)
            .await;
        assert_eq!(viewer.text("viewer.phone"), phone);
        accounts.insert(viewer.text("viewer.user.id").to_owned());
        let_pass(&app, MINUTE).await;
    }
    assert_eq!(accounts.len(), 1);
    assert_eq!(user::Entity::find().count(app.db()).await.unwrap(), 1);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_phone_that_is_registered_many_times_at_once_is_one_user() {
    let app = TestApp::start().await;
    let phone = Phone::parse(&random_phone()).unwrap();
    let grants = (0..8).map(|_| {
        let (users, phone) = (app.services().users.clone(), phone.clone());
        tokio::spawn(async move { users.grant(&phone, Role::Admin).await.unwrap().id })
    });
    let ids: HashSet<i64> = join_all(grants)
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    assert_eq!(ids.len(), 1);
    let rows = user::Entity::find()
        .filter(user::Column::Phone.eq(phone.e164()))
        .all(app.db())
        .await
        .unwrap();
    assert_eq!(
        rows.iter().map(|row| row.role).collect::<Vec<_>>(),
        [Role::Admin]
    );
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_banned_user_cannot_log_in() {
    let app = TestApp::start().await;
    let user = app.log_in(&random_phone()).await;
    let ban = user::Entity::update_many()
        .col_expr(user::Column::BannedAt, 1_i64.into())
        .filter(user::Column::Id.eq(user.id));
    ban.exec(app.db()).await.unwrap();
    let_pass(&app, MINUTE).await;
    request_login_code(&app.client(), &user.phone).await.data();
    let code = app.inbox.code_for(&user.phone).await;
    try_log_in(&app.client(), &user.phone, &code)
        .await
        .expect_code("FORBIDDEN");
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_operator_makes_the_first_administrator_and_sessions_for_drills() {
    let app = TestApp::start().await;
    let env = app.stores.env();
    let phone = random_phone();
    let granted = run(&["admin", "grant", &phone, "ADMIN"], &env).await;
    assert!(granted.status.success(), "{}", granted.stderr);
    let admin = app.log_in(&phone).await;
    let role = app
        .as_user(&admin)
        .gql("{ viewer { role } }", Value::Null)
        .await;
    assert_eq!(role.text("viewer.role"), "ADMIN");
    assert!(
        !run(&["admin", "grant", "12345", "ADMIN"], &env)
            .await
            .status
            .success()
    );

    let file = app.stores.folder.path().join("sessions.jsonl");
    let path = file.display().to_string();
    let minted = run(
        &["admin", "sessions", "--count", "1500", "--out", &path],
        &env,
    )
    .await;
    assert!(minted.status.success(), "{}", minted.stderr);
    let text = std::fs::read_to_string(&file).unwrap();
    let sessions: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let tokens: HashSet<&str> = sessions
        .iter()
        .map(|session| session["token"].as_str().unwrap())
        .collect();
    assert_eq!((sessions.len(), tokens.len()), (1500, 1500));
    for session in [&sessions[0], &sessions[1499]] {
        let viewer = app
            .client()
            .with_token(session["token"].as_str().unwrap())
            .gql(VIEWER, Value::Null)
            .await;
        assert_eq!(
            (viewer.at("viewer.user.id"), viewer.at("viewer.phone")),
            (&session["userId"], &session["phone"])
        );
        assert!(
            viewer.text("viewer.phone").starts_with("+999"),
            "a phone that somebody may have"
        );
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn logins_work_on_every_database() {
    for store in [Store::Sqlite, Store::Postgres] {
        let app = TestApp::build().on(store).start().await;
        let phone = random_phone();
        let client = app.as_user(&app.log_in(&phone).await);
        let change =
            json!({ "nickname": "😀", "gender": "FEMALE", "birthday": "2000-02-29", "city": null });
        update_profile(&client, change).await.data();
        app.services()
            .users
            .grant(&Phone::parse(&phone).unwrap(), Role::Merchant)
            .await
            .unwrap();
        let viewer = client
            .gql(
                "{ viewer { role user { nickname gender birthday } } }",
                Value::Null,
            )
            .await;
        let expected = json!({ "role": "MERCHANT", "user": { "nickname": "😀", "gender": "FEMALE", "birthday": "2000-02-29" } });
        assert_eq!(viewer.at("viewer"), &expected);
        assert_eq!(app.users(2_100).await.len(), 2_100);
        app.finish().await;
    }
}
