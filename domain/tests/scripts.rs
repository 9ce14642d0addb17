//! The sale's scripts on a real Redis of the test's own: every answer, and what each leaves behind.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by a panic"
)]

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use deadpool_redis::redis::aio::MultiplexedConnection;
use deadpool_redis::redis::{Client, Value, cmd};
use domain::infra::lua::{Script, Scripts};
use domain::orders::OrderId;
use domain::orders::keys::SaleKeys;
use domain::orders::queued::QueuedOrderV1;
use domain::orders::scripts::{
    self, Adjusted, Amended, Amendment, Buyer, Fields, Forgotten, Installation, Installed,
    Released, Reserved, SaleMeta, ScriptError,
};
use domain::users::UserId;
use domain::vouchers::VoucherId;

const VOUCHER: VoucherId = VoucherId(42);
const HOUR_MS: i64 = 3_600_000;
/// More than a double can hold exactly.
const BIG: i64 = (1 << 53) + 1;

/// A Redis on a socket, and a sale in it.
struct Bench {
    server: Child,
    folder: PathBuf,
    conn: MultiplexedConnection,
    scripts: Scripts,
    keys: SaleKeys,
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn meta(total: i64) -> SaleMeta {
    let now = chrono::Utc::now().timestamp_millis();
    SaleMeta {
        begin_ms: now - HOUR_MS,
        end_ms: now + HOUR_MS,
        total,
        limit: 1,
        max_attempts: 3,
        price_minor: 19_900,
        currency: "VND".to_owned(),
        epoch: 4,
        version: 2,
        paused: false,
        waiting: 0,
        taken: 0,
    }
}

impl Bench {
    async fn empty() -> Self {
        let folder = std::env::temp_dir().join(format!("lm-lua-{}", uuid::Uuid::new_v4().simple()));
        std::fs::create_dir_all(&folder).unwrap();
        let socket = folder.join("s");
        let server = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--appendonly", "no", "--dir"])
            .arg(&folder)
            .arg("--unixsocket")
            .arg(&socket)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let client = Client::open(format!("redis+unix://{}", socket.display())).unwrap();
        let mut tries = 0;
        let conn = loop {
            match client.get_multiplexed_async_connection().await {
                Ok(conn) => break conn,
                Err(e) if tries == 200 => panic!("redis-server does not come up: {e}"),
                Err(_) => tries += 1,
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        let mut bench = Self {
            server,
            folder,
            conn,
            scripts: Scripts::new("t"),
            keys: SaleKeys::new("t", VOUCHER),
        };
        bench.load().await;
        bench
    }

    /// With a sale that recovery installed.
    async fn with(meta: &SaleMeta) -> Self {
        let mut bench = Self::empty().await;
        bench.install(meta, &Fields::default()).await;
        bench
    }

    async fn load(&mut self) {
        let s = &self.scripts;
        for script in [
            &s.reserve, &s.release, &s.settle, &s.forget, &s.amend, &s.adjust,
        ] {
            let sha: String = cmd("SCRIPT")
                .arg("LOAD")
                .arg(&script.text)
                .query_async(&mut self.conn)
                .await
                .unwrap();
            assert_eq!(sha, script.sha, "{}", script.name);
        }
    }

    async fn install(&mut self, meta: &SaleMeta, fields: &Fields) {
        scripts::begin_recovery(&mut self.conn, &self.scripts, &self.keys, "token")
            .await
            .unwrap();
        scripts::fill_temporary(&mut self.conn, &self.keys, "token", fields)
            .await
            .unwrap();
        let installed = self.try_install("token", fields.counts(), meta).await;
        assert_eq!(installed, Installed::Done);
    }

    async fn try_install(&mut self, token: &str, counts: [usize; 3], meta: &SaleMeta) -> Installed {
        let installation = Installation {
            token,
            counts,
            meta,
        };
        scripts::install(&mut self.conn, &self.scripts, &self.keys, &installation)
            .await
            .unwrap()
    }

    async fn reserve(&mut self, buyers: &[Buyer]) -> Vec<Reserved> {
        let answers = scripts::reserve(&mut self.conn, &self.scripts, &self.keys, VOUCHER, buyers)
            .await
            .unwrap();
        let seen = self.inspect().await;
        assert!(
            seen.not_ready() || seen.is_damaged() || seen.adds_up(),
            "{seen:?}"
        );
        answers
    }

    async fn one(&mut self, buyer: Buyer) -> Reserved {
        self.reserve(&[buyer]).await.remove(0)
    }

    async fn release(&mut self, order: i64, user: i64, reject: bool) -> Released {
        let order = (OrderId(order), UserId(user));
        scripts::release(&mut self.conn, &self.scripts, &self.keys, order, reject)
            .await
            .unwrap()
    }

    async fn forget(&mut self, order: i64) -> Forgotten {
        scripts::forget(&mut self.conn, &self.scripts, &self.keys, OrderId(order))
            .await
            .unwrap()
    }

    async fn adjust(&mut self, total: i64, version: i64) -> Adjusted {
        scripts::adjust(&mut self.conn, &self.scripts, &self.keys, total, version)
            .await
            .unwrap()
    }

    async fn inspect(&mut self) -> scripts::Inspection {
        scripts::inspect(&mut self.conn, &self.scripts, &self.keys)
            .await
            .unwrap()
    }

    async fn run(&mut self, words: &[&str]) -> Value {
        let mut command = cmd(words[0]);
        command.arg(&words[1..]);
        command.query_async(&mut self.conn).await.unwrap()
    }

    /// Every key with its content, to see that nothing changed.
    async fn dump(&mut self) -> Vec<(String, Vec<u8>)> {
        let mut names: Vec<String> = cmd("KEYS")
            .arg("*")
            .query_async(&mut self.conn)
            .await
            .unwrap();
        names.sort();
        let mut dump = Vec::new();
        for name in names {
            let bytes: Vec<u8> = cmd("DUMP")
                .arg(&name)
                .query_async(&mut self.conn)
                .await
                .unwrap();
            dump.push((name, bytes));
        }
        dump
    }
}

fn click(order: i64, user: i64) -> Buyer {
    Buyer {
        order_id: OrderId(order),
        user_id: UserId(user),
        request_id: format!("r{order}"),
        trace_id: "t".to_owned(),
        called_waiter: false,
    }
}

fn order_of(answer: &Reserved) -> i64 {
    let Reserved::Ok { order_id, .. } = answer else {
        panic!("not taken: {answer:?}")
    };
    order_id.0
}

#[tokio::test]
async fn a_sale_that_is_not_there_is_not_ready_and_never_sold_out() {
    let mut bench = Bench::empty().await;
    assert_eq!(bench.one(click(1, 1)).await, Reserved::NotReady);
    assert_eq!(bench.release(1, 1, false).await, Released::NotReady);
    assert_eq!(bench.forget(1).await, Forgotten::NotReady);
    assert!(bench.dump().await.is_empty(), "asking makes nothing");
    assert!(bench.inspect().await.not_ready());

    bench.install(&meta(3), &Fields::default()).await;
    scripts::begin_recovery(&mut bench.conn, &bench.scripts, &bench.keys, "x")
        .await
        .unwrap();
    assert_eq!(bench.one(click(1, 1)).await, Reserved::NotReady);
    assert_eq!(bench.release(1, 1, false).await, Released::NotReady);
}

#[tokio::test]
async fn the_window_and_the_pause_are_kept_by_redis_time() {
    let now = chrono::Utc::now().timestamp_millis();
    let early = SaleMeta {
        begin_ms: now + HOUR_MS,
        end_ms: now + 2 * HOUR_MS,
        ..meta(3)
    };
    assert_eq!(
        Bench::with(&early).await.one(click(1, 1)).await,
        Reserved::NotStarted {
            begin_ms: early.begin_ms
        }
    );
    let late = SaleMeta {
        begin_ms: now - 2 * HOUR_MS,
        end_ms: now - 1,
        ..meta(3)
    };
    assert_eq!(
        Bench::with(&late).await.one(click(1, 1)).await,
        Reserved::Ended {
            end_ms: late.end_ms
        }
    );
    assert_eq!(
        Bench::with(&SaleMeta {
            paused: true,
            ..meta(3)
        })
        .await
        .one(click(1, 1))
        .await,
        Reserved::Paused
    );
}

#[tokio::test]
async fn the_same_order_again_is_the_same_answer_and_takes_nothing() {
    let mut bench = Bench::with(&meta(3)).await;
    let first = bench.one(click(BIG, BIG + 2)).await;
    let Reserved::Ok {
        order_id,
        slot: 1,
        reserved_at,
        epoch: 4,
    } = first
    else {
        panic!("{first:?}")
    };
    assert_eq!(order_id.0, BIG, "ids keep all their digits");
    assert_eq!(
        bench.one(click(BIG, BIG + 2)).await,
        Reserved::Ok {
            order_id,
            slot: 1,
            reserved_at,
            epoch: 4
        }
    );
    assert_eq!(bench.one(click(BIG, 9)).await, Reserved::IdTaken);
    let seen = bench.inspect().await;
    assert_eq!(
        (seen.stock, seen.orders, seen.taken, seen.queued()),
        (Some(2), 1, Some(1), 1)
    );

    let outbox: Vec<u8> = cmd("HGET")
        .arg(bench.keys.outbox())
        .arg(BIG)
        .query_async(&mut bench.conn)
        .await
        .unwrap();
    let payload = QueuedOrderV1::parse(&outbox).unwrap();
    assert_eq!(
        payload.to_bytes(),
        outbox,
        "Lua and Rust write the same bytes"
    );
    assert_eq!(
        (payload.order_id, payload.user_id, payload.voucher_id),
        (BIG, BIG + 2, VOUCHER.0)
    );
    assert_eq!(
        (
            payload.reserved_at,
            payload.price_minor,
            payload.epoch,
            payload.slot
        ),
        (reserved_at, 19_900, 4, 1)
    );
}

#[tokio::test]
async fn one_request_is_one_order_also_after_it_was_given_back() {
    let mut bench = Bench::with(&meta(3)).await;
    bench.one(click(1, 7)).await;
    let again = Buyer {
        request_id: "r1".to_owned(),
        ..click(2, 7)
    };
    let same = Reserved::Already {
        order_id: OrderId(1),
        same_request: true,
    };
    assert_eq!(bench.one(again.clone()).await, same);
    assert_eq!(
        bench.one(click(3, 7)).await,
        Reserved::Already {
            order_id: OrderId(1),
            same_request: false
        }
    );
    assert_eq!(
        bench.release(1, 7, false).await,
        Released::Done {
            now: true,
            epoch: 4
        }
    );
    assert_eq!(bench.one(again).await, same, "the request had its order");
    assert_eq!(
        order_of(&bench.one(click(3, 7)).await),
        3,
        "another request may buy again"
    );
}

#[tokio::test]
async fn entries_of_one_batch_see_each_other() {
    let mut bench = Bench::with(&meta(10)).await;
    let clicks: Vec<_> = (0..64).map(|n| click(100 + n, 1)).collect();
    let answers = bench.reserve(&clicks).await;
    assert_eq!(order_of(&answers[0]), 100);
    let already = Reserved::Already {
        order_id: OrderId(100),
        same_request: false,
    };
    assert!(answers[1..].iter().all(|a| *a == already), "{answers:?}");

    let clicks: Vec<_> = (0..64).map(|n| click(200 + n, 200 + n)).collect();
    let answers = bench.reserve(&clicks).await;
    let taken = answers
        .iter()
        .filter(|a| matches!(a, Reserved::Ok { .. }))
        .count();
    assert_eq!(taken, 9);
    assert!(
        answers[9..].iter().all(|a| *a
            == Reserved::SoldOut {
                epoch: 4,
                taken: 10
            }),
        "{answers:?}"
    );
    assert_eq!(bench.inspect().await.stock, Some(0));
}

#[tokio::test]
async fn a_user_fills_his_slots_in_order_until_his_attempts_are_used_up() {
    let mut bench = Bench::with(&SaleMeta {
        limit: 2,
        max_attempts: 4,
        ..meta(10)
    })
    .await;
    let slot = |answer: Reserved| {
        let Reserved::Ok { slot, .. } = answer else {
            panic!("{answer:?}")
        };
        slot
    };
    let both = bench.reserve(&[click(1, 7), click(2, 7)]).await;
    assert_eq!(both.into_iter().map(slot).collect::<Vec<_>>(), [1, 2]);
    assert!(matches!(
        bench.one(click(3, 7)).await,
        Reserved::Already {
            same_request: false,
            ..
        }
    ));
    bench.release(1, 7, false).await;
    assert_eq!(
        slot(bench.one(click(4, 7)).await),
        1,
        "the lowest free slot"
    );
    bench.release(2, 7, false).await;
    bench.release(4, 7, true).await;
    assert_eq!(
        slot(bench.one(click(5, 7)).await),
        1,
        "a rejected order was no attempt"
    );
    assert_eq!(slot(bench.one(click(6, 7)).await), 2);
    bench.release(6, 7, false).await;
    assert_eq!(bench.one(click(8, 7)).await, Reserved::NoAttempts);
    assert_eq!(
        bench.one(click(4, 7)).await,
        Reserved::Dead,
        "the id of a rejected order is never placed"
    );
}

#[tokio::test]
async fn units_kept_for_waiters_go_to_called_waiters_only() {
    let mut bench = Bench::with(&SaleMeta {
        waiting: 2,
        ..meta(3)
    })
    .await;
    assert_eq!(order_of(&bench.one(click(1, 1)).await), 1);
    assert!(matches!(
        bench.one(click(2, 2)).await,
        Reserved::SoldOut { .. }
    ));
    for n in 3..5 {
        assert_eq!(
            order_of(
                &bench
                    .one(Buyer {
                        called_waiter: true,
                        ..click(n, n)
                    })
                    .await
            ),
            n
        );
    }
    let called = bench
        .one(Buyer {
            called_waiter: true,
            ..click(5, 5)
        })
        .await;
    assert!(
        matches!(called, Reserved::SoldOut { .. }),
        "even a waiter gets no unit that is not there"
    );
}

#[tokio::test]
async fn a_unit_comes_back_once_however_often_it_is_given_back() {
    let mut bench = Bench::with(&meta(2)).await;
    bench.one(click(1, 1)).await;
    assert_eq!(
        bench.release(1, 1, false).await,
        Released::Done {
            now: true,
            epoch: 4
        }
    );
    assert_eq!(
        bench.release(1, 1, false).await,
        Released::Done {
            now: false,
            epoch: 4
        }
    );
    assert_eq!(
        bench.release(99, 1, false).await,
        Released::Done {
            now: false,
            epoch: 4
        }
    );
    let seen = bench.inspect().await;
    assert_eq!((seen.stock, seen.orders, seen.buyers), (Some(2), 0, 0));
}

#[tokio::test]
async fn what_was_said_to_be_nowhere_is_never_placed() {
    let mut bench = Bench::with(&meta(2)).await;
    bench.one(click(1, 1)).await;
    assert_eq!(bench.forget(1).await, Forgotten::Queued);
    assert_eq!(bench.forget(2).await, Forgotten::Dead { epoch: 4 });
    assert_eq!(bench.one(click(2, 2)).await, Reserved::Dead);
}

#[tokio::test]
async fn settling_takes_entries_and_leaves_the_sentinel() {
    let mut bench = Bench::with(&meta(5)).await;
    bench
        .reserve(&[click(1, 1), click(2, 2), click(3, 3)])
        .await;
    let settled = [OrderId(1), OrderId(3), OrderId(9)];
    let count = scripts::settle(&mut bench.conn, &bench.scripts, &bench.keys, &settled)
        .await
        .unwrap();
    assert_eq!(count, 2);
    let seen = bench.inspect().await;
    assert_eq!((seen.queued(), seen.outbox_epoch), (1, Some(4)));
}

/// Commands that break a sale in which user 7 holds order 1; the key stands second, without its prefix.
const DAMAGES: [&[&str]; 19] = [
    &["DEL", "stock"],
    &["INCR", "stock"],
    &["SET", "stock", "many"],
    &["DEL", "outbox"],
    &["HSET", "outbox", "epoch", "3"],
    &["DEL", "attempts"],
    &["DEL", "buyers"],
    &["HDEL", "buyers", "7:1"],
    &["DEL", "orders"],
    &["HDEL", "orders", "1"],
    &["HDEL", "meta", "epoch"],
    &["HDEL", "meta", "limit"],
    &["HDEL", "meta", "max_attempts"],
    &["HDEL", "meta", "price"],
    &["HDEL", "meta", "currency"],
    &["HDEL", "meta", "paused"],
    &["HSET", "meta", "total", "many"],
    &["HDEL", "meta", "taken"],
    &["SET", "dead", "x"],
];

async fn damaged_by(damage: &[&str]) -> Bench {
    let mut bench = Bench::with(&meta(5)).await;
    bench.one(click(1, 7)).await;
    let key = format!("t:{{v:42}}:{}", damage[1]);
    let words: Vec<&str> = [damage[0], &key]
        .into_iter()
        .chain(damage[2..].iter().copied())
        .collect();
    bench.run(&words).await;
    bench
}

#[tokio::test]
async fn every_damage_is_noticed_before_anything_is_sold() {
    for damage in DAMAGES {
        let mut bench = damaged_by(damage).await;
        let before = bench.dump().await;
        assert_eq!(
            bench.one(click(2, 8)).await,
            Reserved::Damaged,
            "{damage:?}"
        );
        assert_eq!(bench.forget(3).await, Forgotten::Damaged, "{damage:?}");
        assert_eq!(bench.adjust(6, 3).await, Adjusted::Damaged, "{damage:?}");
        assert_eq!(bench.dump().await, before, "{damage:?}");
    }
}

#[tokio::test]
async fn what_buyers_call_damaged_a_look_calls_damaged_and_a_recovery_mends() {
    for damage in DAMAGES {
        let mut bench = damaged_by(damage).await;
        let seen = bench.inspect().await;
        assert!(
            seen.is_damaged() || seen.not_ready(),
            "{damage:?}: {seen:?}"
        );
        let next = SaleMeta {
            epoch: 5,
            ..meta(5)
        };
        bench.install(&next, &two_orders()).await;
        let seen = bench.inspect().await;
        assert!(
            !seen.is_damaged() && !seen.not_ready() && seen.adds_up(),
            "{damage:?}: {seen:?}"
        );
        assert_eq!(order_of(&bench.one(click(3, 9)).await), 3, "{damage:?}");
    }
}

#[tokio::test]
async fn nothing_is_given_back_into_keys_that_cannot_take_it() {
    let broken: [&[&str]; 6] = [
        &["DEL", "stock"],
        &["SET", "stock", "many"],
        &["SET", "buyers", "x"],
        &["SET", "attempts", "x"],
        &["SET", "dead", "x"],
        &["HDEL", "meta", "epoch"],
    ];
    for damage in broken {
        let mut bench = damaged_by(damage).await;
        let before = bench.dump().await;
        for reject in [false, true] {
            assert_eq!(
                bench.release(1, 7, reject).await,
                Released::NotReady,
                "{damage:?}"
            );
        }
        assert_eq!(bench.dump().await, before, "{damage:?}");
    }
}

#[tokio::test]
async fn an_order_whose_attempt_is_lost_is_not_placed_twice() {
    let mut bench = Bench::with(&SaleMeta {
        limit: 2,
        ..meta(5)
    })
    .await;
    bench.one(click(1, 7)).await;
    let attempts = bench.keys.attempts();
    bench.run(&["HDEL", &attempts, "7"]).await;
    assert_eq!(
        bench.one(click(1, 7)).await,
        Reserved::Already {
            order_id: OrderId(1),
            same_request: false
        }
    );
    let seen = bench.inspect().await;
    assert_eq!((seen.orders, seen.buyers, seen.stock), (1, 1, Some(4)));
}

#[tokio::test]
async fn what_a_dead_recoverer_left_runs_out() {
    let mut bench = Bench::empty().await;
    scripts::fill_temporary(&mut bench.conn, &bench.keys, "a", &two_orders())
        .await
        .unwrap();
    for part in ["buyers", "orders", "attempts"] {
        let ttl: i64 = cmd("TTL")
            .arg(bench.keys.temporary(part, "a"))
            .query_async(&mut bench.conn)
            .await
            .unwrap();
        assert!((1..=3_600).contains(&ttl), "{part}: {ttl}");
    }
}

#[tokio::test]
async fn a_large_sale_is_filled_in_steps_and_installed_whole() {
    let mut bench = Bench::empty().await;
    let users = 1_201;
    let mut fields = Fields::default();
    for n in 1..=users {
        let unit = format!("{n}:1");
        fields.buyers.push((unit.clone(), n.to_string()));
        fields.orders.push((n.to_string(), unit));
        let attempt = scripts::attempt(OrderId(n), 1, 5, "r");
        fields.attempts.push((n.to_string(), attempt));
    }
    bench.install(&meta(users + 1), &fields).await;
    let seen = bench.inspect().await;
    assert!(!seen.is_damaged(), "{seen:?}");
    assert_eq!((seen.orders, seen.stock), (users, Some(1)));
}

#[tokio::test]
async fn nothing_asked_is_nothing_done() {
    let mut bench = Bench::with(&meta(5)).await;
    let settled = scripts::settle(&mut bench.conn, &bench.scripts, &bench.keys, &[]).await;
    assert_eq!(settled.unwrap(), 0);
    assert!(bench.reserve(&[]).await.is_empty());
}

#[tokio::test]
async fn an_answer_that_a_script_does_not_have_is_an_error_of_its_own() {
    let mut bench = Bench::with(&meta(5)).await;
    for body in ["return 1", "return {'BUYERS'}", "return {'SOON'}"] {
        bench.scripts.reserve = Script::new("t", "reserve", body);
        bench.scripts.release = Script::new("t", "release", body);
        bench.scripts.amend = Script::new("t", "amend", body);
        bench.load().await;
        let (conn, scripts, keys) = (&mut bench.conn, &bench.scripts, &bench.keys);
        let amendment = Amendment {
            epoch: 4,
            paused: None,
            waiting: None,
            end_ms: None,
        };
        let errors = [
            scripts::reserve(conn, scripts, keys, VOUCHER, &[click(1, 1)])
                .await
                .unwrap_err(),
            scripts::release(conn, scripts, keys, (OrderId(1), UserId(1)), false)
                .await
                .unwrap_err(),
            scripts::amend(conn, scripts, keys, &amendment)
                .await
                .unwrap_err(),
        ];
        for error in errors {
            assert!(
                matches!(error, ScriptError::Malformed { .. }),
                "{body}: {error:?}"
            );
        }
    }
}

#[tokio::test]
async fn an_amendment_counts_in_its_epoch_only_and_never_makes_a_sale() {
    let amendment = Amendment {
        epoch: 4,
        paused: Some(true),
        waiting: None,
        end_ms: Some(77),
    };
    let mut bench = Bench::empty().await;
    let amend = |bench: &Bench, amendment: Amendment| {
        let (mut conn, scripts, keys) = (
            bench.conn.clone(),
            bench.scripts.clone(),
            bench.keys.clone(),
        );
        async move {
            scripts::amend(&mut conn, &scripts, &keys, &amendment)
                .await
                .unwrap()
        }
    };
    assert_eq!(amend(&bench, amendment).await, Amended::NotReady);
    assert!(bench.dump().await.is_empty());
    bench.install(&meta(5), &Fields::default()).await;
    assert_eq!(
        amend(
            &bench,
            Amendment {
                epoch: 3,
                ..amendment
            }
        )
        .await,
        Amended::OtherEpoch
    );
    assert!(!bench.inspect().await.paused);
    assert_eq!(amend(&bench, amendment).await, Amended::Done);
    let seen = bench.inspect().await;
    assert_eq!(
        (seen.paused, seen.waiting, seen.end_ms),
        (true, Some(0), Some(77))
    );
}

#[tokio::test]
async fn a_total_is_set_once_for_each_version_and_never_below_what_is_held() {
    let mut bench = Bench::with(&meta(5)).await;
    bench.reserve(&[click(1, 1), click(2, 2)]).await;
    assert_eq!(bench.adjust(9, 1).await, Adjusted::Older);
    assert_eq!(bench.adjust(1, 3).await, Adjusted::Below { held: 2 });
    assert_eq!(bench.inspect().await.total, Some(5));
    assert_eq!(bench.adjust(2, 3).await, Adjusted::Done { epoch: 4 });
    assert_eq!(
        bench.adjust(7, 3).await,
        Adjusted::Done { epoch: 4 },
        "this version was here"
    );
    let seen = bench.inspect().await;
    assert_eq!(
        (seen.total, seen.stock, seen.version),
        (Some(2), Some(0), Some(3))
    );
    assert_eq!(bench.adjust(4, 4).await, Adjusted::Done { epoch: 4 });
    assert_eq!(bench.inspect().await.stock, Some(2));
}

fn two_orders() -> Fields {
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    Fields {
        buyers: vec![pair("7:1", "1"), pair("8:1", "2")],
        orders: vec![pair("1", "7:1"), pair("2", "8:1")],
        attempts: vec![pair("7", "1,1,5,r1"), pair("8", "2,1,6,r2")],
    }
}

#[tokio::test]
async fn an_install_that_does_not_fit_leaves_everything_as_it_was() {
    let mut bench = Bench::with(&meta(5)).await;
    bench.one(click(1, 1)).await;
    scripts::begin_recovery(&mut bench.conn, &bench.scripts, &bench.keys, "a")
        .await
        .unwrap();
    scripts::fill_temporary(&mut bench.conn, &bench.keys, "a", &two_orders())
        .await
        .unwrap();
    let before = bench.dump().await;
    assert_eq!(
        bench.try_install("b", [2, 2, 2], &meta(5)).await,
        Installed::Lost
    );
    assert_eq!(
        bench.try_install("a", [2, 3, 2], &meta(5)).await,
        Installed::Incomplete
    );
    assert_eq!(
        bench.try_install("a", [0, 2, 2], &meta(5)).await,
        Installed::Incomplete
    );
    assert_eq!(
        bench.try_install("a", [2, 2, 2], &meta(1)).await,
        Installed::Oversold
    );
    assert_eq!(bench.dump().await, before);

    let key = bench.keys.temporary("buyers", "a");
    bench.run(&["DEL", &key]).await;
    assert_eq!(
        bench.try_install("a", [2, 2, 2], &meta(5)).await,
        Installed::Incomplete,
        "a source is gone"
    );
}

#[tokio::test]
async fn an_install_puts_the_database_in_place_of_whatever_was_there() {
    let mut bench = Bench::with(&meta(5)).await;
    bench
        .reserve(&[click(50, 50), click(51, 51), click(52, 52)])
        .await;
    bench.forget(60).await;
    scripts::begin_recovery(&mut bench.conn, &bench.scripts, &bench.keys, "a")
        .await
        .unwrap();
    scripts::fill_temporary(&mut bench.conn, &bench.keys, "a", &two_orders())
        .await
        .unwrap();
    let temporary = bench.keys.temporary("orders", "a");
    bench.run(&["EXPIRE", &temporary, "1000"]).await;
    let next = SaleMeta {
        epoch: 5,
        taken: 2,
        ..meta(5)
    };
    assert_eq!(
        bench.try_install("a", [2, 2, 2], &next).await,
        Installed::Done
    );
    assert_eq!(
        bench.try_install("a", [2, 2, 2], &next).await,
        Installed::Lost,
        "once"
    );
    let seen = bench.inspect().await;
    assert!(!seen.is_damaged() && !seen.not_ready(), "{seen:?}");
    assert_eq!(
        (seen.stock, seen.orders, seen.queued(), seen.dead),
        (Some(3), 2, 0, 1)
    );
    let orders = bench.keys.orders();
    assert_eq!(
        bench.run(&["TTL", &orders]).await,
        Value::Int(-1),
        "no time to live comes along"
    );

    let again = Buyer {
        request_id: "r1".to_owned(),
        ..click(70, 7)
    };
    assert_eq!(
        bench.one(again).await,
        Reserved::Already {
            order_id: OrderId(1),
            same_request: true
        }
    );
    assert_eq!(
        bench.one(click(60, 9)).await,
        Reserved::Dead,
        "ids that were barred stay barred"
    );

    bench
        .install(
            &SaleMeta {
                epoch: 6,
                ..meta(5)
            },
            &Fields::default(),
        )
        .await;
    let seen = bench.inspect().await;
    assert_eq!(
        (seen.stock, seen.orders, seen.buyers, seen.attempts),
        (Some(5), 0, 0, 1)
    );
}

#[tokio::test]
async fn a_redis_that_lost_its_scripts_is_noticed_and_not_helped() {
    let mut bench = Bench::with(&meta(5)).await;
    bench.run(&["SCRIPT", "FLUSH"]).await;
    for _ in 0..2 {
        let refused = scripts::reserve(
            &mut bench.conn,
            &bench.scripts,
            &bench.keys,
            VOUCHER,
            &[click(1, 1)],
        )
        .await
        .unwrap_err();
        assert!(matches!(refused, ScriptError::NoScript), "{refused:?}");
    }
    // What a recovery needs works all the same.
    bench
        .install(
            &SaleMeta {
                epoch: 5,
                ..meta(5)
            },
            &two_orders(),
        )
        .await;
    assert_eq!(bench.inspect().await.orders, 2);
    let others = Scripts::new("other");
    assert_ne!(
        others.fence.sha, bench.scripts.fence.sha,
        "another deployment's fence is not ours"
    );
}
