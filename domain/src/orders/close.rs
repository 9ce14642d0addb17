//! Closing unpaid orders: at their deadline by a scan of the database, or by their buyer. The scan is the only
//! authority; a timer may only hint.

use super::apply::Outcome;
use super::queued::QueuedOrderV1;
use super::store::Found;
use super::{CloseReason, Error, Order, OrderKey, OrderRow, Orders, Status};

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
        let count = closed.len();
        self.tell_closed(closed).await;
        Ok(count)
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
        let is_closed = !closed.is_empty();
        self.tell_closed(closed).await;
        // Somebody else may have closed or paid it meanwhile: the present state tells.
        let order = self.require(key).await?;
        Ok(if is_closed {
            CancelOutcome::Closed(order)
        } else {
            CancelOutcome::NotCancellable(order)
        })
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

    /// Tells who watches, with the money that is on its way back: without it a closed order would look final.
    async fn tell_closed(&self, closed: Vec<OrderRow>) {
        if closed.is_empty() {
            return;
        }
        metrics::counter!("lifemate_orders_closed_total").increment(closed.len() as u64);
        self.inner.giveback_due.notify_one();
        let found = closed.into_iter().map(Found::Row).collect();
        match self.orders_of_found(found).await {
            Ok(orders) => self.publish_changes(&orders).await,
            Err(e) => {
                tracing::debug!(error = %e, "closed orders are told when what is watched is read again");
            }
        }
    }
}
