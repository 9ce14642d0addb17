//! Profiles: what is kept, what is refused, who sees what.

use entity::user;
use sea_orm::EntityTrait;
use serde_json::{Value, json};

use super::{VIEWER, update_profile};
use crate::support::app::TestApp;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_profile_keeps_what_was_typed_byte_for_byte() {
    let app = TestApp::start().await;
    let user = app.user().await;
    let client = app.as_user(&user);
    let typed = json!({
        "nickname": "👩‍👩‍👧‍👦 河内<b>'\"\\",
        "avatarUrl": "https://cdn.example/a.png?x=1&y=%20",
        "city": "Hà Nội",
        "intro": "line one\n𝔏𝔦𝔫𝔢 two 🏳️‍🌈",
        "gender": "OTHER",
        "birthday": "2000-02-29",
    });
    assert_eq!(
        update_profile(&client, typed.clone())
            .await
            .at("updateProfile.user"),
        &typed
    );
    let row = user::Entity::find_by_id(user.id)
        .one(app.db())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (row.nickname.as_str(), row.version),
        (typed["nickname"].as_str().unwrap(), 2)
    );

    // What is left out stays, null clears, a null nickname stays.
    let answer = update_profile(
        &client,
        json!({ "nickname": null, "city": null, "birthday": null, "intro": "" }),
    )
    .await;
    let mut expected = typed.clone();
    for (field, value) in [
        ("city", Value::Null),
        ("birthday", Value::Null),
        ("intro", json!("")),
    ] {
        expected[field] = value;
    }
    assert_eq!(answer.at("updateProfile.user"), &expected);
    assert_eq!(
        update_profile(&client, json!({}))
            .await
            .at("updateProfile.user"),
        &expected
    );
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_profile_that_breaks_a_rule_is_refused_and_nothing_of_it_is_kept() {
    let app = TestApp::start().await;
    let client = app.as_user(&app.user().await);
    let refused = [
        (
            "input.nickname",
            json!({ "nickname": "x".repeat(33), "city": "Huế" }),
        ),
        ("input.nickname", json!({ "nickname": " ", "city": "Huế" })),
        (
            "input.nickname",
            json!({ "nickname": "a\u{0}b", "city": "Huế" }),
        ),
        (
            "input.nickname",
            json!({ "nickname": "a\u{202E}b", "city": "Huế" }),
        ),
        ("input.city", json!({ "city": "x".repeat(61) })),
        (
            "input.intro",
            json!({ "intro": "😀".repeat(201), "city": "Huế" }),
        ),
        (
            "input.avatarUrl",
            json!({ "avatarUrl": "javascript:alert(1)", "city": "Huế" }),
        ),
        (
            "input.birthday",
            json!({ "birthday": "9999-01-01", "city": "Huế" }),
        ),
    ];
    for (argument, input) in refused {
        let answer = update_profile(&client, input).await;
        assert_eq!(
            answer.expect_code("BAD_INPUT")["extensions"]["argument"],
            argument
        );
    }
    assert_eq!(
        update_profile(&client, json!({}))
            .await
            .at("updateProfile.user.city"),
        &Value::Null
    );
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn others_see_neither_phone_nor_birthday() {
    let app = TestApp::start().await;
    let (user, other) = (app.user().await, app.user().await);
    update_profile(&app.as_user(&user), json!({ "birthday": "2000-02-29" }))
        .await
        .data();
    let id = app
        .as_user(&user)
        .gql(VIEWER, Value::Null)
        .await
        .text("viewer.user.id")
        .to_owned();

    let query = "query($id: ID!) { user(id: $id) { id nickname birthday } node(id: $id) { ... on User { nickname birthday } } }";
    for reader in [app.client(), app.as_user(&other)] {
        let answer = reader.gql(query, json!({ "id": id })).await;
        assert_eq!(
            (
                answer.text("user.id"),
                answer.at("user.birthday"),
                answer.at("node.birthday")
            ),
            (id.as_str(), &Value::Null, &Value::Null)
        );
        assert!(
            !answer.body.to_string().contains(&user.phone[4..]),
            "{}",
            answer.body
        );
    }
    assert_eq!(
        app.as_user(&user)
            .gql(query, json!({ "id": id }))
            .await
            .text("user.birthday"),
        "2000-02-29"
    );

    let fields = "{ __type(name: \"User\") { fields { name } } }";
    let fields = app
        .gql(fields, Value::Null)
        .await
        .at("__type.fields")
        .to_string();
    assert!(!fields.to_lowercase().contains("phone"), "{fields}");
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_user_is_null_and_a_malformed_id_bad_input() {
    let app = TestApp::start().await;
    let query = "query($id: ID!) { user(id: $id) { id } }";
    let unknown = schema::scalars::global_id("User", 1);
    assert_eq!(
        app.gql(query, json!({ "id": unknown })).await.data(),
        &json!({ "user": null })
    );
    for id in [
        "",
        "1",
        "nonsense",
        schema::scalars::global_id("Shop", 1).as_str(),
    ] {
        assert_eq!(
            app.gql(query, json!({ "id": id }))
                .await
                .expect_code("BAD_INPUT")["extensions"]["argument"],
            "id"
        );
    }
    app.finish().await;
}
