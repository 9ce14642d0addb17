//! Two servers when Redis is late for one of them, or away for both.

use std::time::{Duration, Instant};

use domain::infra::cache::LOCAL_LIFE;
use futures_util::future::join_all;
use serde_json::{Value, json};

use super::cache::{crowd, number, rename};
use super::pair::Pair;
use crate::cache::storms::BATCHES;
use crate::support::process::run_test;
use crate::support::sale::create_shop;
use crate::support::wait::eventually;

const SOON: Duration = Duration::from_secs(20);
/// So late is as good as lost: a copy lives five seconds.
const LATE: Duration = Duration::from_secs(8);
/// Each answer of the database, three for a read.
const SLOW: Duration = Duration::from_millis(70);
const SHOP: &str =
    "query($id: ID!, $min: String) { shop(id: $id, minVersion: $min) { name version } }";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_outlives_a_lost_broadcast_by_five_seconds_and_a_wanted_version_not_at_all() {
    let pair = Pair::start().await;
    let shop = create_shop(&pair.merchant).await;
    let ask = async |node: usize, min: Option<&str>| {
        let wish = json!({ "id": shop, "min": min });
        pair.nodes[node].client().gql(SHOP, wish).await
    };
    let old = ask(1, None).await.text("shop.name").to_owned();
    let heard = pair.heard(1, "shop").await;
    pair.redis_wires[1].slow(LATE);
    rename(&pair.merchant, &shop, "Second").await.data();
    let written = Instant::now();
    assert_eq!(ask(0, None).await.text("shop.name"), "Second");
    assert_eq!(ask(1, None).await.text("shop.name"), old, "its copy");
    eventually(SOON, "the end of the copy", async || {
        ask(1, None).await.text("shop.name") == "Second"
    })
    .await;
    let late = written.elapsed();
    assert!(late <= LOCAL_LIFE + Duration::from_millis(700), "{late:?}");
    assert_eq!(pair.heard(1, "shop").await, heard, "nobody told it");

    rename(&pair.merchant, &shop, "Third").await.data();
    assert_eq!(ask(1, None).await.text("shop.name"), "Second", "a copy");
    assert_eq!(ask(1, Some("3")).await.text("shop.name"), "Third");
    assert_eq!(
        ask(1, None).await.text("shop.name"),
        "Third",
        "never older again"
    );
    for node in [0, 1] {
        let later = ask(node, Some("4")).await;
        let error = later.expect_code("TRY_LATER");
        assert_eq!(error["path"], json!(["shop"]));
        assert_eq!(later.body["data"], json!({ "shop": null }));
    }
    pair.redis_wires[1].slow(Duration::ZERO);
    // It listens again.
    pair.forget_copies(&format!("shop:{}", number(&shop))).await;
    pair.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_redis_shops_come_from_the_database_and_its_return_brings_no_stampede() {
    let pair = Pair::start().await;
    let mut shops = Vec::new();
    for _ in 0..40 {
        shops.push(create_shop(&pair.merchant).await);
    }
    for wire in &pair.redis_wires {
        wire.cut();
    }
    let ask = async |node: usize, shop: &str| {
        let wish = json!({ "id": shop });
        pair.nodes[node].client().gql(SHOP, wish).await
    };
    let answers = join_all(shops.iter().flat_map(|shop| [ask(0, shop), ask(1, shop)])).await;
    for answer in &answers {
        assert_eq!(answer.text("shop.version"), "1");
        assert_eq!(answer.body["extensions"]["degraded"], json!(["shop"]));
    }
    let bulkhead = ["kind=\"shop\"", "tier=\"database\"", "result=\"bulkhead\""];
    let looks = "lifemate_cache_requests_total";
    assert!(pair.sum(looks, &bulkhead).await >= 80);
    let away = ["kind=\"shop\"", "tier=\"redis\"", "result=\"away\""];
    assert!(pair.sum(looks, &away).await >= 80);

    for wire in &pair.redis_wires {
        wire.mend();
    }
    let key = format!("shop:{}", number(&shops[0]));
    for node in [0, 1] {
        eventually(SOON, "the return", async || {
            // A copy would not ask Redis.
            pair.forget_copies(&key).await;
            ask(node, &shops[0]).await.body.get("extensions").is_none()
        })
        .await;
    }
    let drop_body = deadpool_redis::redis::cmd("HDEL")
        .arg(pair.redis.key(format!("cache:{key}")))
        .arg("body")
        .to_owned();
    pair.redis.query::<i64>(&drop_body).await.unwrap();
    pair.forget_copies(&key).await;
    pair.database_wire.slow(SLOW);
    let clients = [pair.nodes[0].client(), pair.nodes[1].client()];
    let before = pair.rebuilds("shop").await;
    let (answers, _) = crowd(&clients, SHOP, &json!({ "id": shops[0] })).await;
    for answer in answers {
        assert_eq!(answer.text("shop.version"), "1");
        assert_eq!(answer.body.get("extensions"), None::<&Value>);
    }
    let reads = pair.rebuilds("shop").await - before;
    assert_eq!(reads, 1, "{}", pair.story().await);
    pair.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_memory_of_a_process_is_as_large_after_four_storms_of_keys_as_after_one() {
    let storm = "cache::storms::a_storm_of_keys_stays_within_the_bounds_of_number_and_bytes";
    let mut peaks = Vec::new();
    for batches in [100, 400] {
        let output = run_test(storm, &[(BATCHES, batches.to_string())]).await;
        assert!(output.status.success(), "{}", output.stdout);
        assert!(output.stdout.contains("1 passed"), "{}", output.stdout);
        peaks.push(output.peak_kib);
    }
    let [one, four] = peaks[..] else {
        unreachable!()
    };
    assert!(one > 0 && four < one * 5 / 4, "{one} KiB, then {four} KiB");
}
