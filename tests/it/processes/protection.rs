//! Limits and switches of two servers.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::pair::Pair;
use crate::support::client::{Answer, Client};
use crate::support::sale::create_shop;
use crate::support::wait::eventually;

/// What is promised of a switch.
const EFFECTIVE: Duration = Duration::from_secs(1);

/// A call under the limit of 60 a minute; the order is nobody's, so one that passes is `NOT_FOUND`.
async fn call(client: &Client) -> Answer {
    let query = "mutation { cancelOrder(input: { orderId: \"x\" }) { result { __typename } } }";
    client.gql(query, Value::Null).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_hundred_calls_at_two_servers_sixty_pass_and_the_others_are_counted_as_refused() {
    let pair = Pair::start().await;
    let token = pair.signed_in("user").await;
    let clients = pair.nodes.each_ref().map(|n| n.client().with_token(&token));
    let answers = join_all((0..200).map(|n| call(&clients[n % 2]))).await;
    let with = |code| answers.iter().filter(|a| a.code() == Some(code)).count();
    assert_eq!((with("NOT_FOUND"), with("RATE_LIMITED")), (60, 140));
    let limits = async |rule: &str, outcome: &str| {
        let labels = [
            &*format!("rule=\"{rule}\""),
            &format!("outcome=\"{outcome}\""),
        ];
        pair.sum("lifemate_rate_limits_total", &labels).await
    };
    assert_eq!(limits("order_writes", "passed").await, 60);
    assert_eq!(limits("order_writes", "refused").await, 140);

    // Nobody can count: this one is open then, and that is counted.
    for wire in &pair.redis_wires {
        wire.cut();
    }
    let list = "{ shops(first: 1) { pageInfo { hasNextPage } } }";
    let answer = pair.nodes[0].client().gql(list, Value::Null).await;
    answer.data();
    assert_eq!(limits("lists", "failed_open").await, 1);
    for wire in &pair.redis_wires {
        wire.mend();
    }
    pair.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_switch_holds_at_the_other_server_within_a_second_and_after_a_restart() {
    let mut pair = Pair::start().await;
    let admin = pair.nodes[0]
        .client()
        .with_token(&pair.signed_in("admin").await);
    let shops = [
        create_shop(&pair.merchant).await,
        create_shop(&pair.merchant).await,
    ];
    let switch = async |on: bool| {
        let query = "mutation($input: SetFeatureSwitchInput!) { setFeatureSwitch(input: $input) { featureSwitch { on } } }";
        let input = json!({ "input": { "name": "SHOPS_BY_SALES", "on": on } });
        admin.gql(query, input).await.data();
    };
    let listed = async |client: Client| {
        let query = "{ shops(sort: SOLD) { edges { node { id } } } }";
        client.gql(query, Value::Null).await
    };
    let is_off = |answer: &Answer| answer.body["extensions"]["degraded"] == json!(["shops"]);
    let second = pair.nodes[1].client();
    assert!(!is_off(&listed(second.clone()).await));
    switch(false).await;
    eventually(EFFECTIVE, "the switch at the other server", async || {
        is_off(&listed(second.clone()).await)
    })
    .await;
    pair.restart_second().await;
    let second = pair.nodes[1].client();
    let answer = listed(second.clone()).await;
    assert!(is_off(&answer), "from its first answer on: {}", answer.body);
    let newest_first: Vec<&str> = answer
        .list("shops.edges")
        .iter()
        .map(|edge| edge["node"]["id"].as_str().unwrap())
        .collect();
    assert_eq!(newest_first, [&shops[1], &shops[0]], "the fallback");
    switch(true).await;
    eventually(EFFECTIVE, "the feature at the other server", async || {
        !is_off(&listed(second.clone()).await)
    })
    .await;
    pair.end().await;
}
