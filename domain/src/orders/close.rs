//! Closing unpaid orders: at their deadline by a scan of the database, or by their buyer. The scan is the only
//! authority; a timer may only hint.

use super::apply::Outcome;
use super::queued::QueuedOrderV1;
use super::{CloseReason, Error, Order, OrderKey, Orders, Status};

/// Orders closed in one transaction.
const BATCH: u64 = 500;

/// What became of a cancellation.
#[derive(Clone, Debug)]
pub enum CancelOutcome {
    /// The order is closed.
    Closed(Order),
    /// It is in a state that cannot be cancelled; nothing changed.
    NotCancellable(Order),
}

impl Orders {
    /// Closes one batch of orders whose deadline has passed; returns how many. May run anywhere, twice.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn close_due(&self) -> Result<usize, Error> {
        let now = self.inner.infra.clock.now_ms();
        let due = self.inner.store.due(now, BATCH).await?;
        let closed = self.inner.store.close(&due, CloseReason::Deadline).await?;
        self.tell_closed(&closed).await?;
        Ok(closed.len())
    }

    /// Cancels an unpaid order for its buyer; one that is still queued is written first.
    ///
    /// # Errors
    /// `NoSuchOrder`, or trouble of a store.
    pub async fn cancel(&self, key: OrderKey) -> Result<CancelOutcome, Error> {
        let mut order = self.require(key).await?;
        if order.status == Status::Queued {
            self.write_queued(key).await?;
            order = self.require(key).await?;
        }
        if order.status != Status::Unpaid {
            return Ok(CancelOutcome::NotCancellable(order));
        }
        let closed = self
            .inner
            .store
            .close(&[(key.order, key.voucher)], CloseReason::Buyer)
            .await?;
        self.tell_closed(&closed).await?;
        // Somebody else may have closed or paid it meanwhile: the present state tells.
        let order = self.require(key).await?;
        if closed.is_empty() {
            Ok(CancelOutcome::NotCancellable(order))
        } else {
            Ok(CancelOutcome::Closed(order))
        }
    }

    /// Writes the row of one queued order now, from its outbox entry; nothing happens when there is none.
    ///
    /// # Errors
    /// Trouble of a store.
    pub async fn write_queued(&self, key: OrderKey) -> Result<Option<Outcome>, Error> {
        let Some(payload) = self.outbox_entry(key).await? else {
            return Ok(None);
        };
        let item = QueuedOrderV1::parse(&payload).map_err(|e| Error::Corrupt(e.to_string()))?;
        Ok(self.apply_all(vec![item]).await?.pop())
    }

    /// An order that must be there.
    ///
    /// # Errors
    /// `NoSuchOrder`, or trouble of a store.
    pub async fn require(&self, key: OrderKey) -> Result<Order, Error> {
        self.get(key).await?.ok_or(Error::NoSuchOrder)
    }

    async fn tell_closed(&self, closed: &[super::OrderRow]) -> Result<(), Error> {
        if closed.is_empty() {
            return Ok(());
        }
        metrics::counter!("lifemate_orders_closed_total").increment(closed.len() as u64);
        let orders = closed
            .iter()
            .map(|row| Order::from_row(row, None))
            .collect::<Result<Vec<_>, _>>()?;
        self.publish_changes(&orders).await;
        self.inner.giveback_due.notify_one();
        Ok(())
    }
}
