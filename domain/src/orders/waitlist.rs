//! Waiting for a unit of a sold-out sale. The list is in the database; its length is mirrored to Redis as `waiting`,
//! and what is kept for waiters ordinary buyers do not see. A unit that comes back is issued to the earliest waiter by
//! the same `reserve` as any other, and only then is he told: it is an order of his like any other, to be paid in time.

use deadpool_redis::redis::pipe;

use super::reservations::Reply;
use super::rounds::Round;
use super::scripts::{Amended, Amendment, Buyer, Inspection};
use super::store::Found;
use super::waiters::Waiter;
use super::{Answer, Error, Order, OrderId, OrderKey, Orders, RequestId, Status};
use crate::infra::fault::RETRY_AFTER;
use crate::notifications::{NewNotification, NotificationKind};
use crate::users::UserId;
use crate::vouchers::{Sale, SaleState, VoucherId, state};

/// Waiters of one sale; more than ever get a unit, and few enough to count.
pub const WAITERS_MOST: i64 = 10_000;
/// Waiters looked at in one turn of one sale.
const TURN: u64 = 64;
/// How often a length is mirrored again because it changed meanwhile; the next turn goes on after it.
const MIRROR_TRIES: u32 = 3;

/// What became of the wish to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joined {
    /// The how-manieth of the list he is, from 1.
    Position(i64),
    /// A unit can be had now.
    NotSoldOut,
    /// The sale is not running.
    NotRunning,
    /// He has all units he may have.
    AlreadyOrdered,
    /// He has used up his attempts in this sale.
    NoAttemptsLeft,
    /// Too many wait already.
    Full,
}

impl Orders {
    /// Puts a user on the waiting list of a running sale that is sold out; who is on it stays where he is.
    ///
    /// # Errors
    /// `NoSuchSale`; `TryLater` when Redis cannot tell whether something is left.
    pub async fn join_waitlist(&self, user: UserId, voucher: VoucherId) -> Result<Joined, Error> {
        let sale = self.require_sale(voucher).await?;
        match state(&sale, self.inner.infra.clock.now_ms()) {
            SaleState::Draft => return Err(Error::NoSuchSale(voucher)),
            SaleState::Running => {}
            _ => return Ok(Joined::NotRunning),
        }
        if let Some(position) = self.waitlist_position(user, voucher).await? {
            return Ok(Joined::Position(position));
        }
        if let Some(refusal) = self.refuse_waiter(user, &sale).await? {
            return Ok(refusal);
        }
        let joined = self.inner.waiters.join(voucher, user, WAITERS_MOST).await?;
        let Some(waiter) = joined else {
            return Ok(Joined::Full);
        };
        if waiter.order_id.is_some() {
            return Ok(Joined::AlreadyOrdered);
        }
        self.mirror_or_later(voucher).await;
        let position = self.inner.waiters.position(&waiter).await?;
        Ok(Joined::Position(position))
    }

    /// Takes a user off a waiting list; `false` when he was not on it, or a unit is his already.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn leave_waitlist(&self, user: UserId, voucher: VoucherId) -> Result<bool, Error> {
        let left = self.inner.waiters.leave(voucher, user).await?;
        if left {
            self.mirror_or_later(voucher).await;
            self.tell_reopened(voucher).await;
        }
        Ok(left)
    }

    /// The how-manieth of a waiting list a user is, from 1; `None` when he is not on it.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn waitlist_position(
        &self,
        user: UserId,
        voucher: VoucherId,
    ) -> Result<Option<i64>, Error> {
        let found = self.inner.waiters.find(voucher, user).await?;
        match found.filter(|w| w.order_id.is_none()) {
            Some(waiter) => Ok(Some(self.inner.waiters.position(&waiter).await?)),
            None => Ok(None),
        }
    }

    /// Issues units that came back to those who wait for them, and tells them; returns how many. May run anywhere, twice.
    ///
    /// # Errors
    /// When a store cannot be asked.
    pub async fn call_waiters(&self) -> Result<usize, Error> {
        let mut round = Round::of("calling waiters");
        for voucher in self.inner.waiters.lists().await? {
            round.note(voucher.0, self.serve_list(voucher).await)?;
        }
        round.end()
    }

    /// Why a user need not or may not wait, `None` when he may.
    async fn refuse_waiter(&self, user: UserId, sale: &Sale) -> Result<Option<Joined>, Error> {
        let voucher = VoucherId(sale.voucher_id);
        let seen = self.inspect(voucher).await?;
        let (Some(stock), Some(waiting), false) = (seen.stock, seen.waiting, seen.not_ready())
        else {
            return Err(Error::TryLater("its stock is not known now".to_owned()));
        };
        let keys = self.keys(voucher);
        let mut reads = pipe();
        reads.hget(keys.attempts(), user.0);
        (1..=sale.per_user_limit.max(1)).for_each(|slot| {
            reads.hget(keys.buyers(), format!("{user}:{slot}"));
        });
        let mut found: Vec<Option<String>> = self.inner.infra.redis.query_pipe(&reads).await?;
        let attempts = found.remove(0).unwrap_or_default();
        let attempts = attempts.split(';').filter(|a| !a.is_empty()).count();
        Ok(if found.iter().all(Option::is_some) {
            Some(Joined::AlreadyOrdered)
        } else if stock - waiting > 0 {
            Some(Joined::NotSoldOut)
        } else if attempts >= usize::try_from(sale.max_attempts).unwrap_or(0) {
            Some(Joined::NoAttemptsLeft)
        } else {
            None
        })
    }

    /// One turn of one list.
    async fn serve_list(&self, voucher: VoucherId) -> Result<usize, Error> {
        self.look_after_called(voucher).await?;
        let sale = self.require_sale(voucher).await?;
        match state(&sale, self.inner.infra.clock.now_ms()) {
            SaleState::Ended | SaleState::Settled => {
                self.inner.waiters.clear(voucher).await?;
                self.inner.waiters.rest(voucher).await?;
                return Ok(0);
            }
            SaleState::Running => {}
            _ => return Ok(0),
        }
        let seen = self.inspect(voucher).await?;
        if seen.not_ready() || seen.is_damaged() {
            return Ok(0);
        }
        let called = self.call_first(voucher, &seen).await?;
        let length = self.inner.waiters.length(voucher).await?;
        let known = called > 0 || seen.waiting != Some(length);
        if (!known || self.mirror(voucher).await?) && length == 0 {
            self.inner.waiters.rest(voucher).await?;
        }
        Ok(called)
    }

    /// Issues what is there to those who wait, in their order.
    async fn call_first(&self, voucher: VoucherId, seen: &Inspection) -> Result<usize, Error> {
        let free = u64::try_from(seen.stock.unwrap_or(0)).unwrap_or(0);
        if free == 0 {
            return Ok(0);
        }
        let mut called = 0;
        for waiter in self.inner.waiters.first(voucher, free.min(TURN)).await? {
            match self.call(voucher, &waiter).await? {
                Called::Issued => called += 1,
                Called::OffTheList => {}
                Called::NotNow => break,
            }
        }
        Ok(called)
    }

    /// Issues a unit to one waiter. The request's id is that of the call, so a repeat finds what an earlier one took.
    async fn call(&self, voucher: VoucherId, waiter: &Waiter) -> Result<Called, Error> {
        let request = RequestId::parse(&format!("waitlist.{}.{}", waiter.id, waiter.round))?;
        let order = match self.reserve_called(voucher, waiter, &request).await? {
            Answer::Accepted(order) if order.status != Status::Closed => order,
            Answer::Accepted(_)
            | Answer::AlreadyOrdered(_)
            | Answer::NoAttemptsLeft
            | Answer::Ended => {
                self.inner.waiters.remove(waiter).await?;
                return Ok(Called::OffTheList);
            }
            _ => return Ok(Called::NotNow),
        };
        // He may click before he pays: no gate that closed before shall tell him that nothing is left.
        self.tell_reopened(voucher).await;
        self.tell_called(voucher, waiter, &request).await?;
        if !self
            .inner
            .waiters
            .set_called(waiter, order.key.order)
            .await?
        {
            self.take_back(voucher, waiter, &order).await?;
        }
        Ok(Called::Issued)
    }

    async fn reserve_called(
        &self,
        voucher: VoucherId,
        waiter: &Waiter,
        request: &RequestId,
    ) -> Result<Answer, Error> {
        let asked_at = self.inner.gate.moment();
        let key = OrderKey {
            order: OrderId(self.inner.infra.ids.next()?),
            voucher,
            buyer: UserId(waiter.user_id),
        };
        let entry = Buyer {
            order_id: key.order,
            user_id: key.buyer,
            request_id: request.as_str().to_owned(),
            trace_id: "-".to_owned(),
            called_waiter: true,
        };
        match self.ask(voucher, entry.clone()).await {
            Some(Reply::Known(reserved)) => self.answer(key, &entry, reserved, asked_at).await,
            // Nothing is known for sure: the next turn asks again with the same id.
            _ => Ok(Answer::TryLater {
                retry_after: RETRY_AFTER,
            }),
        }
    }

    async fn tell_called(
        &self,
        voucher: VoucherId,
        waiter: &Waiter,
        request: &RequestId,
    ) -> Result<(), Error> {
        let news = NewNotification {
            user: UserId(waiter.user_id),
            kind: NotificationKind::WaitlistIssued,
            actor: None,
            subject: format!("voucher:{voucher}"),
            text: None,
            key: request.as_str().to_owned(),
        };
        Ok(self.inner.notifications.notify(news).await?)
    }

    /// He left while the unit was on its way to him, or another process was quicker with the same order.
    async fn take_back(
        &self,
        voucher: VoucherId,
        waiter: &Waiter,
        order: &Order,
    ) -> Result<(), Error> {
        let user = UserId(waiter.user_id);
        let now = self.inner.waiters.find(voucher, user).await?;
        if now.is_none() && self.require(order.key).await?.status == Status::Queued {
            self.cancel(order.key).await?;
        }
        Ok(())
    }

    /// Lets those go whose orders are written; those whose orders were rejected wait again, at their old places.
    async fn look_after_called(&self, voucher: VoucherId) -> Result<(), Error> {
        let called = self.inner.waiters.called(voucher, TURN).await?;
        let orders: Vec<OrderId> = called
            .iter()
            .filter_map(|w| w.order_id.map(OrderId))
            .collect();
        if orders.is_empty() {
            return Ok(());
        }
        let found = self.inner.store.find(&orders).await?;
        for waiter in &called {
            match waiter.order_id.and_then(|id| found.get(&OrderId(id))) {
                Some(Found::Row(_)) => self.inner.waiters.remove(waiter).await?,
                Some(Found::Reject(_)) => self.inner.waiters.call_again(waiter).await?,
                None => {}
            }
        }
        Ok(())
    }

    async fn mirror_or_later(&self, voucher: VoucherId) {
        if let Err(e) = self.mirror(voucher).await {
            tracing::debug!(error = %e, voucher.id = voucher.0, "redis hears later how many wait");
        }
    }

    /// Tells Redis how many wait, again when that changed meanwhile: whoever tells it last has then told the truth.
    async fn mirror(&self, voucher: VoucherId) -> Result<bool, Error> {
        for _ in 0..MIRROR_TRIES {
            let (sale, length) = (
                self.require_sale(voucher).await?,
                self.inner.waiters.length(voucher).await?,
            );
            let amendment = Amendment {
                epoch: sale.epoch,
                paused: None,
                waiting: Some(length),
                end_ms: None,
            };
            let keys = self.keys(voucher);
            let amended =
                self.on_line(|mut conn| {
                    let (keys, amendment) = (&keys, &amendment);
                    async move {
                        super::scripts::amend(&mut conn, self.scripts(), keys, amendment).await
                    }
                });
            if amended.await? != Amended::Done {
                return Ok(false);
            }
            if self.inner.waiters.length(voucher).await? == length {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// What came of calling a waiter.
enum Called {
    /// A unit is his.
    Issued,
    /// He needs none.
    OffTheList,
    /// Nothing can be issued now.
    NotNow,
}
