//! What becomes of a queued order, decided by a pure function over what the database knows. Reading and writing is
//! in `store`; retries and dead letters are the callers'.

use std::collections::{HashMap, HashSet};

use super::queued::QueuedOrderV1;
use super::{OrderId, OrderRow, RejectReason, RejectRow};
use crate::users::UserId;
use crate::vouchers::VoucherId;

/// What is decided for one queued order; the first match of the list wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// There is no such sale: a poisoned message.
    NoSale,
    /// A row with this id belongs to another user: a bug, and nothing may be given back.
    Foreign,
    /// The row is there and holds its unit, whatever the epoch.
    DoneBefore,
    /// The row is closed, or the order was rejected: its unit must not stay taken in Redis.
    GiveBackAgain,
    /// It cannot be placed.
    Reject(RejectReason),
    /// Write the row.
    Insert,
}

/// What became of one queued order.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The row was written now.
    Inserted(OrderRow),
    /// The row was there and holds its unit.
    DoneBefore(OrderRow),
    /// The row was there, closed; its unit goes back once more.
    Closed(OrderRow),
    /// The order is rejected, now or before.
    Rejected(RejectRow),
    /// The id belongs to another user.
    Foreign,
    /// There is no such sale.
    NoSale,
    /// A constraint refused what the rules let through: a bug, and nothing was written.
    Refused,
}

/// A sale as its locked row says.
#[derive(Clone, Copy, Debug)]
pub struct SaleCount {
    /// Grows with each recovery.
    pub epoch: i64,
    /// Units for sale.
    pub total: i64,
    /// Units held by orders.
    pub sold: i64,
}

/// An order that has a row.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// Whose it is.
    pub user: UserId,
    /// Whether it holds its unit.
    pub live: bool,
}

/// What the database knows of a batch, read under the lock of its sales.
#[derive(Clone, Debug, Default)]
pub struct Judge {
    /// The sales of the batch.
    pub sales: HashMap<VoucherId, SaleCount>,
    /// The batch's orders that have a row.
    pub rows: HashMap<OrderId, Known>,
    /// The batch's orders that were rejected.
    pub rejects: HashSet<OrderId>,
    /// The units held by the batch's buyers.
    pub units: HashSet<(VoucherId, UserId, i32)>,
}

impl Judge {
    /// Decides one order, and remembers it for the rest of the batch.
    pub fn decide(&mut self, item: &QueuedOrderV1) -> Decision {
        let (order, user, voucher) = (
            OrderId(item.order_id),
            UserId(item.user_id),
            VoucherId(item.voucher_id),
        );
        let Some(sale) = self.sales.get_mut(&voucher) else {
            return Decision::NoSale;
        };
        if let Some(known) = self.rows.get(&order) {
            return match known {
                known if known.user != user => Decision::Foreign,
                Known { live: true, .. } => Decision::DoneBefore,
                Known { live: false, .. } => Decision::GiveBackAgain,
            };
        }
        if self.rejects.contains(&order) {
            return Decision::GiveBackAgain;
        }
        let unit = (voucher, user, item.slot);
        let refused = if item.epoch < sale.epoch {
            Some(RejectReason::Stale)
        } else if self.units.contains(&unit) {
            Some(RejectReason::Duplicate)
        } else if sale.sold >= sale.total {
            Some(RejectReason::NoUnit)
        } else {
            None
        };
        if let Some(reason) = refused {
            self.rejects.insert(order);
            return Decision::Reject(reason);
        }
        sale.sold += 1;
        self.units.insert(unit);
        self.rows.insert(order, Known { user, live: true });
        Decision::Insert
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(order_id: i64, user_id: i64, epoch: i64) -> QueuedOrderV1 {
        QueuedOrderV1 {
            v: 1,
            order_id,
            user_id,
            voucher_id: 1,
            slot: 1,
            price_minor: 100,
            currency: "VND".to_owned(),
            reserved_at: 5,
            epoch,
            request_id: "r".to_owned(),
            trace_id: "t".to_owned(),
        }
    }

    fn judge(total: i64) -> Judge {
        let sales = HashMap::from([(
            VoucherId(1),
            SaleCount {
                epoch: 3,
                total,
                sold: 0,
            },
        )]);
        Judge {
            sales,
            ..Judge::default()
        }
    }

    #[test]
    fn the_first_match_of_the_list_wins() {
        let mut judge = judge(3);
        assert_eq!(judge.decide(&item(10, 1, 3)), Decision::Insert);
        assert_eq!(
            judge.decide(&item(10, 1, 1)),
            Decision::DoneBefore,
            "a row beats the epoch"
        );
        assert_eq!(judge.decide(&item(10, 2, 3)), Decision::Foreign);
        assert_eq!(
            judge.decide(&item(11, 1, 3)),
            Decision::Reject(RejectReason::Duplicate)
        );
        assert_eq!(
            judge.decide(&item(11, 1, 3)),
            Decision::GiveBackAgain,
            "a reject of this batch is known"
        );
        assert_eq!(
            judge.decide(&item(12, 2, 2)),
            Decision::Reject(RejectReason::Stale)
        );
        assert_eq!(
            judge.decide(&QueuedOrderV1 {
                voucher_id: 9,
                ..item(13, 2, 3)
            }),
            Decision::NoSale
        );
        judge.rows.insert(
            OrderId(14),
            Known {
                user: UserId(5),
                live: false,
            },
        );
        assert_eq!(judge.decide(&item(14, 5, 3)), Decision::GiveBackAgain);
    }

    #[test]
    fn no_batch_sells_more_than_the_total() {
        let mut judge = judge(2);
        let decisions: Vec<_> = (0..4).map(|n| judge.decide(&item(100 + n, n, 3))).collect();
        let no_unit = Decision::Reject(RejectReason::NoUnit);
        assert_eq!(
            decisions,
            [Decision::Insert, Decision::Insert, no_unit, no_unit]
        );
    }
}
