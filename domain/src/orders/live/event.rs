//! What nodes tell each other about changed orders. Only a hint where to look: the state itself is read by whoever
//! has somebody watching.

use entity::refund::RefundStatus;
use serde::{Deserialize, Serialize};

use crate::orders::{Order, OrderId, OrderKey, Status};
use crate::users::UserId;
use crate::vouchers::VoucherId;

/// The channel of these events.
pub(super) const CHANNEL: &str = "orders";
/// Events in one message: more would make a slow subscriber's backlog large, fewer cost calls.
pub(super) const EVENTS_PER_MESSAGE: usize = 100;

/// One order changed. A message is a JSON array of these; unknown fields are tolerated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OrderEventV1 {
    pub(super) v: u8,
    pub(super) order: OrderId,
    pub(super) voucher: VoucherId,
    pub(super) user: UserId,
    pub(super) status: String,
    pub(super) version: i64,
    /// `PENDING` or `DONE` where money goes back: it may change without the order's version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) refund: Option<String>,
}

/// How far an order has come; only ever grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mark {
    version: i64,
    refund: u8,
}

impl Mark {
    /// An order without a row.
    pub(super) const UNWRITTEN: Self = Self {
        version: 0,
        refund: 0,
    };

    pub(crate) fn of(order: &Order) -> Self {
        let refund = match order.refund.as_ref().map(|r| r.status) {
            None => 0,
            Some(RefundStatus::Pending) => 1,
            Some(RefundStatus::Done) => 2,
        };
        Self {
            version: order.version,
            refund,
        }
    }
}

impl OrderEventV1 {
    pub(super) fn of(order: &Order) -> Self {
        let refund = order.refund.as_ref().map(|r| match r.status {
            RefundStatus::Pending => "PENDING".to_owned(),
            RefundStatus::Done => "DONE".to_owned(),
        });
        Self {
            v: 1,
            order: order.key.order,
            voucher: order.key.voucher,
            user: order.key.buyer,
            status: status_name(order.status).to_owned(),
            version: order.version,
            refund,
        }
    }

    pub(super) fn key(&self) -> OrderKey {
        OrderKey {
            order: self.order,
            voucher: self.voucher,
            buyer: self.user,
        }
    }

    pub(super) fn mark(&self) -> Mark {
        let refund = match self.refund.as_deref() {
            None => 0,
            Some("DONE") => 2,
            Some(_) => 1,
        };
        Mark {
            version: self.version,
            refund,
        }
    }
}

fn status_name(status: Status) -> &'static str {
    match status {
        Status::Queued => "QUEUED",
        Status::Unpaid => "UNPAID",
        Status::Paid => "PAID",
        Status::Used => "USED",
        Status::Closed => "CLOSED",
        Status::Refunding => "REFUNDING",
        Status::Refunded => "REFUNDED",
        Status::Rejected => "REJECTED",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::orders::Refund;
    use crate::vouchers::{Currency, Money};

    fn order() -> Order {
        let key = OrderKey {
            order: OrderId(1 << 60),
            voucher: VoucherId(7),
            buyer: UserId(9),
        };
        let price = Money {
            minor: 100,
            currency: Currency::parse("VND").unwrap(),
        };
        Order {
            status: Status::Unpaid,
            version: 1,
            ..Order::queued(key, price, 5)
        }
    }

    #[test]
    fn the_bytes_of_an_event_are_fixed() {
        let mut order = order();
        let golden = r#"[{"v":1,"order":"1152921504606846976","voucher":"7","user":"9","status":"UNPAID","version":1}]"#;
        assert_eq!(
            serde_json::to_string(&[OrderEventV1::of(&order)]).unwrap(),
            golden
        );
        order.refund = Some(Refund {
            amount: order.price,
            status: RefundStatus::Pending,
        });
        let golden = r#"{"v":1,"order":"1152921504606846976","voucher":"7","user":"9","status":"UNPAID","version":1,"refund":"PENDING"}"#;
        let event = OrderEventV1::of(&order);
        assert_eq!(serde_json::to_string(&event).unwrap(), golden);
        assert_eq!(event.mark(), Mark::of(&order));
    }

    #[test]
    fn fields_of_later_versions_are_tolerated() {
        let text = r#"[{"v":2,"order":"1","voucher":"2","user":"3","status":"PAID","version":4,"later":{}}]"#;
        let events: Vec<OrderEventV1> = serde_json::from_str(text).unwrap();
        assert_eq!(
            events[0].key(),
            OrderKey {
                order: OrderId(1),
                voucher: VoucherId(2),
                buyer: UserId(3)
            }
        );
    }

    #[test]
    fn a_refund_moves_an_order_on_without_a_new_version() {
        let mut order = order();
        let before = Mark::of(&order);
        order.refund = Some(Refund {
            amount: order.price,
            status: RefundStatus::Pending,
        });
        let pending = Mark::of(&order);
        order.refund = Some(Refund {
            amount: order.price,
            status: RefundStatus::Done,
        });
        assert!(before < pending && pending < Mark::of(&order));
    }
}
