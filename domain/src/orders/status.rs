//! Where an order stands, also before it has a row; and the streams that tell its changes. Who changes orders is
//! elsewhere: see the table in `mod.rs`.

use deadpool_redis::redis::pipe;
use entity::refund;
use entity::sale::SaleStage;
use futures_util::Stream;
use futures_util::stream;

use super::live::{Mark, Watcher};
use super::queued::QueuedOrderV1;
use super::scripts::{Forgotten, ScriptError};
use super::store::{Barred, Found};
use super::{Error, Order, OrderId, OrderKey, Orders, Refund, Status, money};
use crate::infra::ids::made_at_ms;
use crate::users::UserId;
use crate::vouchers::{Money, Sale, VoucherId};

/// An order that is found nowhere is taken for lost this long after its id was made; until then it is on the way.
pub(super) const NOWHERE_AFTER_MS: i64 = 10_000;
/// How often Redis and the database are asked again when they answered in different epochs.
const EPOCH_TRIES: u32 = 3;

/// What Redis knows of an order without a row.
struct Held {
    buyer: UserId,
    slot: Option<i32>,
    payload: Option<QueuedOrderV1>,
}

impl Orders {
    /// The order as it is now; `None` when there is none, or its buyer or voucher are others than the key says.
    ///
    /// Looks in the database, then in Redis; for a settled sale in the database alone. An order that is nowhere 10 s
    /// after its id was made is barred for good and then REJECTED, also when its sale is settled; whatever cannot be told
    /// for sure is QUEUED.
    ///
    /// # Errors
    /// When the database fails. Trouble of Redis is no error here: the order may be there, so it is QUEUED.
    pub async fn get(&self, key: OrderKey) -> Result<Option<Order>, Error> {
        if let Some(found) = self
            .inner
            .store
            .find(&[key.order])
            .await?
            .remove(&key.order)
        {
            return self.own(key, found).await;
        }
        let Some(sale) = self.inner.store.sale(key.voucher).await? else {
            return Ok(None);
        };
        let age_ms = self.inner.infra.clock.now_ms() - made_at_ms(key.order.0);
        if sale.stage == SaleStage::Settled {
            // Redis has no say any more, and the epoch stands still.
            return if age_ms < NOWHERE_AFTER_MS {
                queued(key, &sale, None).map(Some)
            } else {
                self.bar_settled(key, &sale).await
            };
        }
        match self.held_in_redis(key).await {
            Ok(Some(held)) if held.buyer != key.buyer => Ok(None),
            Ok(Some(held)) => queued(key, &sale, Some(held)).map(Some),
            Ok(None) if age_ms < NOWHERE_AFTER_MS => queued(key, &sale, None).map(Some),
            Ok(None) => self.find_or_bar(key, &sale).await,
            Err(e) => {
                tracing::debug!(error = %e, order.id = key.order.0, "redis cannot tell about an order: it counts as queued");
                queued(key, &sale, None).map(Some)
            }
        }
    }

    /// The orders of a user that have a row or were rejected, newest first, at most `limit` of those before `after`.
    /// None of them is QUEUED.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn of_user(
        &self,
        user: UserId,
        status: Option<Status>,
        after: Option<OrderId>,
        limit: u64,
    ) -> Result<Vec<Order>, Error> {
        let store = std::sync::Arc::clone(&self.inner.store);
        let found = self
            .inner
            .infra
            .db
            .run(async move { store.of_user(user, status, after, limit).await })
            .await?;
        self.orders_of_found(found).await
    }

    /// A user's latest order in one sale: the one that holds a unit if there is one, queued ones included, else the
    /// newest closed one; `None` when he never had any.
    ///
    /// # Errors
    /// When the database fails. While Redis is away a queued order is not seen.
    pub async fn of_viewer_for(
        &self,
        user: UserId,
        voucher: VoucherId,
    ) -> Result<Option<Order>, Error> {
        let store = std::sync::Arc::clone(&self.inner.store);
        let latest = self
            .inner
            .infra
            .db
            .run(async move { store.latest_of(user, voucher).await })
            .await?;
        if latest.as_ref().is_none_or(|row| row.active.is_none())
            && let Some(queued) = self.queued_of(user, voucher).await?
        {
            return Ok(Some(queued));
        }
        let found = latest.map(Found::Row).into_iter().collect();
        Ok(self.orders_of_found(found).await?.pop())
    }

    /// Makes orders of what the store found, each with its latest refund. Keeps the order of the list.
    pub(crate) async fn orders_of_found(&self, found: Vec<Found>) -> Result<Vec<Order>, Error> {
        if found.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<OrderId> = found.iter().map(Found::order).collect();
        let refunds = self.inner.store.refunds_of(&ids).await?;
        let order = |found: Found| {
            let refund = refunds.get(&found.order()).and_then(refund_of);
            match &found {
                Found::Row(row) => Order::from_row(row, refund),
                Found::Reject(row) => Order::from_reject(row, refund),
            }
        };
        found.into_iter().map(order).collect()
    }

    /// An order's present state, then its changes; ends after a final state.
    ///
    /// Watching begins before the present state is read, so nothing between the two is missed. States that follow
    /// each other fast may be skipped, but never the last. An error ends the stream; it may be dropped at any time.
    pub fn watch(
        &self,
        key: OrderKey,
    ) -> impl Stream<Item = Result<Order, Error>> + Send + 'static + use<> {
        let watch = Watch {
            orders: self.clone(),
            key,
            watcher: self.inner.live.watch_order(key),
            last: None,
        };
        stream::unfold(Some(watch), |watch| async move {
            let mut watch = watch?;
            let item = watch.next().await;
            let goes_on = matches!(&item, Ok(order) if !order.is_final());
            Some((item, goes_on.then_some(watch)))
        })
    }

    /// Changes of all orders of a user from now on, new ones included; there is no present state first and no end.
    /// States that follow each other fast may be skipped, but never an order's last.
    pub fn watch_user(&self, user: UserId) -> impl Stream<Item = Order> + Send + 'static + use<> {
        let watcher = self
            .inner
            .live
            .watch_user(user, self.inner.infra.clock.now_ms());
        // What he has now is read at once, so that a lost event about it can be noticed.
        let orders = self.clone();
        tokio::spawn(async move {
            if let Err(e) = orders.begin_user(user).await {
                tracing::debug!(error = %e, "a watched user's orders are read later");
            }
        });
        stream::unfold(watcher, |watcher| async move {
            let order = watcher.next().await;
            Some(((*order).clone(), watcher))
        })
    }

    async fn own(&self, key: OrderKey, found: Found) -> Result<Option<Order>, Error> {
        let order = self.orders_of_found(vec![found]).await?.pop();
        Ok(order.filter(|order| order.key == key))
    }

    /// The unit that Redis holds for an order, with its payload as long as the row is not written.
    async fn held_in_redis(&self, key: OrderKey) -> Result<Option<Held>, Error> {
        let keys = self.keys(key.voucher);
        let mut reads = pipe();
        reads
            .hget(keys.orders(), key.order.0)
            .hget(keys.outbox(), key.order.0);
        let (unit, payload): (Option<String>, Option<Vec<u8>>) =
            self.inner.infra.redis.query_pipe(&reads).await?;
        let Some(unit) = unit else { return Ok(None) };
        let (user, slot) = unit.split_once(':').unwrap_or((&unit, ""));
        let buyer = user
            .parse()
            .map_err(|_| Error::Corrupt(format!("redis holds order {} for {unit:?}", key.order)))?;
        let payload = payload.and_then(|bytes| QueuedOrderV1::parse(&bytes).ok());
        Ok(Some(Held {
            buyer,
            slot: slot.parse().ok(),
            payload,
        }))
    }

    /// Bars an id that is nowhere, in Redis first and then, under the sale's lock, in the database.
    async fn find_or_bar(&self, key: OrderKey, sale: &Sale) -> Result<Option<Order>, Error> {
        let price = money(sale.price_minor, &sale.currency)?;
        for _ in 0..EPOCH_TRIES {
            let epoch = match self.forget(key.voucher, key.order).await {
                Ok(Forgotten::Dead { epoch }) => epoch,
                Ok(Forgotten::Queued | Forgotten::NotReady | Forgotten::Damaged)
                | Err(ScriptError::NoScript) => break,
                Err(e) => {
                    tracing::debug!(error = %e, order.id = key.order.0, "redis cannot tell about an order: it counts as queued");
                    break;
                }
            };
            if let Some(found) = self.bar(key, &price, epoch).await? {
                return self.own(key, found).await;
            }
        }
        queued(key, sale, None).map(Some)
    }

    /// The same for a settled sale, of which the database alone knows.
    async fn bar_settled(&self, key: OrderKey, sale: &Sale) -> Result<Option<Order>, Error> {
        let price = money(sale.price_minor, &sale.currency)?;
        match self.bar(key, &price, sale.epoch).await? {
            Some(found) => self.own(key, found).await,
            None => queued(key, sale, None).map(Some),
        }
    }

    /// Rejects an order that is nowhere, and tells who watches it; what the database knows of it now, `None` when it is
    /// in another epoch.
    pub(super) async fn bar(
        &self,
        key: OrderKey,
        price: &Money,
        epoch: i64,
    ) -> Result<Option<Found>, Error> {
        match self.inner.store.bar(key, price, epoch).await? {
            Barred::OtherEpoch => Ok(None),
            Barred::Found(found) => Ok(Some(found)),
            Barred::Rejected(row) => {
                tracing::warn!(
                    order.id = key.order.0,
                    voucher.id = key.voucher.0,
                    "an order is nowhere: it is rejected"
                );
                self.publish_changes(&[Order::from_reject(&row, None)?])
                    .await;
                Ok(Some(Found::Reject(row)))
            }
        }
    }

    /// The queued order of a user in one sale, if Redis holds one and can be asked.
    async fn queued_of(&self, user: UserId, voucher: VoucherId) -> Result<Option<Order>, Error> {
        let Some(sale) = self.inner.store.sale(voucher).await? else {
            return Ok(None);
        };
        if sale.stage != SaleStage::Opened {
            return Ok(None);
        }
        let buyers = self.keys(voucher).buyers();
        let mut read = pipe();
        (1..=sale.per_user_limit.max(1)).for_each(|slot| {
            read.hget(&buyers, format!("{user}:{slot}"));
        });
        let held: Vec<Option<i64>> = match self.inner.infra.redis.query_pipe(&read).await {
            Ok(held) => held,
            Err(e) => {
                tracing::debug!(error = %e, "redis cannot be asked for a queued order");
                return Ok(None);
            }
        };
        let Some(order) = held.into_iter().flatten().max() else {
            return Ok(None);
        };
        self.get(OrderKey {
            order: OrderId(order),
            voucher,
            buyer: user,
        })
        .await
    }
}

/// A stream's state: what it watches, and how far it has told.
struct Watch {
    orders: Orders,
    key: OrderKey,
    watcher: Watcher,
    last: Option<Mark>,
}

impl Watch {
    async fn next(&mut self) -> Result<Order, Error> {
        let Some(last) = self.last else {
            let order = self.present().await?;
            self.last = Some(Mark::of(&order));
            return Ok(order);
        };
        loop {
            let order = self.watcher.next().await;
            let mark = Mark::of(&order);
            if mark > last {
                self.last = Some(mark);
                return Ok((*order).clone());
            }
        }
    }

    /// In a task of its own: the stream may be dropped at any time, a database future may not.
    async fn present(&self) -> Result<Order, Error> {
        let (orders, key) = (self.orders.clone(), self.key);
        let read = tokio::spawn(async move { orders.require(key).await });
        read.await
            .unwrap_or_else(|e| Err(Error::TryLater(e.to_string())))
    }
}

fn queued(key: OrderKey, sale: &Sale, held: Option<Held>) -> Result<Order, Error> {
    let slot = held.as_ref().and_then(|h| h.slot);
    let mut order = match held.and_then(|h| h.payload) {
        Some(payload) => {
            let price = money(payload.price_minor, &payload.currency)?;
            let mut order = Order::queued(key, price, payload.reserved_at);
            order.request_id = payload.request_id;
            order
        }
        None => Order::queued(
            key,
            money(sale.price_minor, &sale.currency)?,
            made_at_ms(key.order.0),
        ),
    };
    order.slot = slot;
    Ok(order)
}

/// A provider may have sent money in a currency that we cannot even name; the order is shown without it then.
fn refund_of(row: &refund::Model) -> Option<Refund> {
    let amount = money(row.amount_minor, &row.currency).ok()?;
    Some(Refund {
        amount,
        status: row.status,
    })
}
