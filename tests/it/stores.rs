//! One body of claims about the store of orders, held to on all three databases.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use domain::infra::clock::Clock;
use domain::infra::db::Db;
use domain::orders::apply::Outcome;
use domain::orders::queued::QueuedOrderV1;
use domain::orders::store::{Barred, Found, Incoming, IntentBy, OrderStore, Recorded, SqlStore};
use domain::orders::{CloseReason, OrderId, OrderKey, RejectReason};
use domain::settings::{AnswerMode, SaleSettings, Secret};
use domain::users::UserId;
use domain::vouchers::{Currency, Money, VoucherId};
use entity::order::OrderStatus;
use entity::payment_intent::IntentStatus;
use entity::refund::RefundReason;
use entity::sale::SaleStage;
use entity::{giveback, order, order_reject, payment, payment_intent, refund, sale, stock_entry};
use sea_orm::{
    ColumnTrait, EntityTrait, IntoActiveModel, PaginatorTrait, QueryFilter, QuerySelect,
    TransactionTrait,
};
use tokio::sync::Barrier;

use crate::support::stores::{Store, Stores};

const VOUCHER: i64 = 7;
const OTHER_VOUCHER: i64 = 8;
const EPOCH: i64 = 3;

/// A store on a database of its own, with a sale of `total` units.
struct Bench {
    stores: Stores,
    db: Db,
    clock: Clock,
    store: SqlStore,
}

impl Bench {
    async fn new(kind: Store, total: i64) -> Self {
        let stores = Stores::create(kind).await;
        let url = stores.database_url.clone().unwrap();
        let db = Db::connect(&url, 16).await.unwrap();
        let clock = Clock::default();
        let settings = SaleSettings {
            pay_window: Duration::from_secs(60),
            answer_mode: AnswerMode::Redis,
            orphan_wait: Duration::from_secs(1),
            id_secret: Secret::new("x"),
            clicks_per_second: 5,
        };
        let store = SqlStore::new(db.clone(), clock.clone(), settings);
        let bench = Self {
            stores,
            db,
            clock,
            store,
        };
        bench.add_sale(VOUCHER, total).await;
        bench
    }

    async fn add_sale(&self, voucher: i64, total: i64) {
        let sale = sale::Model {
            voucher_id: voucher,
            shop_id: 1,
            begin_ms: 0,
            end_ms: i64::MAX / 2,
            total,
            sold: 0,
            per_user_limit: 2,
            max_attempts: 3,
            price_minor: 100,
            currency: "VND".to_owned(),
            stage: SaleStage::Opened,
            paused: false,
            frozen: false,
            epoch: EPOCH,
            announced: EPOCH,
            adjust_version: 0,
            adjust_target: None,
            lease_token: None,
            lease_until: 0,
            created_at: 0,
            updated_at: 0,
            settled_at: None,
            version: 1,
        };
        sale::Entity::insert(sale.into_active_model())
            .exec_without_returning(self.db.conn())
            .await
            .unwrap();
    }

    async fn sold(&self, voucher: i64) -> i64 {
        sale::Entity::find_by_id(voucher)
            .one(self.db.conn())
            .await
            .unwrap()
            .unwrap()
            .sold
    }

    async fn live(&self, voucher: i64) -> i64 {
        i64::try_from(
            order::Entity::find_live(voucher)
                .count(self.db.conn())
                .await
                .unwrap(),
        )
        .unwrap()
    }

    /// The books are right: `sold` is the live orders, and the ledger's sum.
    async fn assert_books(&self, voucher: i64) {
        let entries = stock_entry::Entity::find()
            .filter(stock_entry::Column::VoucherId.eq(voucher))
            .all(self.db.conn())
            .await
            .unwrap();
        let ledger: i64 = entries.iter().map(|e| e.sold_delta).sum();
        let (sold, live) = (self.sold(voucher).await, self.live(voucher).await);
        assert_eq!(
            (sold, sold),
            (live, ledger),
            "sold, live orders and ledger of voucher {voucher}"
        );
    }

    async fn giveback(&self, order: i64) -> Option<giveback::Model> {
        giveback::Entity::find_by_id(order)
            .one(self.db.conn())
            .await
            .unwrap()
    }

    fn money(&self, id: i64, order: i64, transaction: &str) -> Incoming {
        Incoming {
            id,
            provider: "sandbox".to_owned(),
            transaction: transaction.to_owned(),
            order: OrderId(order),
            amount_minor: 100,
            currency: "VND".to_owned(),
        }
    }

    async fn end(self) {
        self.db.close().await;
        self.stores.drop_database().await;
    }
}

fn item(order_id: i64, user_id: i64) -> QueuedOrderV1 {
    QueuedOrderV1 {
        v: 1,
        order_id,
        user_id,
        voucher_id: VOUCHER,
        slot: 1,
        price_minor: 100,
        currency: "VND".to_owned(),
        reserved_at: 1_000,
        epoch: EPOCH,
        request_id: format!("r{order_id}"),
        trace_id: "t".to_owned(),
    }
}

fn labels(outcomes: &[Outcome]) -> Vec<&'static str> {
    let label = |outcome: &Outcome| match outcome {
        Outcome::Inserted(_) => "inserted",
        Outcome::DoneBefore(_) => "done before",
        Outcome::Closed(_) => "closed",
        Outcome::Rejected(row) => match row.reason {
            RejectReason::Stale => "stale",
            RejectReason::Duplicate => "duplicate",
            RejectReason::NoUnit => "no unit",
            RejectReason::NotPlaced => "not placed",
        },
        Outcome::Foreign => "foreign",
        Outcome::NoSale => "no sale",
        Outcome::Refused => "refused",
    };
    outcomes.iter().map(label).collect()
}

async fn a_batch_is_judged_item_by_item_and_twice_is_once(kind: Store) {
    let bench = Bench::new(kind, 3).await;
    bench.add_sale(OTHER_VOUCHER, 1).await;
    let batch = [
        item(10, 1),
        item(11, 1),
        QueuedOrderV1 {
            slot: 2,
            ..item(12, 1)
        },
        QueuedOrderV1 {
            epoch: EPOCH - 1,
            ..item(13, 2)
        },
        item(14, 2),
        item(15, 3),
        QueuedOrderV1 {
            voucher_id: 99,
            ..item(16, 3)
        },
        QueuedOrderV1 {
            voucher_id: OTHER_VOUCHER,
            ..item(17, 3)
        },
        item(10, 2),
    ];
    let first = bench.store.apply(&batch).await.unwrap();
    let expected = [
        "inserted",
        "duplicate",
        "inserted",
        "stale",
        "inserted",
        "no unit",
        "no sale",
        "inserted",
        "foreign",
    ];
    assert_eq!(labels(&first), expected);
    let again = bench.store.apply(&batch).await.unwrap();
    let expected = [
        "done before",
        "duplicate",
        "done before",
        "stale",
        "done before",
        "no unit",
        "no sale",
        "done before",
        "foreign",
    ];
    assert_eq!(labels(&again), expected);
    assert_eq!(
        (bench.sold(VOUCHER).await, bench.sold(OTHER_VOUCHER).await),
        (3, 1)
    );
    bench.assert_books(VOUCHER).await;
    bench.assert_books(OTHER_VOUCHER).await;

    let rejects = order_reject::Entity::find()
        .count(bench.db.conn())
        .await
        .unwrap();
    assert_eq!(rejects, 3);
    assert_eq!(
        bench.giveback(11).await.unwrap().round,
        2,
        "a reject that comes again opens its giveback again"
    );
    assert!(
        bench.giveback(10).await.is_none(),
        "no giveback while a row holds the unit"
    );
    let Some(Found::Row(row)) = bench
        .store
        .find(&[OrderId(10)])
        .await
        .unwrap()
        .remove(&OrderId(10))
    else {
        panic!()
    };
    assert_eq!(
        (row.user_id, row.status, row.active, row.version),
        (1, OrderStatus::Unpaid, Some(1), 1)
    );
    assert!(row.pay_by > row.created_at);
    bench.end().await;
}

async fn overlapping_batches_at_once_sell_each_unit_once(kind: Store) {
    const TOTAL: i64 = 300;
    let bench = Bench::new(kind, TOTAL).await;
    let all: Vec<QueuedOrderV1> = (0..500).map(|n| item(1_000 + n, 1 + n)).collect();
    let mut tasks = Vec::new();
    for task in 0..4_usize {
        let (store, mut batch) = (bench.store.clone(), all.clone());
        batch.rotate_left(task * 120);
        tasks.push(tokio::spawn(async move {
            let mut inserted = HashSet::new();
            for part in batch.chunks(125) {
                for outcome in store.apply(part).await.unwrap() {
                    if let Outcome::Inserted(row) = outcome {
                        inserted.insert(row.id);
                    }
                }
            }
            inserted
        }));
    }
    let mut inserted = HashSet::new();
    for task in tasks {
        for id in task.await.unwrap() {
            assert!(inserted.insert(id), "order {id} was inserted twice");
        }
    }
    assert_eq!(i64::try_from(inserted.len()).unwrap(), TOTAL);
    bench.assert_books(VOUCHER).await;
    let rejected = order_reject::Entity::find()
        .count(bench.db.conn())
        .await
        .unwrap();
    assert_eq!(rejected, 200);
    bench.end().await;
}

async fn an_order_is_closed_once_and_its_giveback_counts_in_its_round_and_epoch(kind: Store) {
    let bench = Bench::new(kind, 5).await;
    bench
        .store
        .apply(&[item(10, 1), item(11, 2), item(12, 3)])
        .await
        .unwrap();
    assert!(
        bench
            .store
            .due(bench.clock.now_ms(), 10)
            .await
            .unwrap()
            .is_empty()
    );
    bench.clock.shift_ms(61_000);
    let due = bench.store.due(bench.clock.now_ms(), 2).await.unwrap();
    assert_eq!(due.len(), 2);
    let closers = (0..4).map(|_| {
        let (store, due) = (bench.store.clone(), due.clone());
        tokio::spawn(async move {
            store
                .close(&due, CloseReason::Deadline)
                .await
                .unwrap()
                .len()
        })
    });
    let mut closed = 0;
    for closer in closers.collect::<Vec<_>>() {
        closed += closer.await.unwrap();
    }
    assert_eq!(closed, 2, "four closers closed each order once");
    assert_eq!(bench.sold(VOUCHER).await, 1);
    bench.assert_books(VOUCHER).await;

    let order = due[0].0;
    let again = bench
        .store
        .apply(&[QueuedOrderV1 {
            user_id: order.0 - 9,
            ..item(order.0, 0)
        }])
        .await
        .unwrap();
    assert_eq!(
        labels(&again),
        ["closed"],
        "a late copy of a closed order is no new order"
    );
    assert_eq!(bench.giveback(order.0).await.unwrap().round, 2);
    for (round, epoch, expected) in [
        (1, Some(EPOCH), 0),
        (2, Some(EPOCH - 1), 0),
        (2, Some(EPOCH), 1),
        (2, None, 0),
    ] {
        let done = bench
            .store
            .givebacks_done(VoucherId(VOUCHER), &[(order, round)], epoch)
            .await
            .unwrap();
        assert_eq!(done, expected, "round {round} under {epoch:?}");
    }

    // The freed slot is free again for its user, also in the constraint.
    let next = bench.store.apply(&[item(20, order.0 - 9)]).await.unwrap();
    assert_eq!(labels(&next), ["inserted"]);
    bench.end().await;
}

async fn an_order_that_is_nowhere_is_rejected_only_in_the_epoch_that_was_asked(kind: Store) {
    let bench = Bench::new(kind, 5).await;
    let price = Money {
        minor: 100,
        currency: Currency::parse("VND").unwrap(),
    };
    let key = |order| OrderKey {
        order: OrderId(order),
        voucher: VoucherId(VOUCHER),
        buyer: UserId(1),
    };
    bench.store.apply(&[item(10, 1)]).await.unwrap();
    assert!(matches!(
        bench.store.bar(key(10), &price, EPOCH).await.unwrap(),
        Barred::Found(Found::Row(_))
    ));
    assert!(matches!(
        bench.store.bar(key(11), &price, EPOCH + 1).await.unwrap(),
        Barred::OtherEpoch
    ));
    let Barred::Rejected(row) = bench.store.bar(key(11), &price, EPOCH).await.unwrap() else {
        panic!()
    };
    assert_eq!(row.reason, RejectReason::NotPlaced);
    assert!(matches!(
        bench.store.bar(key(11), &price, EPOCH).await.unwrap(),
        Barred::Found(Found::Reject(_))
    ));
    let late = bench.store.apply(&[item(11, 1)]).await.unwrap();
    assert_eq!(
        labels(&late),
        ["not placed"],
        "what was said to be rejected is not placed later"
    );
    bench.end().await;
}

async fn only_the_holder_of_the_lease_starts_an_epoch(kind: Store) {
    let bench = Bench::new(kind, 5).await;
    let voucher = VoucherId(VOUCHER);
    bench
        .store
        .apply(&[item(10, 1), item(11, 2)])
        .await
        .unwrap();
    bench
        .store
        .close(&[(OrderId(11), voucher)], CloseReason::Buyer)
        .await
        .unwrap();
    assert!(bench.store.hold_sale(voucher, "a", 10_000).await.unwrap());
    assert!(
        bench.store.hold_sale(voucher, "a", 10_000).await.unwrap(),
        "the holder renews"
    );
    assert!(!bench.store.hold_sale(voucher, "b", 10_000).await.unwrap());
    assert!(!bench.store.announce(voucher, "b").await.unwrap());
    assert!(bench.store.advance(voucher, "b").await.unwrap().is_none());
    assert!(bench.store.announce(voucher, "a").await.unwrap());
    let sale = bench.store.sale(voucher).await.unwrap().unwrap();
    assert_eq!((sale.epoch, sale.announced), (EPOCH, EPOCH + 1));

    let snapshot = bench.store.advance(voucher, "a").await.unwrap().unwrap();
    assert_eq!(
        (
            snapshot.sale.epoch,
            snapshot.sale.announced,
            snapshot.sale.sold
        ),
        (EPOCH + 1, EPOCH + 1, 1)
    );
    assert_eq!(
        snapshot.held.iter().map(|h| h.order.0).collect::<Vec<_>>(),
        [10]
    );
    assert_eq!(
        snapshot
            .attempts
            .iter()
            .map(|a| a.request_id.as_str())
            .collect::<Vec<_>>(),
        ["r10", "r11"]
    );

    assert!(bench.store.renew_sale(voucher, "a", 10_000).await.unwrap());
    bench.clock.shift_ms(11_000);
    assert!(!bench.store.announce(voucher, "a").await.unwrap());
    assert!(
        bench.store.advance(voucher, "a").await.unwrap().is_none(),
        "a lease that ran out starts nothing"
    );
    assert!(
        !bench.store.renew_sale(voucher, "a", 10_000).await.unwrap(),
        "and is not renewed, though nobody else has it yet"
    );
    a_recoverer_that_slept_changes_nothing(&bench, voucher).await;
    assert!(bench.store.hold_sale(voucher, "b", 10_000).await.unwrap());
    bench.store.leave_sale(voucher, "a").await.unwrap();
    assert!(
        !bench.store.hold_sale(voucher, "a", 10_000).await.unwrap(),
        "only the holder gives it back"
    );
    bench.end().await;
}

/// While "a" slept, "b" brought the sale through an epoch of its own and left it to sell.
async fn a_recoverer_that_slept_changes_nothing(bench: &Bench, voucher: VoucherId) {
    let store = &bench.store;
    assert!(store.hold_sale(voucher, "b", 10_000).await.unwrap());
    assert!(store.announce(voucher, "b").await.unwrap());
    let after = store.advance(voucher, "b").await.unwrap().unwrap().sale;
    store.leave_sale(voucher, "b").await.unwrap();
    assert!(
        !store.renew_sale(voucher, "a", 10_000).await.unwrap(),
        "the lease is free, but it is not a's"
    );
    assert!(!store.announce(voucher, "a").await.unwrap());
    assert!(store.advance(voucher, "a").await.unwrap().is_none());
    assert!(
        store.hold_sale(voucher, "a", 10_000).await.unwrap(),
        "one who takes a free lease has to look again"
    );
    assert!(
        store.advance(voucher, "a").await.unwrap().is_none(),
        "what a announced is gone"
    );
    store.leave_sale(voucher, "a").await.unwrap();
    let now = store.sale(voucher).await.unwrap().unwrap();
    assert_eq!((now.epoch, now.announced), (after.epoch, after.epoch));
}

/// Money that waits for its order does not keep later money from being looked at.
async fn orphans_are_read_page_by_page(kind: Store) {
    let bench = Bench::new(kind, 9).await;
    for n in 0..5 {
        let money = bench.money(100 + n, 50 + n, &format!("t{n}"));
        assert_eq!(
            bench.store.record_payment(&money).await.unwrap(),
            Recorded::Orphan
        );
    }
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = bench.store.orphans(after, 2).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some((last.received_at, last.id));
        seen.extend(page.iter().map(|p| p.id));
    }
    assert_eq!(seen, [100, 101, 102, 103, 104]);
    bench.end().await;
}

async fn an_intent_stays_and_takes_the_payload_it_lacked(kind: Store) {
    let bench = Bench::new(kind, 9).await;
    let intent = |token: &str, payload: &str| payment_intent::Model {
        order_id: 10,
        token: token.to_owned(),
        provider: "sandbox".to_owned(),
        user_id: 1,
        voucher_id: VOUCHER,
        amount_minor: 100,
        currency: "VND".to_owned(),
        payload: payload.to_owned(),
        status: IntentStatus::Open,
        created_at: 0,
    };
    let payload = String::from_utf8(item(10, 1).to_bytes()).unwrap();
    for (given, kept) in [
        ("", ""),
        (payload.as_str(), payload.as_str()),
        ("x", &payload),
    ] {
        let intent = intent(
            &format!("t{given}").chars().take(9).collect::<String>(),
            given,
        );
        let found = bench.store.keep_intent(intent).await.unwrap();
        assert_eq!((found.token.as_str(), found.payload.as_str()), ("t", kept));
        let stored = bench.store.intent(IntentBy::Token("t")).await.unwrap();
        assert_eq!(stored.unwrap().payload, kept);
    }
    let open = bench.store.open_intents(VoucherId(VOUCHER)).await.unwrap();
    assert_eq!(open, [item(10, 1)]);
    bench.end().await;
}

async fn money_pays_an_order_once_and_else_goes_back_once(kind: Store) {
    let bench = Bench::new(kind, 9).await;
    bench
        .store
        .apply(&[item(10, 1), item(11, 2), item(12, 3)])
        .await
        .unwrap();
    let record = |money: Incoming| {
        let store = bench.store.clone();
        async move { store.record_payment(&money).await.unwrap() }
    };
    // Twenty callbacks of one transaction at once.
    let at_once = (0..20).map(|n| tokio::spawn(record(bench.money(100 + n, 10, "t1"))));
    let mut results = Vec::new();
    for task in at_once.collect::<Vec<_>>() {
        results.push(task.await.unwrap());
    }
    assert_eq!(
        results.iter().filter(|r| **r == Recorded::Paid).count(),
        1,
        "{results:?}"
    );
    assert_eq!(
        results.iter().filter(|r| **r == Recorded::Repeated).count(),
        19
    );

    assert_eq!(
        record(bench.money(200, 10, "t2")).await,
        Recorded::ToRefund(RefundReason::Second)
    );
    let wrong = Incoming {
        amount_minor: 99,
        ..bench.money(201, 11, "t3")
    };
    assert_eq!(
        record(wrong).await,
        Recorded::ToRefund(RefundReason::WrongAmount)
    );
    let wrong = Incoming {
        currency: "USD".to_owned(),
        ..bench.money(202, 11, "t4")
    };
    assert_eq!(
        record(wrong).await,
        Recorded::ToRefund(RefundReason::WrongAmount)
    );
    bench
        .store
        .close(&[(OrderId(12), VoucherId(VOUCHER))], CloseReason::Deadline)
        .await
        .unwrap();
    assert_eq!(
        record(bench.money(203, 12, "t5")).await,
        Recorded::ToRefund(RefundReason::Late)
    );

    assert_eq!(record(bench.money(204, 50, "t6")).await, Recorded::Orphan);
    let orphan = bench.store.orphans(None, 10).await.unwrap().remove(0);
    assert_eq!(
        bench.store.judge_orphan(&orphan, 0).await.unwrap(),
        Recorded::Orphan
    );
    bench.store.apply(&[item(50, 5)]).await.unwrap();
    assert_eq!(
        bench.store.judge_orphan(&orphan, 0).await.unwrap(),
        Recorded::Paid,
        "the row came late"
    );
    assert_eq!(
        bench.store.judge_orphan(&orphan, i64::MAX).await.unwrap(),
        Recorded::Repeated
    );
    assert_eq!(record(bench.money(205, 51, "t7")).await, Recorded::Orphan);
    let orphan = bench.store.orphans(None, 10).await.unwrap().remove(0);
    let given_up = bench.store.judge_orphan(&orphan, i64::MAX).await.unwrap();
    assert_eq!(given_up, Recorded::ToRefund(RefundReason::Orphan));

    let due = bench
        .store
        .due_refunds(bench.clock.now_ms(), 50)
        .await
        .unwrap();
    assert_eq!(due.len(), 5);
    // Order 11 got two wrong payments: while one of them is on its way back, that one is shown.
    let of_eleven: Vec<_> = due.iter().filter(|r| r.order_id == 11).collect();
    assert_eq!(of_eleven.len(), 2);
    assert!(bench.store.refund_done(of_eleven[1]).await.unwrap());
    let shown = bench.store.refunds_of(&[OrderId(11)]).await.unwrap();
    assert_eq!(shown[&OrderId(11)].id, of_eleven[0].id);
    for refund in due.iter().filter(|r| r.id != of_eleven[1].id) {
        assert!(bench.store.refund_done(refund).await.unwrap());
        assert!(!bench.store.refund_done(refund).await.unwrap());
    }
    let payments = payment::Entity::find()
        .count(bench.db.conn())
        .await
        .unwrap();
    assert_eq!(payments, 7);
    bench.end().await;
}

/// Pay and close meet on each of 1,000 orders at the same moment.
async fn pay_against_close_has_one_winner_and_the_losers_money_goes_back(kind: Store) {
    const ORDERS: i64 = 1_000;
    const AT_ONCE: i64 = 50;
    let bench = Bench::new(kind, ORDERS).await;
    let all: Vec<QueuedOrderV1> = (0..ORDERS).map(|n| item(1_000 + n, 1 + n)).collect();
    for batch in all.chunks(500) {
        bench.store.apply(batch).await.unwrap();
    }
    for wave in 0..ORDERS / AT_ONCE {
        let barrier = Arc::new(Barrier::new(usize::try_from(AT_ONCE).unwrap() + 1));
        let orders: Vec<i64> = (0..AT_ONCE).map(|n| 1_000 + wave * AT_ONCE + n).collect();
        let mut tasks = Vec::new();
        for order in orders.clone() {
            let (store, barrier) = (bench.store.clone(), Arc::clone(&barrier));
            let money = bench.money(10_000 + order, order, &format!("t{order}"));
            tasks.push(tokio::spawn(async move {
                barrier.wait().await;
                store.record_payment(&money).await.unwrap();
            }));
        }
        let store = bench.store.clone();
        tasks.push(tokio::spawn(async move {
            let orders: Vec<_> = orders
                .into_iter()
                .rev()
                .map(|o| (OrderId(o), VoucherId(VOUCHER)))
                .collect();
            barrier.wait().await;
            for some in orders.chunks(5) {
                store.close(some, CloseReason::Deadline).await.unwrap();
            }
        }));
        for task in tasks {
            task.await.unwrap();
        }
    }
    let rows = order::Entity::find().all(bench.db.conn()).await.unwrap();
    let refunds = refund::Entity::find().all(bench.db.conn()).await.unwrap();
    let refunded: HashSet<i64> = refunds.iter().map(|r| r.order_id).collect();
    assert_eq!(refunds.len(), refunded.len(), "no money goes back twice");
    let (mut paid, mut closed) = (0, 0);
    for row in rows {
        match row.status {
            OrderStatus::Paid => {
                paid += 1;
                assert!(
                    !refunded.contains(&row.id) && row.active == Some(1) && row.closed_at.is_none(),
                    "{row:?}"
                );
            }
            OrderStatus::Closed => {
                closed += 1;
                assert!(
                    refunded.contains(&row.id) && row.active.is_none() && row.paid_at.is_none(),
                    "{row:?}"
                );
            }
            _ => panic!("neither won: {row:?}"),
        }
    }
    assert_eq!(paid + closed, ORDERS);
    assert!(
        paid > 0 && closed > 0,
        "both sides won somewhere: {paid} paid, {closed} closed"
    );
    assert_eq!(bench.sold(VOUCHER).await, paid);
    bench.assert_books(VOUCHER).await;
    bench.end().await;
}

/// A process that stands still in the middle of a transaction holds its locks for seconds, and not for ever.
async fn a_writer_that_stands_still_is_ended_by_the_server(kind: Store) {
    let bench = Bench::new(kind, 3).await;
    let still = bench.db.conn().begin().await.unwrap();
    sale::Entity::find_by_id(VOUCHER)
        .lock_exclusive()
        .one(&still)
        .await
        .unwrap();
    let outcomes = bench.store.apply(&[item(10, 1)]).await.unwrap();
    assert_eq!(labels(&outcomes), ["inserted"]);
    assert!(still.commit().await.is_err(), "what stood still is undone");
    bench.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_that_stands_still_is_ended_by_mariadb() {
    a_writer_that_stands_still_is_ended_by_the_server(Store::MariaDb).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_that_stands_still_is_ended_by_postgres() {
    a_writer_that_stands_still_is_ended_by_the_server(Store::Postgres).await;
}

macro_rules! on_each_database {
    ($($claim:ident),+ $(,)?) => {
        on_each_database!(sqlite Store::Sqlite: $($claim)+);
        on_each_database!(mariadb Store::MariaDb: $($claim)+);
        on_each_database!(postgres Store::Postgres: $($claim)+);
    };
    ($name:ident $kind:path: $($claim:ident)+) => {
        mod $name {
            use crate::support::stores::Store;
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $claim() {
                    super::$claim($kind).await;
                }
            )+
        }
    };
}

on_each_database!(
    a_batch_is_judged_item_by_item_and_twice_is_once,
    overlapping_batches_at_once_sell_each_unit_once,
    an_order_is_closed_once_and_its_giveback_counts_in_its_round_and_epoch,
    an_order_that_is_nowhere_is_rejected_only_in_the_epoch_that_was_asked,
    only_the_holder_of_the_lease_starts_an_epoch,
    money_pays_an_order_once_and_else_goes_back_once,
    pay_against_close_has_one_winner_and_the_losers_money_goes_back,
    orphans_are_read_page_by_page,
    an_intent_stays_and_takes_the_payload_it_lacked,
);
