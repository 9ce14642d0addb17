//! Many readers at once: on one hot key, on ids that do not exist, with Redis away, with more keys than there is room.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use deadpool_redis::redis::cmd;
use domain::infra::cache::{
    BULKHEAD, Cache, Error, Kind, LOCAL_BYTES_MOST, LOCAL_CAPACITY, LOCAL_MOST,
};
use domain::infra::locks::{Locks, Owner};

use super::{Brief, Lazy, Node, Row, Table, get};
use crate::support::private::PrivateRedis;
use crate::support::stores::{shared, unique};
use crate::support::wait::eventually;

const SLOW: Duration = Duration::from_millis(200);
const SOON: Duration = Duration::from_secs(20);

/// So many readers at once of one row on each cache; what they were told, and how long the slowest waited.
async fn crowd<K: Kind<Key = u64, Value = String> + Copy>(
    caches: &[&Cache],
    kind: K,
    table: &Table,
    readers: usize,
) -> (Vec<Result<Option<i64>, Error>>, Duration) {
    let began = Instant::now();
    let tasks: Vec<_> = caches
        .iter()
        .flat_map(|cache| (0..readers).map(move |_| (*cache).clone()))
        .map(|cache| {
            let table = table.clone();
            tokio::spawn(async move { get(&cache, kind, &table, 1, 0).await })
        })
        .collect();
    let mut told = Vec::new();
    for task in tasks {
        told.push(task.await.unwrap());
    }
    (told, began.elapsed())
}

async fn is_forgotten(node: &Node, kind: &str) -> bool {
    let redis = node.cache.redis();
    let key = redis.key(format!("cache:{kind}:1"));
    !redis.query::<bool>(cmd("EXISTS").arg(key)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_readers_of_an_expired_key_on_two_nodes_are_one_load() {
    let (url, deployment) = (shared("LM_TEST_REDIS_URL"), format!("t{}", unique()));
    let table = Table::new(SLOW);
    table.write(1, true);
    let early = Node::start(&url, &deployment).await;
    assert_eq!(early.get(Brief, &table, 1, 0).await.unwrap(), Some(1));
    eventually(SOON, "the expiry", async || {
        is_forgotten(&early, "brief").await
    })
    .await;
    table.write(1, true);
    let nodes = [
        Node::start(&url, &deployment).await,
        Node::start(&url, &deployment).await,
    ];
    let caches = [&nodes[0].cache, &nodes[1].cache];
    let before = table.loads();
    let (told, _) = crowd(&caches, Brief, &table, 500).await;
    assert_eq!(told.len(), 1_000);
    for one in told {
        assert_eq!(one.unwrap(), Some(2));
    }
    assert_eq!(table.loads() - before, 1, "one load for both nodes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_logical_expiry_all_get_the_old_value_at_once_and_one_load_brings_the_new() {
    let (url, deployment) = (shared("LM_TEST_REDIS_URL"), format!("t{}", unique()));
    let table = Table::new(SLOW);
    table.write(1, true);
    let first = Node::start(&url, &deployment).await;
    // A key never loaded is loaded, not absent.
    assert_eq!(first.get(Lazy, &table, 1, 0).await.unwrap(), Some(1));
    tokio::time::sleep(Duration::from_millis(250)).await;
    // Changed behind the cache's back: only the rebuild can bring it.
    table.write(1, true);
    let nodes = [
        Node::start(&url, &deployment).await,
        Node::start(&url, &deployment).await,
    ];
    let before = table.loads();
    let caches = [&nodes[0].cache, &nodes[1].cache];
    let (told, _) = crowd(&caches, Lazy, &table, 500).await;
    let old = told.iter().filter(|t| matches!(t, Ok(Some(1)))).count();
    let new = told.iter().filter(|t| matches!(t, Ok(Some(2)))).count();
    assert_eq!(old + new, 1_000);
    assert!(old > 500, "the old value was told: {old}");
    eventually(SOON, "the new value on both nodes", async || {
        let one = nodes[0].get(Lazy, &table, 1, 0).await.unwrap();
        let two = nodes[1].get(Lazy, &table, 1, 0).await.unwrap();
        (one, two) == (Some(2), Some(2))
    })
    .await;
    assert!(table.loads() - before <= 3, "{}", table.loads() - before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_the_lock_held_elsewhere_readers_are_told_to_come_later_and_old_values_still_come() {
    let (url, deployment) = (shared("LM_TEST_REDIS_URL"), format!("t{}", unique()));
    let table = Table::new(Duration::ZERO);
    table.write(1, true);
    let node = Node::start(&url, &deployment).await;
    node.get(Lazy, &table, 1, 0).await.unwrap();
    tokio::time::sleep(Duration::from_millis(250)).await;
    let (locks, owner) = (
        Locks::new(vec![node.cache.redis().clone()]),
        Owner::default(),
    );
    let mut held = Vec::new();
    for name in ["row:1", "lazy:1"] {
        let taken = locks.acquire(name, &owner, SOON, Duration::ZERO).await;
        held.push(taken.unwrap().unwrap());
    }
    let before = table.loads();
    let (told, took) = crowd(&[&node.cache], Row, &table, 100).await;
    assert!(told.iter().all(|t| matches!(t, Err(Error::TryLater))));
    assert!(took < Duration::from_secs(3), "{took:?}");
    let other = Node::start(&url, &deployment).await;
    let (told, _) = crowd(&[&other.cache], Lazy, &table, 100).await;
    assert!(told.iter().all(|t| matches!(t, Ok(Some(1)))));
    assert_eq!(table.loads(), before, "and nobody asked the table");
    for lock in held {
        lock.release().await.unwrap();
    }
    assert_eq!(node.get(Row, &table, 1, 0).await.unwrap(), Some(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn absent_ids_cost_one_load_each_and_a_row_that_is_made_is_found_at_once() {
    let (url, deployment) = (shared("LM_TEST_REDIS_URL"), format!("t{}", unique()));
    let table = Table::new(Duration::ZERO);
    let nodes = [
        Node::start(&url, &deployment).await,
        Node::start(&url, &deployment).await,
    ];
    // 10,000 requests for 20 ids, on both nodes.
    let tasks: Vec<_> = (0..10_000_u64)
        .map(|n| {
            let (cache, table) = (nodes[(n % 2) as usize].cache.clone(), table.clone());
            tokio::spawn(async move { get(&cache, Row, &table, n % 20, 0).await })
        })
        .collect();
    for task in tasks {
        assert_eq!(task.await.unwrap().unwrap(), None);
    }
    assert!(table.loads() <= 20, "{}", table.loads());
    nodes[0].write(Row, &table, 7, true).await;
    assert_eq!(nodes[0].get(Row, &table, 7, 0).await.unwrap(), Some(1));
    eventually(Duration::from_secs(2), "the other node", async || {
        nodes[1].get(Row, &table, 7, 0).await.unwrap() == Some(1)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_redis_down_few_at_a_time_ask_the_table_and_its_return_brings_no_stampede() {
    let (mut redis, deployment) = (PrivateRedis::start().await, format!("t{}", unique()));
    let table = Table::new(Duration::from_millis(20));
    for id in 0..200 {
        table.write(id, true);
    }
    let nodes = [
        Node::start(&redis.url(), &deployment).await,
        Node::start(&redis.url(), &deployment).await,
    ];
    nodes[0].get(Row, &table, 1, 0).await.unwrap();
    nodes[1].get(Row, &table, 1, 0).await.unwrap();
    redis.kill9();
    let tasks: Vec<_> = (0..200_u64)
        .map(|id| {
            let (cache, table) = (nodes[0].cache.clone(), table.clone());
            tokio::spawn(async move { get(&cache, Row, &table, id, 0).await })
        })
        .collect();
    for task in tasks {
        assert_eq!(task.await.unwrap().unwrap(), Some(1));
    }
    let most = table.0.most_at_once.load(Ordering::SeqCst);
    assert!(most <= BULKHEAD, "{most} at once");
    // A write while Redis is away: the node that wrote is new at once, Redis and the other learn it afterwards.
    assert_eq!(nodes[0].write(Row, &table, 1, true).await, 2);
    assert_eq!(nodes[0].get(Row, &table, 1, 0).await.unwrap(), Some(2));
    redis.start_again().await;
    eventually(SOON, "the other node", async || {
        nodes[1].get(Row, &table, 1, 0).await.unwrap() == Some(2)
    })
    .await;
    let fresh = [
        Node::start(&redis.url(), &deployment).await,
        Node::start(&redis.url(), &deployment).await,
    ];
    table.write(1, true);
    nodes[0].cache.invalidate(Row, &1, 3).await;
    let before = table.loads();
    let (told, _) = crowd(&[&fresh[0].cache, &fresh[1].cache], Row, &table, 200).await;
    for one in told {
        assert_eq!(one.unwrap(), Some(3));
    }
    assert_eq!(table.loads() - before, 1);
}

/// Pages of 1 to 4 KB.
#[derive(Clone, Copy)]
struct Page;

impl Kind for Page {
    type Key = u64;
    type Value = String;
    const NAME: &'static str = "page";
}

/// How many times 500 keys the storm below has; 250 MB of pages in 200.
pub(crate) const BATCHES: &str = "STORM_BATCHES";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_of_keys_stays_within_the_bounds_of_number_and_bytes() {
    // No Redis there: every key comes from its loader, as fast as it can.
    let node = Node::deaf("redis://127.0.0.1:1", &format!("t{}", unique()));
    let (mut most, mut most_bytes) = (0, 0);
    let batches = std::env::var(BATCHES).map_or(100, |batches| batches.parse().unwrap());
    for batch in 0..batches {
        let reads = (0..500_u64).map(|n| {
            let (cache, id) = (node.cache.clone(), batch * 500 + n);
            let load = move || async move {
                let length = 1_024 * (1 + id as usize % 4);
                Ok(Some((1, "x".repeat(length))))
            };
            async move { cache.get_or_load(Page, &id, 0, load).await }
        });
        for told in futures_util::future::join_all(reads).await {
            // Refused ones are fine here.
            assert!(
                matches!(told, Ok(Some(_)) | Err(Error::TryLater)),
                "{told:?}"
            );
        }
        most = most.max(node.cache.local_len());
        most_bytes = most_bytes.max(node.cache.local_bytes());
    }
    // Those who look at the same moment may all find room.
    assert!(most <= LOCAL_MOST + BULKHEAD, "{most} copies");
    let slack = BULKHEAD * 4_500;
    assert!(most_bytes <= LOCAL_BYTES_MOST + slack, "{most_bytes} bytes");
    assert!(most >= LOCAL_CAPACITY / 2, "it was full: {most}");
    // When their time is over, they go.
    eventually(SOON, "an empty tier", async || {
        let _ = get(&node.cache, Row, &Table::new(Duration::ZERO), 1, 0).await;
        node.cache.local_bytes() < 100_000
    })
    .await;
}
