//! Features that are switched off: on every node within a second, told in the answer, and the sale goes on.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::client::{Answer, Client};
use crate::support::sale::seckill;
use crate::support::wait::eventually;

const SOON: Duration = Duration::from_secs(5);

async fn switch(admin: &Client, name: &str, on: bool) -> Answer {
    let query = "mutation($input: SetFeatureSwitchInput!) { setFeatureSwitch(input: $input) { featureSwitch { name on updatedAt } } }";
    admin
        .gql(query, json!({ "input": { "name": name, "on": on } }))
        .await
}

fn degraded(answer: &Answer) -> Value {
    answer
        .body
        .pointer("/extensions/degraded")
        .cloned()
        .unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_switch_holds_on_all_nodes_is_told_in_the_answer_and_survives_a_restart() {
    let mut app = TestApp::start().await;
    let second = app.second_node().await;
    let sale = app.sale().await.stock(2).create().await;
    let admin = app.as_user(&app.admin().await);
    switch(&app.client(), "SHOP_SEARCH", false)
        .await
        .expect_code("UNAUTHENTICATED");
    switch(&app.as_user(&app.merchant().await), "SHOP_SEARCH", false)
        .await
        .expect_code("FORBIDDEN");

    let search = "{ shops(filter: { name: \"noodle\" }) { edges { node { name } } } }";
    let nearby = "{ shopsNearby(center: { latitude: 21.0287, longitude: 105.8524 }) { edges { node { name } } } }";
    let by_sales = "{ shops(sort: SOLD) { edges { node { name } } } }";
    for query in [search, nearby, by_sales] {
        let answer = second.gql(query, Value::Null).await;
        assert_eq!(degraded(&answer), Value::Null, "{}", answer.body);
    }
    for name in ["SHOP_SEARCH", "SHOPS_NEARBY", "SHOPS_BY_SALES"] {
        assert_eq!(
            switch(&admin, name, false)
                .await
                .at("setFeatureSwitch.featureSwitch.on"),
            false
        );
    }
    // The node that was told knows it at once.
    assert_eq!(
        degraded(&app.gql(search, Value::Null).await),
        json!(["shops"])
    );
    eventually(SOON, "the other node", async || {
        let answer = second.gql(nearby, Value::Null).await;
        degraded(&answer) == json!(["shopsNearby"]) && answer.list("shopsNearby.edges").is_empty()
    })
    .await;
    let answer = second.gql(by_sales, Value::Null).await;
    assert_eq!(degraded(&answer), json!(["shops"]));
    assert_eq!(
        answer.list("shops.edges").len(),
        1,
        "in another order, but there"
    );
    assert_eq!(
        second
            .gql(search, Value::Null)
            .await
            .list("shops.edges")
            .len(),
        0
    );

    // The sale goes on, and a node that starts now knows the switches.
    seckill(&app.as_user(&app.user().await), &sale.voucher, "r1")
        .await
        .accepted();
    let third = app.second_node().await;
    assert_eq!(
        degraded(&third.gql(nearby, Value::Null).await),
        json!(["shopsNearby"])
    );

    switch(&admin, "SHOP_SEARCH", true).await.data();
    eventually(SOON, "the search", async || {
        second
            .gql(search, Value::Null)
            .await
            .list("shops.edges")
            .len()
            == 1
    })
    .await;
    let listed = admin
        .gql("{ featureSwitches { name on updatedAt } }", Value::Null)
        .await;
    let on: Vec<_> = listed
        .list("featureSwitches")
        .iter()
        .filter(|s| s["on"] == true)
        .collect();
    assert_eq!((listed.list("featureSwitches").len(), on.len()), (5, 3));
    app.gql("{ featureSwitches { name } }", Value::Null)
        .await
        .expect_code("UNAUTHENTICATED");
    app.finish().await;
}
