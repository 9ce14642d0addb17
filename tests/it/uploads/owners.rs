//! Whose a picture is: its owner uses and deletes it, others only look once something names it.

use std::collections::HashSet;

use domain::uploads::{Error, ImageId};
use domain::users::{Role, Session, UserId};
use entity::image::ImageState;
use serde_json::{Value, json};

use super::{PNG, file, files, known, upload};
use crate::support::app::TestApp;
use crate::support::people::TestUser;
use crate::support::stores::Store;

const DELETE: &str = "mutation($id: ID!) { deleteImage(input: { imageId: $id }) { imageId } }";
const NODE: &str = "query($id: ID!) { node(id: $id) { id ... on Image { url width height } } }";
const AVATAR: &str =
    "mutation($id: ID!) { updateProfile(input: { avatarImageId: $id }) { user { avatarUrl } } }";

fn session(user: &TestUser) -> Session {
    Session::of_command(UserId(user.id), Role::User)
}

fn number(id: &str) -> ImageId {
    let id = async_graphql::ID::from(id);
    ImageId(schema::scalars::parse_id(&id, "Image", "id").unwrap())
}

async fn the_owner_deletes_and_nobody_else(store: Store) {
    let app = TestApp::build().on(store).start().await;
    let (owner, other) = (app.user().await, app.user().await);
    let (owner, other) = (app.as_user(&owner), app.as_user(&other));
    let answer = upload(&owner, &file(4, 4, PNG)).await;
    let id = json!({ "id": answer.id() });
    other.gql(DELETE, id.clone()).await.expect_code("NOT_FOUND");
    let unknown = json!({ "id": schema::scalars::global_id("Image", 7).to_string() });
    other.gql(DELETE, unknown).await.expect_code("NOT_FOUND");
    let path = json!({ "id": answer.path() });
    let refused = owner.gql(DELETE, path).await;
    let refused = refused.expect_code("BAD_INPUT");
    assert_eq!(refused["extensions"]["argument"], "input.imageId");
    assert_eq!(app.client().get(&answer.path()).await.status(), 200);

    let deleted = owner.gql(DELETE, id.clone()).await;
    assert_eq!(deleted.text("deleteImage.imageId"), answer.id());
    assert_eq!(app.client().get(&answer.path()).await.status(), 404);
    assert_eq!((known(&app).await, files(&app)), (0, 0));
    owner.gql(DELETE, id.clone()).await.expect_code("NOT_FOUND");
    assert_eq!(owner.gql(NODE, id).await.at("node"), &Value::Null);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_owner_deletes_and_nobody_else_on_mariadb() {
    the_owner_deletes_and_nobody_else(Store::MariaDb).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_owner_deletes_and_nobody_else_on_sqlite() {
    the_owner_deletes_and_nobody_else(Store::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_owner_deletes_and_nobody_else_on_postgres() {
    the_owner_deletes_and_nobody_else(Store::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_own_pictures_are_taken_into_use() {
    let app = TestApp::start().await;
    let (owner, other) = (app.user().await, app.user().await);
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(number(
            &upload(&app.as_user(&owner), &file(4, 4, PNG)).await.id(),
        ));
    }
    let uploads = &app.services().uploads;
    let kept = async || {
        let images = uploads.get_many(&ids).await.unwrap();
        let kept = images.iter().filter(|i| i.state == ImageState::Kept);
        kept.map(|i| ImageId(i.id)).collect::<HashSet<_>>()
    };
    for wanted in [&[][..], &[ids[2], ids[0]]] {
        let taken = uploads.require_owned(&session(&owner), wanted, &[]).await;
        taken.unwrap();
        assert_eq!(kept().await, wanted.iter().copied().collect());
    }
    for asked in [vec![ids[0]], vec![ids[1], ImageId(7)]] {
        let refused = uploads.require_owned(&session(&other), &asked, &[]).await;
        assert!(matches!(
            refused,
            Err(Error::NotYours {
                argument: "input.imageIds"
            })
        ));
    }
    let refused = uploads
        .require_owned(&session(&owner), &[ids[1], ImageId(7)], &[])
        .await;
    assert!(matches!(refused, Err(Error::NotYours { .. })));
    assert!(
        !kept().await.contains(&ids[1]),
        "a refusal takes nothing into use"
    );
    // What stands there already may be anybody's.
    let (stranger, stands) = (session(&other), &ids[..1]);
    let again = uploads.require_owned(&stranger, stands, stands);
    again.await.unwrap();
    let url = uploads.url_of(ids[0]).await.unwrap().unwrap();
    assert!(
        url.starts_with(&format!("{}/uploads/", app.client().base_url())),
        "{url}"
    );
    assert_eq!(uploads.url_of(ImageId(7)).await.unwrap(), None);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_avatar_is_a_picture_of_ones_own_and_then_everybodys_to_see() {
    let app = TestApp::start().await;
    let (owner, other) = (app.user().await, app.user().await);
    let (owner, other) = (app.as_user(&owner), app.as_user(&other));
    let answer = upload(&owner, &file(6, 4, PNG)).await;
    let id = json!({ "id": answer.id() });
    for stranger in [&other, &app.client()] {
        assert_eq!(
            stranger.gql(NODE, id.clone()).await.at("node"),
            &Value::Null
        );
    }
    let own = owner.gql(NODE, id.clone()).await;
    assert_eq!((own.int("node.width"), own.int("node.height")), (6, 4));

    let refused = other.gql(AVATAR, id.clone()).await;
    let refused = refused.expect_code("BAD_INPUT");
    assert_eq!(refused["extensions"]["argument"], "input.avatarImageId");
    let both = "mutation($id: ID!) { updateProfile(input: { avatarImageId: $id, avatarUrl: null }) { user { id } } }";
    owner.gql(both, id.clone()).await.expect_code("BAD_INPUT");
    let set = owner.gql(AVATAR, id.clone()).await;
    let url = set.text("updateProfile.user.avatarUrl");
    assert_eq!(url, answer.image()["url"].as_str().unwrap());
    assert_eq!(reqwest::get(url).await.unwrap().status(), 200);
    let seen = other.gql(NODE, id.clone()).await;
    assert_eq!(seen.text("node.url"), url);
    // With the picture goes the avatar; another picture's going leaves it.
    let avatar = async || {
        let me = "{ viewer { user { avatarUrl } } }";
        let answer = owner.gql(me, Value::Null).await;
        answer.at("viewer.user.avatarUrl").clone()
    };
    let another = upload(&owner, &file(6, 4, PNG)).await;
    let another = json!({ "id": another.id() });
    owner.gql(DELETE, another).await.data();
    assert_eq!(avatar().await, json!(url));
    owner.gql(DELETE, id).await.data();
    assert_eq!(avatar().await, Value::Null);
    app.finish().await;
}
