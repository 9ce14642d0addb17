//! The click: one buyer asks for a unit of a flash sale. Redis decides, many buyers in one call; the row comes
//! later. See `lua/reserve.lua` for the rules and `apply` for what becomes of the order.

use std::collections::HashSet;
use std::time::Duration;

use deadpool_redis::redis::cmd;
use entity::sale::SaleStage;

use super::gate::Passage;
use super::queued::QueuedOrderV1;
use super::reservations::Reply;
use super::scripts::{Buyer, Reserved};
use super::{Answer, Error, Order, OrderId, OrderKey, Orders, RequestId, money};
use crate::infra::bus::Bus;
use crate::infra::fault::RETRY_AFTER;
use crate::users::UserId;
use crate::vouchers::{Money, SaleState, VoucherId};

/// Buyers read in one step when the sold-out gate loads them.
const SCAN_COUNT: usize = 1_000;
/// How long the first click of a voucher waits to hear whether it is sold at all.
const CARD_PATIENCE: Duration = Duration::from_millis(500);

impl Orders {
    /// Admits one buyer to a flash sale and queues the order; returns before the database row exists.
    ///
    /// One Redis round trip, shared with the buyers that came at the same moment; at most 2 s. Refusals change
    /// nothing. A failed send to Kafka is not reported: the outbox keeps the order until its row is committed. Runs
    /// to its end even when the caller is dropped.
    /// Why Lua and not a lock: stock and one-per-user must change together; see README, "The seckill walk".
    ///
    /// # Errors
    /// `NoSuchSale`; trouble of ours. What a buyer expects to hear is in the answer.
    pub async fn reserve(
        &self,
        buyer: UserId,
        voucher: VoucherId,
        request: RequestId,
        trace_id: String,
    ) -> Result<Answer, Error> {
        let passage = self.inner.gate.pass(voucher, buyer);
        let answer = match passage {
            Passage::TooFast { retry_after } => Ok(Answer::RateLimited { retry_after }),
            Passage::SoldOut => Ok(Answer::SoldOut),
            Passage::Open => {
                self.admit_to_the_end(buyer, voucher, request, trace_id)
                    .await
            }
        };
        metrics::counter!("lifemate_seckill_answers_total", "outcome" => outcome_label(&answer))
            .increment(1);
        answer
    }

    /// In a task of its own, which a caller that goes away does not end.
    async fn admit_to_the_end(
        &self,
        buyer: UserId,
        voucher: VoucherId,
        request: RequestId,
        trace_id: String,
    ) -> Result<Answer, Error> {
        let key = OrderKey {
            order: OrderId(self.inner.infra.ids.next()?),
            voucher,
            buyer,
        };
        let trace_id =
            RequestId::parse(&trace_id).map_or_else(|_| "-".to_owned(), |t| t.as_str().to_owned());
        let entry = Buyer {
            order_id: key.order,
            user_id: buyer,
            request_id: request.as_str().to_owned(),
            trace_id,
            called_waiter: false,
        };
        let orders = self.clone();
        let admitted = tokio::spawn(async move { orders.admit(key, &entry).await });
        admitted.await.unwrap_or_else(|e| {
            // Nobody knows how far it came; the order tells.
            tracing::error!(error = %e, order.id = key.order.0, "a click's task ended early");
            Ok(Answer::Pending(key))
        })
    }

    async fn admit(&self, key: OrderKey, entry: &Buyer) -> Result<Answer, Error> {
        let voucher = key.voucher;
        let asked_at = self.inner.gate.moment();
        if !self.has_queue(voucher) && !self.may_be_sold(voucher).await {
            return Err(Error::NoSuchSale(voucher));
        }
        let Some(reply) = self.ask(voucher, entry.clone()).await else {
            return Ok(Answer::TryLater {
                retry_after: RETRY_AFTER,
            });
        };
        match reply {
            Reply::Unknown => Ok(Answer::Pending(key)),
            Reply::Refused => Ok(Answer::TryLater {
                retry_after: RETRY_AFTER,
            }),
            Reply::Lost => self.answer_without_redis(voucher).await,
            Reply::Known(reserved) => self.answer(key, entry, reserved, asked_at).await,
        }
    }

    /// Whether a voucher is sold in a sale, as far as the cache knows; asked before it gets a queue, so that nobody
    /// makes queues by ids that he invented. What cannot be told in time is let through.
    async fn may_be_sold(&self, voucher: VoucherId) -> bool {
        let vouchers = self.inner.vouchers.clone();
        let ask = tokio::spawn(async move { vouchers.sale_cards(&[voucher]).await });
        match tokio::time::timeout(CARD_PATIENCE, ask).await {
            Ok(Ok(Ok(cards))) => !cards.is_empty(),
            _ => true,
        }
    }

    pub(super) async fn answer(
        &self,
        key: OrderKey,
        entry: &Buyer,
        reserved: Reserved,
        asked_at: u64,
    ) -> Result<Answer, Error> {
        match reserved {
            Reserved::Ok {
                order_id,
                slot,
                reserved_at,
                epoch,
            } => {
                let key = OrderKey {
                    order: order_id,
                    ..key
                };
                Ok(self.accept(key, entry, (slot, reserved_at, epoch)).await)
            }
            Reserved::Already {
                order_id,
                same_request,
            } => {
                let earlier = OrderKey {
                    order: order_id,
                    ..key
                };
                Ok(match self.present(earlier).await {
                    Ok(order) if same_request => Answer::Accepted(order),
                    Ok(order) => Answer::AlreadyOrdered(order),
                    Err(e) => {
                        tracing::error!(error = %e, order.id = order_id.0, "a buyer's order cannot be shown to him");
                        Answer::Pending(earlier)
                    }
                })
            }
            Reserved::IdTaken => {
                tracing::error!(
                    order.id = key.order.0,
                    "a fresh order id is taken by another user"
                );
                Ok(Answer::TryLater {
                    retry_after: RETRY_AFTER,
                })
            }
            Reserved::Dead => Ok(Answer::Pending(key)),
            Reserved::NoAttempts => Ok(Answer::NoAttemptsLeft),
            Reserved::SoldOut { epoch, taken } => {
                if self
                    .inner
                    .gate
                    .sold_out(key.voucher, epoch, taken, asked_at)
                {
                    self.load_buyers(key.voucher, epoch, taken);
                }
                Ok(Answer::SoldOut)
            }
            Reserved::Paused => Ok(Answer::Paused),
            Reserved::NotStarted { begin_ms } => Ok(Answer::NotStarted {
                starts_at_ms: begin_ms,
            }),
            Reserved::Ended { .. } => Ok(Answer::Ended),
            Reserved::NotReady | Reserved::Damaged => self.answer_without_redis(key.voucher).await,
        }
    }

    /// The unit is the buyer's: hands his order on. Without its price only the outbox's entry can bring it.
    async fn accept(&self, key: OrderKey, entry: &Buyer, taken: (i32, i64, i64)) -> Answer {
        let price = match self.price(key.voucher).await {
            Ok(price) => price,
            Err(e) => {
                tracing::error!(error = %e, order.id = key.order.0, "the price of a unit that was taken cannot be read");
                return Answer::Pending(key);
            }
        };
        let (slot, reserved_at, _) = taken;
        let mut order = Order::queued(key, price, reserved_at);
        order.slot = Some(slot);
        order.request_id.clone_from(&entry.request_id);
        self.send(queued(key, entry, &price, taken));
        Answer::Accepted(order)
    }

    /// Redis knows nothing of the sale: perhaps the database knows that there is nothing to know.
    async fn answer_without_redis(&self, voucher: VoucherId) -> Result<Answer, Error> {
        let try_later = Answer::TryLater {
            retry_after: RETRY_AFTER,
        };
        let Ok(sale) = self.inner.store.sale(voucher).await else {
            return Ok(try_later);
        };
        let sale = sale.ok_or(Error::NoSuchSale(voucher))?;
        // Redis has to hold this one; of others it need not know.
        if sale.stage == SaleStage::Opened {
            self.inner.recovery_wanted.notify_one();
        }
        match crate::vouchers::state(&sale, self.inner.infra.clock.now_ms()) {
            SaleState::Draft => Err(Error::NoSuchSale(voucher)),
            SaleState::Ended | SaleState::Settled => Ok(Answer::Ended),
            SaleState::Announced => Ok(Answer::NotStarted {
                starts_at_ms: sale.begin_ms,
            }),
            SaleState::Paused => Ok(Answer::Paused),
            SaleState::Running => Ok(try_later),
        }
    }

    /// The order as it is; when the stores cannot tell now, as queued, for Redis has just said that it is there.
    async fn present(&self, key: OrderKey) -> Result<Order, Error> {
        match self.get(key).await {
            Ok(Some(order)) => Ok(order),
            Ok(None) | Err(_) => {
                let price = self.price(key.voucher).await?;
                Ok(Order::queued(
                    key,
                    price,
                    crate::infra::ids::made_at_ms(key.order.0),
                ))
            }
        }
    }

    /// Hands an accepted order to the bus; a send that fails is unknown, and this node applies it at once.
    fn send(&self, item: QueuedOrderV1) {
        let payload = item.to_bytes();
        if let Bus::InProcess(_) = &self.inner.infra.bus {
            // Without room, or without a writer in this process, the sweeper finds it in the outbox.
            drop(futures_util::FutureExt::now_or_never(
                self.inner.infra.bus.send(item.voucher_id, payload),
            ));
            return;
        }
        let orders = self.clone();
        tokio::spawn(async move {
            if let Err(e) = orders
                .inner
                .infra
                .bus
                .send(item.voucher_id, payload.clone())
                .await
            {
                tracing::debug!(error = %e, "an order was not sent; writing it here");
                metrics::counter!("lifemate_seckill_send_failures_total").increment(1);
                orders.inner.unsent.put(payload);
            }
        });
    }

    /// The price of a voucher in a sale; it does not change once the sale is published.
    async fn price(&self, voucher: VoucherId) -> Result<Money, Error> {
        if let Some(price) = self.inner.seckill.prices.lock().get(&voucher) {
            return Ok(*price);
        }
        let ask = cmd("HMGET")
            .arg(self.keys(voucher).meta())
            .arg("price")
            .arg("currency")
            .to_owned();
        let price = match self
            .inner
            .infra
            .redis
            .query::<(Option<i64>, Option<String>)>(&ask)
            .await
        {
            Ok((Some(minor), Some(currency))) => money(minor, &currency)?,
            _ => {
                let sale = self
                    .inner
                    .store
                    .sale(voucher)
                    .await?
                    .ok_or(Error::NoSuchSale(voucher))?;
                money(sale.price_minor, &sale.currency)?
            }
        };
        self.inner.seckill.prices.lock().insert(voucher, price);
        Ok(price)
    }

    /// Loads the buyers behind a closed gate, so that one whose answer was lost is still sent on to Redis.
    fn load_buyers(&self, voucher: VoucherId, epoch: i64, taken: i64) {
        let orders = self.clone();
        tokio::spawn(async move {
            match orders.buyers(voucher).await {
                Ok(buyers) => orders.inner.gate.loaded(voucher, epoch, taken, buyers),
                Err(e) => {
                    tracing::debug!(error = %e, "the buyers of a sold-out sale could not be loaded");
                    orders.inner.gate.load_failed(voucher, epoch, taken);
                }
            }
        });
    }

    async fn buyers(&self, voucher: VoucherId) -> Result<HashSet<UserId>, Error> {
        let key = self.keys(voucher).buyers();
        let (mut buyers, mut cursor) = (HashSet::new(), 0_u64);
        loop {
            let scan = cmd("HSCAN")
                .arg(&key)
                .arg(cursor)
                .arg("COUNT")
                .arg(SCAN_COUNT)
                .to_owned();
            let (next, page): (u64, Vec<(String, String)>) =
                self.inner.infra.redis.query(&scan).await?;
            buyers.extend(
                page.iter()
                    .filter_map(|(field, _)| field.split(':').next()?.parse::<UserId>().ok()),
            );
            cursor = next;
            if cursor == 0 {
                return Ok(buyers);
            }
        }
    }
}

fn queued(key: OrderKey, entry: &Buyer, price: &Money, taken: (i32, i64, i64)) -> QueuedOrderV1 {
    let (slot, reserved_at, epoch) = taken;
    QueuedOrderV1 {
        v: 1,
        order_id: key.order.0,
        user_id: entry.user_id.0,
        voucher_id: key.voucher.0,
        slot,
        price_minor: price.minor,
        currency: price.currency.to_string(),
        reserved_at,
        epoch,
        request_id: entry.request_id.clone(),
        trace_id: entry.trace_id.clone(),
    }
}

fn outcome_label(answer: &Result<Answer, Error>) -> &'static str {
    match answer {
        Ok(Answer::Accepted(_)) => "accepted",
        Ok(Answer::Pending(_)) => "pending",
        Ok(Answer::AlreadyOrdered(_)) => "already_ordered",
        Ok(Answer::SoldOut) => "sold_out",
        Ok(Answer::NoAttemptsLeft) => "no_attempts",
        Ok(Answer::NotStarted { .. }) => "not_started",
        Ok(Answer::Ended) => "ended",
        Ok(Answer::Paused) => "paused",
        Ok(Answer::RateLimited { .. }) => "rate_limited",
        Ok(Answer::TryLater { .. }) => "try_later",
        Err(_) => "error",
    }
}
