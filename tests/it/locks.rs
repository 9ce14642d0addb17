//! Locks: one holder at a time, whoever dies or dawdles, over one Redis and over most of three.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use deadpool_redis::redis::cmd;
use domain::infra::locks::{Locks, Owner};
use domain::infra::redis::Redis;
use tokio_util::sync::CancellationToken;

use crate::support::private::PrivateRedis;
use crate::support::stores::{shared, unique};
use crate::support::wait::eventually;

const LEASE: Duration = Duration::from_millis(600);
const LONG: Duration = Duration::from_secs(20);

struct Bench {
    redis: Redis,
    locks: Locks,
    stop: CancellationToken,
}

impl Bench {
    fn new() -> Self {
        let redis = Redis::new(&shared("LM_TEST_REDIS_URL"), &format!("t{}", unique())).unwrap();
        let stop = CancellationToken::new();
        redis.listen(stop.clone());
        Self {
            locks: Locks::new(vec![redis.clone()]),
            redis,
            stop,
        }
    }

    async fn exists(&self) -> bool {
        self.redis
            .query(cmd("EXISTS").arg(self.redis.key("lock:a")))
            .await
            .unwrap()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_at_a_time_and_each_in_turn() {
    let bench = Bench::new();
    let (inside, entered) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let tasks = (0..30).map(|_| {
        let (locks, inside, entered) = (
            bench.locks.clone(),
            Arc::clone(&inside),
            Arc::clone(&entered),
        );
        tokio::spawn(async move {
            let lock = locks
                .acquire("a", &Owner::default(), LONG, LONG)
                .await
                .unwrap()
                .unwrap();
            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two at once");
            tokio::task::yield_now().await;
            entered.fetch_add(1, Ordering::SeqCst);
            inside.fetch_sub(1, Ordering::SeqCst);
            assert!(lock.release().await.unwrap());
        })
    });
    let began = Instant::now();
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    assert_eq!(entered.load(Ordering::SeqCst), 30);
    // The lease is 20 s: whoever waited was told, and did not wait for it to run out.
    assert!(began.elapsed() < LONG, "{:?}", began.elapsed());
    assert!(!bench.exists().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_takes_his_lock_again_and_nobody_else_releases_it() {
    let bench = Bench::new();
    let (owner, other) = (Owner::default(), Owner::default());
    let now = Duration::ZERO;
    let outer = bench
        .locks
        .acquire("a", &owner, LONG, now)
        .await
        .unwrap()
        .unwrap();
    let inner = bench
        .locks
        .acquire("a", &owner, LONG, now)
        .await
        .unwrap()
        .unwrap();
    assert!(
        bench
            .locks
            .acquire("a", &other, LONG, now)
            .await
            .unwrap()
            .is_none()
    );
    assert!(inner.release().await.unwrap());
    assert!(
        bench
            .locks
            .acquire("a", &other, LONG, now)
            .await
            .unwrap()
            .is_none(),
        "held once more"
    );
    assert!(outer.release().await.unwrap());

    // A holder whose lock went to another does not release the other's.
    let first = bench
        .locks
        .acquire("a", &owner, LONG, now)
        .await
        .unwrap()
        .unwrap();
    bench
        .redis
        .query::<i64>(cmd("DEL").arg(bench.redis.key("lock:a")))
        .await
        .unwrap();
    let second = bench
        .locks
        .acquire("a", &other, LONG, now)
        .await
        .unwrap()
        .unwrap();
    assert!(!first.release().await.unwrap());
    assert!(bench.exists().await);
    assert!(second.release().await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_is_renewed_while_its_holder_works_and_runs_out_when_he_dies() {
    let bench = Bench::new();
    let lock = bench
        .locks
        .acquire("a", &Owner::default(), LEASE, Duration::ZERO)
        .await
        .unwrap()
        .unwrap();
    let waited = bench
        .locks
        .acquire("a", &Owner::default(), LEASE, LEASE * 4)
        .await
        .unwrap();
    assert!(waited.is_none(), "four leases long the holder held it");
    assert!(!lock.is_lost());
    // Dropped without a release, as by a task that died: nobody renews it any more.
    drop(lock);
    let next = bench
        .locks
        .acquire("a", &Owner::default(), LEASE, LONG)
        .await
        .unwrap()
        .unwrap();
    // Taken away from under its holder: he learns of it.
    bench
        .redis
        .query::<i64>(cmd("DEL").arg(bench.redis.key("lock:a")))
        .await
        .unwrap();
    eventually(LONG, "the loss", async || next.is_lost()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn most_of_three_redis_hold_a_lock_also_when_one_is_killed() {
    let mut servers = Vec::new();
    for _ in 0..3 {
        servers.push(PrivateRedis::start().await);
    }
    let nodes: Vec<_> = servers
        .iter()
        .map(|s| Redis::new(&s.url(), "t").unwrap())
        .collect();
    let locks = Locks::new(nodes);
    let (owner, other) = (Owner::default(), Owner::default());
    let lock = locks
        .acquire("a", &owner, LEASE, Duration::ZERO)
        .await
        .unwrap()
        .unwrap();
    servers[0].kill9();
    assert!(
        locks
            .acquire("a", &other, LEASE, LEASE * 2)
            .await
            .unwrap()
            .is_none(),
        "two of three still say whose it is"
    );
    assert!(!lock.is_lost(), "and two of three renew it");
    assert!(lock.release().await.unwrap());
    let lock = locks
        .acquire("a", &other, LEASE, LONG)
        .await
        .unwrap()
        .unwrap();
    servers[1].kill9();
    eventually(LONG, "the loss", async || lock.is_lost()).await;
    assert!(
        locks
            .acquire("a", &owner, LEASE, Duration::ZERO)
            .await
            .is_err(),
        "one of three is nobody"
    );
}
