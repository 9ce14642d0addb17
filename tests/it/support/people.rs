//! Accounts with sessions: many at once through the stores, or one by one as a person logs in.

use domain::Services;
use domain::users::{Role, Session, UserId};
use schema::scalars::global_id;
use serde_json::json;

use super::app::TestApp;
use super::client::{Answer, Client};

/// Somebody with an account and a session.
#[derive(Clone, Debug)]
pub(crate) struct TestUser {
    pub(crate) id: i64,
    /// E.164.
    pub(crate) phone: String,
    pub(crate) token: String,
}

/// A phone number that no other test uses, E.164.
pub(crate) fn random_phone() -> String {
    format!("+86139{:08}", rand::random::<u32>() % 100_000_000)
}

/// Registers people in bulk, each with a session.
pub(crate) async fn mint_users(services: &Services, count: u32) -> Vec<TestUser> {
    let minted = services.users.mint_sessions(count).await.unwrap();
    minted
        .into_iter()
        .map(|session| TestUser {
            id: session.user_id.0,
            phone: session.phone,
            token: session.token,
        })
        .collect()
}

/// Asks for a login code.
pub(crate) async fn request_login_code(client: &Client, phone: &str) -> Answer {
    let query =
        "mutation($phone: String!) { requestLoginCode(input: { phone: $phone }) { __typename } }";
    client.gql(query, json!({ "phone": phone })).await
}

/// Trades a code for a session; the answer may be a refusal.
pub(crate) async fn try_log_in(client: &Client, phone: &str, code: &str) -> Answer {
    let query = "mutation($phone: String!, $code: String!) { login(input: { phone: $phone, code: $code }) { token } }";
    client
        .gql(query, json!({ "phone": phone, "code": code }))
        .await
}

/// One white pixel.
const PNG: &str = "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63f8ffff3f0005fe02fe0def46b80000000049454e44ae426082";

/// A picture of somebody's, not in use yet; its id.
pub(crate) async fn upload_picture(app: &TestApp, user: &TestUser) -> String {
    let session = Session::of_command(UserId(user.id), Role::User);
    let file = hex::decode(PNG).unwrap();
    let image = app.services().uploads.add(&session, file).await.unwrap();
    global_id("Image", image.id).0
}
