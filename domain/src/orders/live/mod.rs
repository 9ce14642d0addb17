//! Live orders of one process: who watches what, and the way of a change to him. Where a change comes from is not
//! its matter: `publish_changes` is called by those who change orders, and `follow` hears the other nodes.
//!
//! Changes are routed by order and by buyer, never broadcast and filtered. Each watcher has a mailbox that keeps only
//! the latest state of an order, so a slow reader costs no memory and misses nothing but states already past.

mod event;
mod follow;
pub mod stock;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

pub(crate) use event::Mark;
use event::{CHANNEL, EVENTS_PER_MESSAGE, OrderEventV1};

use super::{Order, OrderId, OrderKey, Orders};
use crate::users::UserId;

/// How long the hub remembers an order that will not change any more, so that it is not told twice: well above the
/// time in which a newly written order may still be found by the regular look for new ones.
const REMEMBER_MS: i64 = 5 * 60_000;

/// A change that is a little older than the watch counts as news too: clocks of nodes differ by some milliseconds.
const SINCE_SLACK_MS: i64 = 1_000;

/// The hub. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Live {
    hub: Arc<Mutex<Hub>>,
    pub(super) stocks: Arc<stock::Stocks>,
}

#[derive(Default)]
struct Hub {
    orders: HashMap<OrderId, WatchedOrder>,
    users: HashMap<UserId, WatchedUser>,
}

/// How far an order was known to be.
#[derive(Clone, Copy)]
struct Seen {
    mark: Mark,
    is_final: bool,
    made_at_ms: i64,
}

impl Seen {
    fn of(order: &Order) -> Self {
        let made_at_ms = order.created_at_ms.unwrap_or(order.reserved_at_ms);
        Self {
            mark: Mark::of(order),
            is_final: order.is_final(),
            made_at_ms,
        }
    }
}

struct WatchedOrder {
    key: OrderKey,
    seen: Option<Seen>,
    mailboxes: Vec<Arc<Mailbox>>,
}

struct WatchedUser {
    /// What has changed since then is news to the watchers.
    since_ms: i64,
    /// Whether the orders he had then have been read.
    is_read: bool,
    seen: HashMap<OrderId, Seen>,
    mailboxes: Vec<Arc<Mailbox>>,
}

/// What a watcher has not taken yet: at most one state of each order.
#[derive(Default)]
struct Mailbox {
    waiting: Mutex<VecDeque<Arc<Order>>>,
    arrived: Notify,
}

impl Mailbox {
    fn put(&self, order: &Arc<Order>) {
        let mut waiting = self.waiting.lock();
        match waiting.iter_mut().find(|o| o.key.order == order.key.order) {
            Some(older) => *older = Arc::clone(order),
            None => waiting.push_back(Arc::clone(order)),
        }
        drop(waiting);
        self.arrived.notify_one();
    }

    async fn take(&self) -> Arc<Order> {
        loop {
            // The permit of `notify_one` stays when nobody waits, so nothing is missed between look and wait.
            if let Some(order) = self.waiting.lock().pop_front() {
                return order;
            }
            self.arrived.notified().await;
        }
    }
}

#[derive(Clone, Copy)]
enum Topic {
    Order(OrderId),
    User(UserId),
}

/// One watcher's place in the hub; dropping it ends the watch.
pub(crate) struct Watcher {
    live: Live,
    topic: Topic,
    mailbox: Arc<Mailbox>,
}

impl Watcher {
    /// The next change. May be dropped half-way: nothing is lost.
    pub(crate) async fn next(&self) -> Arc<Order> {
        self.mailbox.take().await
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.live.leave(self.topic, &self.mailbox);
        metrics::gauge!("lifemate_orders_watchers").decrement(1.0);
    }
}

/// The orders that are watched and not final, and the users whose new orders are waited for.
#[derive(Default)]
pub(super) struct Watched {
    orders: HashSet<OrderId>,
    /// Of the orders watched one by one, those of which no row has been seen.
    unwritten: Vec<OrderKey>,
    users: Vec<UserId>,
    /// Users whose orders have not been read since they are watched.
    unread: Vec<UserId>,
}

impl Live {
    /// Begins to watch one order. Changes that were committed before are not told: read the state after this.
    pub(crate) fn watch_order(&self, key: OrderKey) -> Watcher {
        let mailbox = Arc::new(Mailbox::default());
        let mut hub = self.hub.lock();
        let watched = hub.orders.entry(key.order).or_insert_with(|| WatchedOrder {
            key,
            seen: None,
            mailboxes: Vec::new(),
        });
        watched.mailboxes.push(Arc::clone(&mailbox));
        drop(hub);
        self.watcher(Topic::Order(key.order), mailbox)
    }

    /// Begins to watch all orders of a user, those to come too.
    pub(crate) fn watch_user(&self, user: UserId, now_ms: i64) -> Watcher {
        let mailbox = Arc::new(Mailbox::default());
        let new = || WatchedUser {
            since_ms: now_ms,
            is_read: false,
            seen: HashMap::new(),
            mailboxes: Vec::new(),
        };
        let mut hub = self.hub.lock();
        hub.users
            .entry(user)
            .or_insert_with(new)
            .mailboxes
            .push(Arc::clone(&mailbox));
        drop(hub);
        self.watcher(Topic::User(user), mailbox)
    }

    fn watcher(&self, topic: Topic, mailbox: Arc<Mailbox>) -> Watcher {
        metrics::gauge!("lifemate_orders_watchers").increment(1.0);
        Watcher {
            live: self.clone(),
            topic,
            mailbox,
        }
    }

    fn leave(&self, topic: Topic, mailbox: &Arc<Mailbox>) {
        let mut hub = self.hub.lock();
        let others = |mailboxes: &mut Vec<Arc<Mailbox>>| {
            mailboxes.retain(|m| !Arc::ptr_eq(m, mailbox));
            !mailboxes.is_empty()
        };
        match topic {
            Topic::Order(order) => {
                if hub
                    .orders
                    .get_mut(&order)
                    .is_some_and(|w| !others(&mut w.mailboxes))
                {
                    hub.orders.remove(&order);
                }
            }
            Topic::User(user) => {
                if hub
                    .users
                    .get_mut(&user)
                    .is_some_and(|w| !others(&mut w.mailboxes))
                {
                    hub.users.remove(&user);
                }
            }
        }
    }

    /// Hands changed orders to those who watch them; states that are not newer than what they know are dropped.
    pub(crate) fn deliver(&self, orders: &[Arc<Order>]) {
        let mut hub = self.hub.lock();
        for order in orders {
            let now = Seen::of(order);
            if let Some(watched) = hub.orders.get_mut(&order.key.order)
                && watched.key == order.key
                && watched.seen.is_none_or(|seen| seen.mark < now.mark)
            {
                watched.seen = Some(now);
                watched.mailboxes.iter().for_each(|m| m.put(order));
            }
            if let Some(watched) = hub.users.get_mut(&order.key.buyer)
                && watched
                    .seen
                    .get(&order.key.order)
                    .is_none_or(|seen| seen.mark < now.mark)
            {
                watched.seen.insert(order.key.order, now);
                watched.mailboxes.iter().for_each(|m| m.put(order));
            }
        }
    }

    /// Takes note of the orders a user had when his watch began: only what has changed since is news.
    pub(super) fn begin_user(&self, user: UserId, orders: &[Arc<Order>]) {
        let mut news = Vec::new();
        let mut hub = self.hub.lock();
        let Some(watched) = hub.users.get_mut(&user) else {
            return;
        };
        watched.is_read = true;
        for order in orders {
            if changed_at_ms(order) >= watched.since_ms - SINCE_SLACK_MS {
                news.push(Arc::clone(order));
            } else {
                watched
                    .seen
                    .entry(order.key.order)
                    .or_insert_with(|| Seen::of(order));
            }
        }
        drop(hub);
        self.deliver(&news);
    }

    /// Which of the events tell something new to somebody here.
    fn wanted(&self, events: Vec<OrderEventV1>) -> Vec<OrderEventV1> {
        let hub = self.hub.lock();
        let is_wanted = |event: &OrderEventV1| {
            let by_order = hub
                .orders
                .get(&event.order)
                .is_some_and(|w| w.seen.is_none_or(|s| s.mark < event.mark()));
            by_order
                || hub.users.get(&event.user).is_some_and(|w| {
                    w.seen
                        .get(&event.order)
                        .is_none_or(|s| s.mark < event.mark())
                })
        };
        events.into_iter().filter(is_wanted).collect()
    }

    /// What must be read again to repair lost events. Forgets what no longer matters.
    pub(super) fn watched(&self, now_ms: i64) -> Watched {
        let mut all = Watched::default();
        let mut hub = self.hub.lock();
        for (order, watched) in &hub.orders {
            if watched.seen.is_none_or(|s| !s.is_final) {
                all.orders.insert(*order);
            }
            if watched.seen.is_none_or(|s| s.mark == Mark::UNWRITTEN) {
                all.unwritten.push(watched.key);
            }
        }
        for (user, watched) in &mut hub.users {
            watched
                .seen
                .retain(|_, s| !s.is_final || now_ms - s.made_at_ms < REMEMBER_MS);
            all.orders.extend(
                watched
                    .seen
                    .iter()
                    .filter(|(_, s)| !s.is_final)
                    .map(|(order, _)| *order),
            );
            if watched.is_read {
                all.users.push(*user);
            } else {
                all.unread.push(*user);
            }
        }
        all
    }
}

/// When an order last went from one state to the next.
fn changed_at_ms(order: &Order) -> i64 {
    let times = [
        order.created_at_ms,
        order.paid_at_ms,
        order.closed_at_ms,
        order.used_at_ms,
    ];
    times
        .into_iter()
        .flatten()
        .max()
        .unwrap_or(order.reserved_at_ms)
}

impl Orders {
    /// Tells everybody who watches these orders, on this node at once and on the others through Redis.
    ///
    /// To be called after the change is committed. An event that Redis does not take is not sent again: each node
    /// reads what is watched there every 2 s.
    pub(crate) async fn publish_changes(&self, orders: &[Order]) {
        if orders.is_empty() {
            return;
        }
        let shared: Vec<Arc<Order>> = orders.iter().cloned().map(Arc::new).collect();
        self.inner.live.deliver(&shared);
        for chunk in orders.chunks(EVENTS_PER_MESSAGE) {
            let events: Vec<OrderEventV1> = chunk.iter().map(OrderEventV1::of).collect();
            let Ok(message) = serde_json::to_string(&events) else {
                return;
            };
            if let Err(e) = self.inner.infra.redis.publish(CHANNEL, &message).await {
                tracing::debug!(error = %e, orders = orders.len(), "changes of orders were not told to the other nodes");
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests;
