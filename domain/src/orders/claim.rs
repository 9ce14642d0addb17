//! Claiming an ordinary voucher: one transaction under the voucher's offer decides, without Redis. What comes of the
//! order is the same as in a flash sale; one that costs nothing is paid from the start.

use super::{Error, Order, OrderId, OrderKey, Orders, RequestId};
use crate::users::UserId;
use crate::vouchers::VoucherId;

/// The most units of one claim.
pub const QUANTITY_MAX: i32 = 100;

/// Who wants how much of what.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Who.
    pub buyer: UserId,
    /// The voucher.
    pub voucher: VoucherId,
    /// Units, 1 to `QUANTITY_MAX`.
    pub quantity: i32,
    /// The client's own id of the request.
    pub request: RequestId,
}

/// What a claim is answered.
#[derive(Clone, Debug, PartialEq)]
pub enum ClaimAnswer {
    /// The units are the buyer's, by this claim or by an earlier one with the same request id.
    Accepted(Box<Order>),
    /// See the refusal; nothing was taken.
    Refused(ClaimRefusal),
}

/// Why nothing was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimRefusal {
    /// The voucher is not offered any more, or its shop has closed.
    NotOnSale,
    /// The buyer would hold more than he may.
    LimitReached {
        /// Units he may hold.
        limit: i32,
        /// Units he holds.
        held: i64,
    },
    /// Fewer units are left than he wants.
    SoldOut {
        /// Units left, 0 or more.
        left: i64,
    },
}

/// What the store made of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// The order of this claim, made now or before.
    Order(OrderId),
    /// Nothing was taken.
    Refused(ClaimRefusal),
    /// The request id was used before, for something else.
    Reused,
    /// The voucher is not an ordinary one, or there is none.
    NoOffer,
}

/// An offer as its locked row says.
#[derive(Clone, Copy, Debug)]
pub struct OfferCount {
    /// Units for sale, `None` when there is no end of them.
    pub total: Option<i64>,
    /// Units held by orders.
    pub sold: i64,
    /// Units one user may hold, `None` for any number.
    pub limit: Option<i32>,
    /// Units the buyer holds.
    pub held: i64,
}

impl OfferCount {
    /// Whether a buyer may have so many units more; the limit is told before the stock.
    ///
    /// # Errors
    /// Why not.
    pub fn allow(&self, quantity: i32) -> Result<(), ClaimRefusal> {
        let quantity = i64::from(quantity);
        if let Some(limit) = self.limit
            && self.held + quantity > i64::from(limit)
        {
            let held = self.held;
            return Err(ClaimRefusal::LimitReached { limit, held });
        }
        match self.total.map(|total| (total - self.sold).max(0)) {
            Some(left) if left < quantity => Err(ClaimRefusal::SoldOut { left }),
            _ => Ok(()),
        }
    }
}

impl Orders {
    /// Takes units of an ordinary voucher. The same request again is answered with the same order, as it is then.
    ///
    /// # Errors
    /// `BadQuantity`, `RequestReused`, `NoSuchOffer`, or trouble of the database.
    pub async fn claim(&self, claim: Claim) -> Result<ClaimAnswer, Error> {
        if !(1..=QUANTITY_MAX).contains(&claim.quantity) {
            return Err(Error::BadQuantity);
        }
        let new = OrderId(self.inner.infra.ids.next()?);
        let order = match self.inner.store.claim(&claim, new).await? {
            Claimed::Order(order) => order,
            Claimed::Refused(refusal) => return Ok(ClaimAnswer::Refused(refusal)),
            Claimed::Reused => return Err(Error::RequestReused),
            Claimed::NoOffer => return Err(Error::NoSuchOffer(claim.voucher)),
        };
        let key = OrderKey {
            order,
            voucher: claim.voucher,
            buyer: claim.buyer,
        };
        let claimed = self.require(key).await?;
        if order == new {
            metrics::counter!("lifemate_orders_claimed_total").increment(1);
            self.publish_changes(std::slice::from_ref(&claimed)).await;
        }
        Ok(ClaimAnswer::Accepted(Box::new(claimed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_told_before_the_stock_and_both_are_reached_exactly() {
        let offer = |total, sold, limit, held| OfferCount {
            total,
            sold,
            limit,
            held,
        };
        assert_eq!(offer(None, 1 << 40, None, 1 << 40).allow(100), Ok(()));
        assert_eq!(offer(Some(10), 8, Some(3), 1).allow(2), Ok(()));
        assert_eq!(
            offer(Some(10), 8, None, 0).allow(3),
            Err(ClaimRefusal::SoldOut { left: 2 })
        );
        assert_eq!(
            offer(Some(10), 10, Some(3), 3).allow(1),
            Err(ClaimRefusal::LimitReached { limit: 3, held: 3 })
        );
    }
}
