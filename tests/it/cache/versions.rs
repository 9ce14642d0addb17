//! Never old after new: readers that were overtaken, lost broadcasts, wanted versions, and everything at random.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use deadpool_redis::redis::cmd;
use domain::infra::cache::{Error, LOCAL_LIFE};
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use sea_orm::DbErr;

use super::{Node, Row, Table, get};
use crate::support::private::PrivateRedis;
use crate::support::stores::{shared, unique};
use crate::support::wait::eventually;

const SOON: Duration = Duration::from_secs(20);

/// A reader that has read the row on another node, then a write, then the reader comes back.
async fn overtaken(begin_with: bool, end_with: bool) {
    let (url, deployment) = (shared("LM_TEST_REDIS_URL"), format!("t{}", unique()));
    let table = Table::gated();
    let gate = |permits| table.0.gate.as_ref().unwrap().add_permits(permits);
    let (writer, reader) = (
        Node::start(&url, &deployment).await,
        Node::deaf(&url, &deployment),
    );
    let old = table.write(1, begin_with);
    let (cache, rows) = (reader.cache.clone(), table.clone());
    let slow = tokio::spawn(async move { get(&cache, Row, &rows, 1, 0).await });
    eventually(SOON, "the reader at the table", async || table.loads() == 1).await;
    let new = writer.write(Row, &table, 1, end_with).await;
    assert_eq!(new, old + 1);
    gate(100);
    let wanted = end_with.then_some(new);
    assert_eq!(slow.await.unwrap().unwrap(), wanted, "who was overtaken");
    for node in [&writer, &reader, &Node::deaf(&url, &deployment)] {
        assert_eq!(node.get(Row, &table, 1, 0).await.unwrap(), wanted);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_was_overtaken_by_a_write_puts_nothing_old_back() {
    overtaken(true, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_was_overtaken_by_a_delete_does_not_bring_the_row_back() {
    overtaken(true, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_was_overtaken_by_a_creation_does_not_hide_the_row() {
    overtaken(false, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_nodes_are_new_at_once_by_the_broadcast_and_within_five_seconds_without() {
    let (url, deployment) = (shared("LM_TEST_REDIS_URL"), format!("t{}", unique()));
    let table = Table::new(Duration::ZERO);
    let (a, b, deaf) = (
        Node::start(&url, &deployment).await,
        Node::start(&url, &deployment).await,
        Node::deaf(&url, &deployment),
    );
    a.write(Row, &table, 1, true).await;
    for node in [&a, &b, &deaf] {
        assert_eq!(node.get(Row, &table, 1, 0).await.unwrap(), Some(1));
    }
    a.write(Row, &table, 1, true).await;
    let written = Instant::now();
    assert_eq!(a.get(Row, &table, 1, 0).await.unwrap(), Some(2));
    eventually(Duration::from_secs(2), "the node that hears", async || {
        b.get(Row, &table, 1, 0).await.unwrap() == Some(2)
    })
    .await;
    assert_eq!(
        deaf.get(Row, &table, 1, 0).await.unwrap(),
        Some(1),
        "its copy lives"
    );
    eventually(SOON, "the deaf node", async || {
        deaf.get(Row, &table, 1, 0).await.unwrap() == Some(2)
    })
    .await;
    let late = written.elapsed();
    assert!(late <= LOCAL_LIFE + Duration::from_millis(500), "{late:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wanted_version_is_told_or_nothing_is() {
    let (url, deployment) = (shared("LM_TEST_REDIS_URL"), format!("t{}", unique()));
    let table = Table::new(Duration::ZERO);
    let (a, deaf) = (
        Node::start(&url, &deployment).await,
        Node::deaf(&url, &deployment),
    );
    a.write(Row, &table, 1, true).await;
    assert_eq!(deaf.get(Row, &table, 1, 0).await.unwrap(), Some(1));
    let version = a.write(Row, &table, 1, true).await;
    // Newer than the local copy: it goes on, and from then on nothing older is told.
    assert_eq!(deaf.get(Row, &table, 1, version).await.unwrap(), Some(2));
    assert_eq!(deaf.get(Row, &table, 1, 0).await.unwrap(), Some(2));
    // Newer than everything, at once and not by waiting.
    let began = Instant::now();
    let told = deaf.get(Row, &table, 1, version + 1).await;
    assert!(matches!(told, Err(Error::TryLater)), "{told:?}");
    assert!(began.elapsed() < Duration::from_secs(1));
    // Changed behind the cache's back: Redis has the old one, the wish goes through to the table, once in 200 ms.
    assert_eq!(table.write(1, true), 3);
    assert_eq!(deaf.get(Row, &table, 1, 0).await.unwrap(), Some(2));
    eventually(SOON, "the next read for a wish", async || {
        deaf.get(Row, &table, 1, 3).await.ok() == Some(Some(3))
    })
    .await;
    // What was deleted is absent under the version of the delete, what never was under 0.
    let deleted = a.write(Row, &table, 1, false).await;
    assert_eq!(deaf.get(Row, &table, 1, deleted).await.unwrap(), None);
    let told = deaf.get(Row, &table, 1, deleted + 1).await;
    assert!(matches!(told, Err(Error::TryLater)), "{told:?}");
    assert_eq!(deaf.get(Row, &table, 2, 0).await.unwrap(), None);
    let told = deaf.get(Row, &table, 2, 1).await;
    assert!(matches!(told, Err(Error::TryLater)), "{told:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wish_that_cannot_be_met_is_not_a_read_for_everyone_who_wishes() {
    let (url, deployment) = (shared("LM_TEST_REDIS_URL"), format!("t{}", unique()));
    let table = Table::new(Duration::ZERO);
    let node = Node::start(&url, &deployment).await;
    node.write(Row, &table, 1, true).await;
    assert_eq!(node.get(Row, &table, 1, 0).await.unwrap(), Some(1));
    let (began, before) = (Instant::now(), table.loads());
    for _ in 0..1_000 {
        let told = node.get(Row, &table, 1, 7).await;
        assert!(matches!(told, Err(Error::TryLater)), "{told:?}");
    }
    // One each 200 ms.
    let allowed = 2 + began.elapsed().as_millis() / 200;
    let loads = table.loads() - before;
    assert!(
        loads as u128 <= allowed,
        "{loads} loads, {allowed} are fine"
    );
    // And it is met as soon as it can be.
    while table.version(1) < 6 {
        table.write(1, true);
    }
    assert_eq!(node.write(Row, &table, 1, true).await, 7);
    assert_eq!(node.get(Row, &table, 1, 7).await.unwrap(), Some(7));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_comes_after_a_write_is_not_told_what_was_on_its_way_before_it() {
    let (url, deployment) = (shared("LM_TEST_REDIS_URL"), format!("t{}", unique()));
    let table = Table::gated();
    let node = Node::start(&url, &deployment).await;
    let old = table.write(1, true);
    let reader = || {
        let (cache, rows) = (node.cache.clone(), table.clone());
        tokio::spawn(async move { get(&cache, Row, &rows, 1, 0).await })
    };
    let early = reader();
    eventually(SOON, "the early one at the table", async || {
        table.loads() == 1
    })
    .await;
    assert_eq!(node.write(Row, &table, 1, true).await, old + 1);
    let late: Vec<_> = (0..20).map(|_| reader()).collect();
    table.0.gate.as_ref().unwrap().add_permits(100);
    for one in late {
        assert_eq!(one.await.unwrap().unwrap(), Some(old + 1), "who came later");
    }
    assert_eq!(early.await.unwrap().unwrap(), Some(old + 1));
    // The late ones shared a read, and the early one joined them or found it done.
    assert!(table.loads() <= 3, "{}", table.loads());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_mark_of_a_writer_that_died_ends_by_itself_whoever_writes_after_it() {
    let (url, deployment) = (shared("LM_TEST_REDIS_URL"), format!("t{}", unique()));
    let table = Table::new(Duration::ZERO);
    let node = Node::start(&url, &deployment).await;
    let redis = node.cache.redis();
    let key = redis.key("cache:row:1");
    let is_kept = async || {
        let body = cmd("HEXISTS").arg(&key).arg("body").to_owned();
        redis.query::<bool>(&body).await.unwrap()
    };
    let mark = async |until: i64| {
        let mark = cmd("HSET").arg(&key).arg("w:dead").arg(until).to_owned();
        redis.query::<i64>(&mark).await.unwrap();
    };
    let (seconds, _): (i64, i64) = redis.query(&cmd("TIME")).await.unwrap();
    mark(seconds * 1_000 + 60_000).await;
    for _ in 0..3 {
        let version = node.write(Row, &table, 1, true).await;
        assert_eq!(node.get(Row, &table, 1, 0).await.unwrap(), Some(version));
        assert!(
            !is_kept().await,
            "the other one may be between its commit and its word"
        );
    }
    // As if its time were over: no later writer has made it longer.
    mark(seconds * 1_000 - 1).await;
    let version = node.write(Row, &table, 1, true).await;
    assert_eq!(node.get(Row, &table, 1, 0).await.unwrap(), Some(version));
    eventually(SOON, "a value that is kept", is_kept).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_is_written_without_pause_is_told_all_the_same() {
    let (url, deployment) = (shared("LM_TEST_REDIS_URL"), format!("t{}", unique()));
    let table = Table::new(Duration::from_millis(20));
    let nodes = [
        Arc::new(Node::start(&url, &deployment).await),
        Arc::new(Node::start(&url, &deployment).await),
    ];
    let written = Arc::new(AtomicI64::new(nodes[0].write(Row, &table, 1, true).await));
    let until = Instant::now() + Duration::from_secs(3);
    let mut tasks = Vec::new();
    for n in 0..8 {
        let (node, table, written) = (Arc::clone(&nodes[n % 2]), table.clone(), written.clone());
        tasks.push(tokio::spawn(async move {
            let (mut seen, mut reads, mut slowest) = (0, 0, Duration::ZERO);
            while Instant::now() < until {
                // Only the node that writes owes what was written; both owe what they told.
                let owed = if n % 2 == 0 {
                    written.load(Ordering::SeqCst)
                } else {
                    0
                };
                let began = Instant::now();
                let told = node.get(Row, &table, 1, 0).await;
                slowest = slowest.max(began.elapsed());
                let version = told.unwrap().unwrap();
                assert!(
                    version >= owed.max(seen),
                    "{version}; {owed} owed, {seen} seen"
                );
                (seen, reads) = (version, reads + 1);
            }
            (reads, slowest)
        }));
    }
    while Instant::now() < until {
        let version = nodes[0].write(Row, &table, 1, true).await;
        written.store(version, Ordering::SeqCst);
    }
    for task in tasks {
        let (reads, slowest) = task.await.unwrap();
        assert!(
            reads >= 3 && slowest < Duration::from_secs(1),
            "{reads} reads, {slowest:?}"
        );
    }
    assert!(table.version(1) > 100, "{} writes", table.version(1));
    let most = table.0.most_at_once.load(Ordering::SeqCst);
    assert!(most <= 2, "{most} reads of the table at once");
}

/// Writes the row of a table, and is killed before it can say so: everything of its process stops.
fn die_after_the_commit(url: &str, deployment: &str, table: &Table) {
    let (url, deployment, table) = (url.to_owned(), deployment.to_owned(), table.clone());
    let process = std::thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let (committed, commit) = tokio::sync::oneshot::channel();
        runtime.block_on(async move {
            let node = Node::deaf(&url, &deployment);
            let write = async move {
                let version = table.write(1, true);
                committed.send(version).unwrap();
                std::future::pending::<Result<(i64, ()), DbErr>>().await
            };
            let cache = node.cache.clone();
            tokio::spawn(async move { cache.write_then_invalidate(Row, 1, write).await });
            commit.await.unwrap();
        });
        runtime.shutdown_background();
    });
    process.join().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_that_dies_between_its_commit_and_its_word_leaves_nothing_old_behind() {
    let (url, deployment) = (shared("LM_TEST_REDIS_URL"), format!("t{}", unique()));
    let table = Table::new(Duration::ZERO);
    let (a, b) = (
        Node::start(&url, &deployment).await,
        Node::start(&url, &deployment).await,
    );
    a.write(Row, &table, 1, true).await;
    assert_eq!(b.get(Row, &table, 1, 0).await.unwrap(), Some(1));
    die_after_the_commit(&url, &deployment, &table);
    let written = Instant::now();
    assert_eq!(table.version(1), 2);
    // Who had no copy sees it at once: what Redis had is gone.
    let fresh = Node::start(&url, &deployment).await;
    assert_eq!(fresh.get(Row, &table, 1, 0).await.unwrap(), Some(2));
    assert_eq!(b.get(Row, &table, 1, 0).await.unwrap(), Some(1), "its copy");
    eventually(SOON, "who had a copy", async || {
        b.get(Row, &table, 1, 0).await.unwrap() == Some(2)
    })
    .await;
    let late = written.elapsed();
    assert!(late <= LOCAL_LIFE + Duration::from_millis(500), "{late:?}");
    // The next write ends what the dead one began: the row is kept again.
    a.write(Row, &table, 1, true).await;
    let loads = table.loads();
    for _ in 0..3 {
        let node = Node::start(&url, &deployment).await;
        assert_eq!(node.get(Row, &table, 1, 0).await.unwrap(), Some(3));
    }
    assert!(table.loads() - loads <= 3, "{}", table.loads() - loads);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_ends_tells_first_what_redis_has_not_heard() {
    let (mut redis, deployment) = (PrivateRedis::start().await, format!("t{}", unique()));
    let table = Table::new(Duration::ZERO);
    let (a, b) = (
        Node::start(&redis.url(), &deployment).await,
        Node::start(&redis.url(), &deployment).await,
    );
    a.write(Row, &table, 1, true).await;
    assert_eq!(b.get(Row, &table, 1, 0).await.unwrap(), Some(1));
    // As a command does: it writes, and runs nothing beside.
    let command = Node::deaf(&redis.url(), &deployment);
    redis.kill9();
    command.write(Row, &table, 1, true).await;
    assert_eq!(command.cache.settle(Duration::from_millis(500)).await, 1);
    redis.start_again().await;
    assert_eq!(command.cache.settle(SOON).await, 0);
    eventually(Duration::from_secs(2), "the other node", async || {
        b.get(Row, &table, 1, 0).await.unwrap() == Some(2)
    })
    .await;
}

/// When each version of a row was written, and whether the row was there.
#[derive(Default)]
struct History(HashMap<u64, Vec<Instant>>);

impl History {
    /// The newest version written before a moment.
    fn at(&self, id: u64, moment: Instant) -> i64 {
        let written = self.0.get(&id).into_iter().flatten();
        written.filter(|at| **at <= moment).count() as i64
    }
}

/// One client of one node: it reads at random, and remembers what it was told.
struct Reader {
    node: Arc<Node>,
    table: Table,
    history: Arc<Mutex<History>>,
    hears: bool,
    rng: StdRng,
    seen: HashMap<u64, i64>,
}

impl Reader {
    async fn read(&mut self) {
        let id = self.rng.random_range(0..KEYS);
        let wish = match self.rng.random_bool(0.2) {
            true => self.history.lock().at(id, Instant::now()) + self.rng.random_range(0..2),
            false => 0,
        };
        let late = if self.hears { HEARD } else { LOCAL_LIFE } + SLACK;
        let began = Instant::now();
        let owed = began
            .checked_sub(late)
            .map_or(0, |moment| self.history.lock().at(id, moment));
        let told = match self.node.get(Row, &self.table, id, wish).await {
            Err(Error::TryLater) => return,
            told => told.unwrap(),
        };
        let seen = self.seen.entry(id).or_insert(0);
        let least = owed.max(wish).max(*seen);
        let version = told.unwrap_or_else(|| delete_from(least));
        assert!(
            version >= least,
            "row {id}: {version}; seen {seen}, wanted {wish}, {owed} is old news"
        );
        assert!(
            told.is_none_or(is_there),
            "row {id}: {version} was a delete"
        );
        let newest = self.table.version(id);
        assert!(
            version <= newest,
            "row {id}: absent, but {version} is not written yet"
        );
        *seen = version;
    }
}

const KEYS: u64 = 3;
/// How long a broadcast may be on its way between tasks that starve each other.
const HEARD: Duration = Duration::from_secs(1);
const SLACK: Duration = Duration::from_millis(500);
const RUN: Duration = Duration::from_secs(8);

/// Every fourth version of a row is a delete.
fn is_there(version: i64) -> bool {
    version % 4 != 0
}

/// The first version from this one on that may be told as absent.
fn delete_from(version: i64) -> i64 {
    (version + 3) / 4 * 4
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_happens_no_client_sees_an_older_value_after_a_newer_one() {
    interleave([true, true, false]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn also_when_every_broadcast_is_lost() {
    interleave([false; 3]).await;
}

/// Reads, writes, deletes and expiries at random, on three nodes that hear the others or not.
#[expect(clippy::print_stdout, reason = "a failure is repeated by its seed")]
async fn interleave(hearing: [bool; 3]) {
    let seed: u64 = std::env::var("SEED").map_or_else(|_| rand::random(), |s| s.parse().unwrap());
    println!("SEED={seed}");
    let (url, deployment) = (shared("LM_TEST_REDIS_URL"), format!("t{}", unique()));
    let (table, history) = (
        Table::uneven(Duration::from_millis(25)),
        Arc::new(Mutex::new(History::default())),
    );
    let mut nodes = Vec::new();
    for hears in hearing {
        let node = match hears {
            true => Node::start(&url, &deployment).await,
            false => Node::deaf(&url, &deployment),
        };
        nodes.push(Arc::new(node));
    }
    let reader = |n: usize| Reader {
        node: Arc::clone(&nodes[n % 3]),
        table: table.clone(),
        history: Arc::clone(&history),
        hears: hearing[n % 3],
        rng: StdRng::seed_from_u64(seed.wrapping_add(n as u64)),
        seen: HashMap::new(),
    };
    let until = Instant::now() + RUN;
    let mut tasks = Vec::new();
    for n in 0..12 {
        let mut reader = reader(n);
        tasks.push(tokio::spawn(async move {
            while Instant::now() < until {
                reader.read().await;
                let pause = reader.rng.random_range(0..4);
                tokio::time::sleep(Duration::from_millis(pause)).await;
            }
        }));
    }
    let mut rng = StdRng::seed_from_u64(seed.wrapping_add(100));
    let mut written = 0;
    while Instant::now() < until {
        let (id, node) = (rng.random_range(0..KEYS), &nodes[rng.random_range(0..3)]);
        if rng.random_bool(0.4) {
            // As if its time were over: the value goes, what was written is remembered longer.
            let mut forget = cmd("HDEL");
            let redis = node.cache.redis();
            forget.arg(redis.key(format!("cache:row:{id}"))).arg("body");
            redis.query::<i64>(&forget).await.unwrap();
        } else {
            let next = history.lock().at(id, Instant::now()) + 1;
            assert_eq!(node.write(Row, &table, id, is_there(next)).await, next);
            history.lock().0.entry(id).or_default().push(Instant::now());
            written += 1;
            // The node that wrote is new at once.
            if let Ok(told) = node.get(Row, &table, id, 0).await {
                assert_eq!(
                    told,
                    is_there(next).then_some(next),
                    "row {id} after its write"
                );
            }
        }
        let pause = match rng.random_bool(0.03) {
            true => rng.random_range(0..2_000),
            false => rng.random_range(0..30),
        };
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
    for task in tasks {
        task.await.unwrap();
    }
    // On a machine that is busy with other tests too, something has happened all the same.
    assert!(written >= 8, "{written} writes");
    assert!(table.loads() >= 8, "{} loads", table.loads());
}
