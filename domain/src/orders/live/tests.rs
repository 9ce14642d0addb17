//! The hub by itself: who is told what, and what is read again.

use std::sync::Arc;

use super::{Live, Mailbox, OrderEventV1, Watcher};
use crate::orders::{Order, OrderId, OrderKey, Status};
use crate::users::UserId;
use crate::vouchers::{Currency, Money, VoucherId};

fn key(order: i64, buyer: i64) -> OrderKey {
    OrderKey {
        order: OrderId(order),
        voucher: VoucherId(1),
        buyer: UserId(buyer),
    }
}

fn order(order: i64, buyer: i64, status: Status, version: i64) -> Arc<Order> {
    let price = Money {
        minor: 1,
        currency: Currency::parse("VND").unwrap(),
    };
    Arc::new(Order {
        status,
        version,
        created_at_ms: Some(100),
        ..Order::queued(key(order, buyer), price, 50)
    })
}

fn waiting(watcher: &Watcher) -> Vec<(i64, i64)> {
    let waiting: &Mailbox = &watcher.mailbox;
    waiting
        .waiting
        .lock()
        .iter()
        .map(|o| (o.key.order.0, o.version))
        .collect()
}

#[test]
fn a_change_goes_to_those_who_watch_the_order_or_its_buyer_and_to_nobody_else() {
    let live = Live::default();
    let (by_order, by_user) = (live.watch_order(key(1, 7)), live.watch_user(UserId(7), 0));
    let (other_order, other_user) = (live.watch_order(key(2, 7)), live.watch_user(UserId(8), 0));
    live.deliver(&[order(1, 7, Status::Unpaid, 1)]);
    assert_eq!(
        (waiting(&by_order), waiting(&by_user)),
        (vec![(1, 1)], vec![(1, 1)])
    );
    assert_eq!(
        (waiting(&other_order), waiting(&other_user)),
        (vec![], vec![])
    );
}

#[test]
fn an_order_whose_buyer_is_not_the_one_watched_for_is_not_told() {
    let live = Live::default();
    let watcher = live.watch_order(key(1, 7));
    live.deliver(&[order(1, 8, Status::Paid, 2)]);
    assert_eq!(waiting(&watcher), []);
}

#[test]
fn older_and_repeated_states_are_dropped_and_a_slow_reader_gets_the_latest() {
    let live = Live::default();
    let watcher = live.watch_order(key(1, 7));
    live.deliver(&[order(1, 7, Status::Unpaid, 1)]);
    live.deliver(&[order(1, 7, Status::Paid, 2)]);
    live.deliver(&[order(1, 7, Status::Unpaid, 1), order(1, 7, Status::Paid, 2)]);
    assert_eq!(waiting(&watcher), [(1, 2)]);
}

#[tokio::test]
async fn a_change_that_came_before_the_reader_waits_for_him() {
    let live = Live::default();
    let watcher = live.watch_user(UserId(7), 0);
    live.deliver(&[
        order(1, 7, Status::Unpaid, 1),
        order(2, 7, Status::Unpaid, 1),
    ]);
    assert_eq!(watcher.next().await.key.order, OrderId(1));
    assert_eq!(watcher.next().await.key.order, OrderId(2));
    let reader = tokio::spawn(async move { watcher.next().await.version });
    tokio::task::yield_now().await;
    live.deliver(&[order(2, 7, Status::Paid, 2)]);
    assert_eq!(reader.await.unwrap(), 2);
}

#[test]
fn only_events_with_news_for_somebody_here_are_wanted() {
    let live = Live::default();
    let _watchers = (live.watch_order(key(1, 7)), live.watch_user(UserId(8), 0));
    live.deliver(&[order(1, 7, Status::Unpaid, 1)]);
    let events = [
        order(1, 7, Status::Unpaid, 1),
        order(1, 7, Status::Paid, 2),
        order(3, 8, Status::Unpaid, 1),
        order(4, 9, Status::Paid, 2),
    ];
    let wanted = live.wanted(events.iter().map(|o| OrderEventV1::of(o)).collect());
    assert_eq!(
        wanted
            .iter()
            .map(|e| (e.order.0, e.version))
            .collect::<Vec<_>>(),
        [(1, 2), (3, 1)]
    );
}

#[test]
fn what_a_user_had_before_is_no_news_but_what_has_changed_since_is() {
    let live = Live::default();
    let watcher = live.watch_user(UserId(7), 90_000);
    let at = |ms: i64, order: Arc<Order>| {
        Arc::new(Order {
            created_at_ms: Some(ms),
            ..(*order).clone()
        })
    };
    let earlier = at(80_000, order(1, 7, Status::Unpaid, 1));
    let closed = Arc::new(Order {
        closed_at_ms: Some(90_010),
        ..(*at(80_000, order(3, 7, Status::Closed, 2))).clone()
    });
    live.begin_user(
        UserId(7),
        &[earlier, at(90_001, order(2, 7, Status::Unpaid, 1)), closed],
    );
    assert_eq!(waiting(&watcher), [(2, 1), (3, 2)]);
    let watched = live.watched(100);
    assert!(watched.orders.contains(&OrderId(1)) && watched.orders.contains(&OrderId(2)));
}

#[test]
fn final_orders_are_not_read_again_and_unwritten_ones_are() {
    let live = Live::default();
    let _watchers = (
        live.watch_order(key(1, 7)),
        live.watch_order(key(2, 7)),
        live.watch_order(key(3, 7)),
    );
    live.deliver(&[order(1, 7, Status::Used, 3), order(2, 7, Status::Unpaid, 1)]);
    let watched = live.watched(0);
    assert_eq!(
        (watched.orders.len(), watched.orders.contains(&OrderId(1))),
        (2, false)
    );
    assert_eq!(watched.unwritten, [key(3, 7)]);
}

#[test]
fn nothing_is_kept_when_nobody_watches_any_more() {
    let live = Live::default();
    let (first, second) = (live.watch_order(key(1, 7)), live.watch_order(key(1, 7)));
    let user = live.watch_user(UserId(7), 0);
    drop(first);
    assert_eq!(live.hub.lock().orders.len(), 1);
    drop((second, user));
    let hub = live.hub.lock();
    assert!(hub.orders.is_empty() && hub.users.is_empty());
}
