//! A buyer gives an unused order back. The unit stays taken, so that a refund frees no place in a sale.

use crate::orders::{Error, Order, OrderKey, Orders};

/// What became of the wish to have the money back.
#[derive(Clone, Debug)]
pub enum RefundOutcome {
    /// The money is on its way; the order tells how far.
    Begun(Order),
    /// The order is not paid, or used, or its money went back before; nothing changed.
    NotRefundable(Order),
}

impl Orders {
    /// Gives the money of a paid, unused order back to its buyer. Whoever redeems it at the same moment wins or loses
    /// as a whole.
    ///
    /// # Errors
    /// `NoSuchOrder`, or trouble of a store.
    pub async fn refund(&self, key: OrderKey) -> Result<RefundOutcome, Error> {
        self.require(key).await?;
        let begun = self.inner.store.refund_unused(key.order).await?;
        let order = self.require(key).await?;
        if !begun {
            return Ok(RefundOutcome::NotRefundable(order));
        }
        metrics::counter!("lifemate_orders_given_back_total").increment(1);
        self.publish_changes(std::slice::from_ref(&order)).await;
        Ok(RefundOutcome::Begun(order))
    }
}
