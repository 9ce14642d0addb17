//! The way to Redis, when its other end is gone without a word.

use std::time::{Duration, Instant};

use domain::infra::redis::Redis;
use futures_util::future::join_all;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::support::proxy::Proxy;
use crate::support::stores::{shared, unique};
use crate::support::wait::eventually;

/// Three heartbeats and their rests, and room for a busy machine.
const GIVEN_UP: Duration = Duration::from_secs(30);
const CALLERS: u32 = 60;
/// One attempt to connect, for those who came before it and those who came during it.
const TWO_ATTEMPTS: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_whose_other_end_is_gone_without_a_word_is_given_up() {
    let url = shared("LM_TEST_REDIS_URL");
    let wire = Proxy::to(url.strip_prefix("redis://").unwrap()).await;
    let redis = Redis::new(&format!("redis://127.0.0.1:{}", wire.port()), &unique()).unwrap();
    let (alive, stop) = (redis.clone(), CancellationToken::new());
    let until = stop.clone();
    let heartbeats = tokio::spawn(async move { alive.keep_alive(until).await });
    assert!(redis.is_up().await);
    wire.lose();
    assert!(!redis.is_up().await, "the wire is still whole");
    eventually(GIVEN_UP, "a connection that works", async || {
        redis.is_up().await
    })
    .await;
    stop.cancel();
    heartbeats.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_for_a_connection_that_never_comes_waits_for_no_attempt_of_his_own() {
    // Connections come to it, and nobody takes them.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}", silent.local_addr().unwrap());
    let redis = Redis::new(&url, &unique()).unwrap();
    let began = Instant::now();
    let answers = join_all((0..CALLERS).map(|_| redis.is_up())).await;
    assert!(answers.iter().all(|is_up| !is_up));
    // One after the other they would take a minute.
    assert!(began.elapsed() < TWO_ATTEMPTS, "{:?}", began.elapsed());
}
