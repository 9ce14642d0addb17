//! Anything by its id: a hundred at once, in their order, and null for what is not there.

use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::sale::create_shop;
use crate::support::stores::Store;

const NODES: &str = "query($ids: [ID!]!) { nodes(ids: $ids) { __typename id } }";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_things_come_in_their_order_and_more_are_refused() {
    let app = TestApp::build().on(Store::Sqlite).start().await;
    let merchant = app.merchant().await;
    let client = app.as_user(&merchant);
    let shop = create_shop(&client).await;
    let users = app.users(60).await;
    let mut ids: Vec<String> = users
        .iter()
        .map(|user| schema::scalars::global_id("User", user.id).to_string())
        .collect();
    ids.push(shop.clone());
    ids.push(schema::scalars::global_id("Shop", 77).to_string());
    ids.push("no id of ours".to_owned());
    ids.extend(std::iter::repeat_n(shop.clone(), 100 - ids.len()));

    let answer = client.gql(NODES, json!({ "ids": ids })).await;
    let found = answer.list("nodes");
    assert_eq!(found.len(), 100);
    for (id, node) in ids.iter().zip(found) {
        if *id == ids[61] || *id == ids[62] {
            assert_eq!(node, &Value::Null, "{id}");
        } else {
            assert_eq!(node["id"], json!(id));
        }
    }
    ids.push(shop);
    let refused = client.gql(NODES, json!({ "ids": ids })).await;
    assert_eq!(
        refused.expect_code("BAD_INPUT")["extensions"]["argument"],
        json!("ids")
    );
    app.finish().await;
}
