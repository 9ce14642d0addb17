//! Keeps the hub true: hears the other nodes, and reads again what is watched, because events can be lost.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use entity::{order, order_reject};
use futures_util::{StreamExt, stream};
use rand::Rng;
use sea_orm::{ColumnTrait, DbErr, EntityTrait, QueryFilter};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::{CHANNEL, OrderEventV1};
use crate::infra::db::Db;
use crate::infra::events::PushEvent;
use crate::infra::ids::made_at_ms;
use crate::orders::status::NOWHERE_AFTER_MS;
use crate::orders::store::Found;
use crate::orders::{Error, Order, OrderId, OrderKey, Orders};
use crate::users::UserId;

/// How often everything that is watched is read again: the longest a lost event is missed.
const REREAD_EVERY: Duration = Duration::from_secs(2);
/// Users in one query.
const USERS_PER_QUERY: usize = 500;
/// Orders of a user that are known from the start of his watch; older ones only change by events.
const ORDERS_PER_USER: u64 = 50;
/// How far back the look for a user's new orders goes: longer than a commit may take to become visible.
const NEW_WITHIN_MS: i64 = 60_000;
/// Unwritten orders that are looked for elsewhere in one round; the others' turn comes in a later one.
const LOOKS_PER_ROUND: usize = 100;
/// Looks that go on at the same moment, and how long new ones are begun in one round.
const LOOKS_AT_ONCE: usize = 8;
const LOOKS_BEGIN_WITHIN: Duration = Duration::from_millis(500);

/// What a turn of the loop is about.
enum Heard {
    Events(Vec<OrderEventV1>),
    /// Events may have been missed.
    Gap,
}

impl Orders {
    /// Keeps the watchers of this process told, until `stop`. One such task a process.
    pub async fn run_live(&self, stop: CancellationToken) {
        let mut pushes = self.inner.infra.redis.subscribe(CHANNEL);
        let mut tick = tokio::time::interval(REREAD_EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let heard = tokio::select! {
                () = stop.cancelled() => return,
                _ = tick.tick() => Heard::Gap,
                push = pushes.recv() => match push {
                    Err(RecvError::Closed) => return,
                    push => gather(push.ok(), &mut pushes),
                },
            };
            // Not inside the select: a database future must not be dropped half-way.
            let told = match heard {
                Heard::Gap => self.reread_watched().await,
                Heard::Events(events) => self.read_events(events).await,
            };
            if let Err(e) = told {
                tracing::debug!(error = %e, "watched orders could not be read; again in 2 s");
            }
        }
    }

    /// Reads the orders that events are about, as far as somebody here watches them, and hands them on.
    async fn read_events(&self, events: Vec<OrderEventV1>) -> Result<(), Error> {
        let wanted = self.inner.live.wanted(events);
        if wanted.is_empty() {
            return Ok(());
        }
        let ids: HashSet<OrderId> = wanted.iter().map(|e| e.order).collect();
        let read = self.read_and_deliver(ids).await?;
        // An order without a row is known to Redis only.
        let unwritten = wanted.iter().filter(|e| !read.contains(&e.order));
        self.look_for(unwritten.map(OrderEventV1::key).collect())
            .await;
        Ok(())
    }

    /// Reads everything that is watched and not final, and hands on what has changed. Changes nothing by itself,
    /// but that an order which is nowhere at all is rejected, as when its buyer asked.
    ///
    /// # Errors
    /// When a store fails; what was read until then has been handed on.
    pub async fn reread_watched(&self) -> Result<(), Error> {
        let now = self.inner.infra.clock.now_ms();
        let watched = self.inner.live.watched(now);
        for user in watched.unread {
            self.begin_user(user).await?;
        }
        let read = self.read_and_deliver(watched.orders).await?;
        let new = self
            .new_orders_of(&watched.users, now - NEW_WITHIN_MS)
            .await?;
        self.inner
            .live
            .deliver(&share(self.orders_of_found(new).await?));
        let lost = watched.unwritten.into_iter().filter(|key| {
            !read.contains(&key.order) && now - made_at_ms(key.order.0) >= NOWHERE_AFTER_MS
        });
        self.look_for(lost.collect()).await;
        Ok(())
    }

    /// Reads what a watched user has already, so that only what comes is news.
    pub(crate) async fn begin_user(&self, user: UserId) -> Result<(), Error> {
        let orders = self.of_user(user, None, None, ORDERS_PER_USER).await?;
        self.inner.live.begin_user(user, &share(orders));
        Ok(())
    }

    /// Reads orders in one query (a chunk), and returns which were found.
    async fn read_and_deliver(&self, orders: HashSet<OrderId>) -> Result<HashSet<OrderId>, Error> {
        if orders.is_empty() {
            return Ok(HashSet::new());
        }
        let ids: Vec<OrderId> = orders.into_iter().collect();
        let found = self.inner.store.find(&ids).await?;
        let read = found.keys().copied().collect();
        let orders = self.orders_of_found(found.into_values().collect()).await?;
        self.inner.live.deliver(&share(orders));
        Ok(read)
    }

    /// Looks for orders one by one, some at once, and hands on what is found. Nothing else is heard meanwhile, so it
    /// takes a part of them and begins nothing after a while: a Redis that hangs costs each look a timeout. Where it
    /// begins is left to chance, so that each has its turn in some round.
    async fn look_for(&self, mut keys: Vec<OrderKey>) {
        if keys.is_empty() {
            return;
        }
        let first = rand::rng().random_range(0..keys.len());
        keys.rotate_left(first);
        keys.truncate(LOOKS_PER_ROUND);
        let began = Instant::now();
        stream::iter(keys)
            .for_each_concurrent(LOOKS_AT_ONCE, |key| async move {
                if began.elapsed() > LOOKS_BEGIN_WITHIN {
                    return;
                }
                match self.get(key).await {
                    Ok(Some(order)) => self.inner.live.deliver(&[Arc::new(order)]),
                    Ok(None) => {}
                    Err(e) => {
                        tracing::debug!(error = %e, order.id = key.order.0, "a watched order cannot be looked for now");
                    }
                }
            })
            .await;
    }

    /// What was written for these users since a moment.
    async fn new_orders_of(&self, users: &[UserId], since_ms: i64) -> Result<Vec<Found>, DbErr> {
        if users.is_empty() {
            return Ok(Vec::new());
        }
        let (db, users) = (
            self.inner.infra.db.clone(),
            users.iter().map(|u| u.0).collect::<Vec<_>>(),
        );
        self.inner
            .infra
            .db
            .run(async move { written_since(&db, &users, since_ms).await })
            .await
    }
}

async fn written_since(db: &Db, users: &[i64], since_ms: i64) -> Result<Vec<Found>, DbErr> {
    let mut found = Vec::new();
    for chunk in users.chunks(USERS_PER_QUERY) {
        let rows = order::Entity::find()
            .filter(order::Column::UserId.is_in(chunk.iter().copied()))
            .filter(order::Column::CreatedAt.gte(since_ms));
        found.extend(rows.all(db.conn()).await?.into_iter().map(Found::Row));
        let rejects = order_reject::Entity::find()
            .filter(order_reject::Column::UserId.is_in(chunk.iter().copied()))
            .filter(order_reject::Column::CreatedAt.gte(since_ms));
        found.extend(rejects.all(db.conn()).await?.into_iter().map(Found::Reject));
    }
    Ok(found)
}

/// Takes all that has been pushed so far, so that one query serves it.
fn gather(first: Option<PushEvent>, pushes: &mut Receiver<PushEvent>) -> Heard {
    let mut events = Vec::new();
    let mut next = first;
    loop {
        let Some(PushEvent::Message(text)) = next else {
            return Heard::Gap;
        };
        // A message that cannot be read comes from a newer version: look for oneself.
        let Ok(mut more) = serde_json::from_str::<Vec<OrderEventV1>>(&text) else {
            return Heard::Gap;
        };
        events.append(&mut more);
        next = match pushes.try_recv() {
            Ok(push) => Some(push),
            Err(TryRecvError::Empty | TryRecvError::Closed) => return Heard::Events(events),
            Err(TryRecvError::Lagged(_)) => None,
        };
    }
}

fn share(orders: Vec<Order>) -> Vec<Arc<Order>> {
    orders.into_iter().map(Arc::new).collect()
}
