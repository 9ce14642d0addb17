//! Orders in the API: what they are, and the viewer's own. Taking and paying them is in `mutation`, watching them in
//! `subscription`.

pub mod claim;
pub mod mutation;
pub mod redeem;
pub mod subscription;
pub mod waitlist;

use async_graphql::{Context, Enum, ID, Object, Result, SimpleObject};
use chrono::{DateTime, Utc};
use domain::orders::OrderId;
use domain::users::UserId;

use crate::context::ContextExt;
use crate::error::{api_error, fault_error, not_found};
use crate::loaders::{ReviewOf, by_id};
use crate::pagination::{List, Page};
use crate::reviews::Review;
use crate::scalars::{Money, time};
use crate::users::User;
use crate::vouchers::Voucher;

pub use claim::ClaimMutation;
pub use mutation::OrderMutation;
pub use redeem::RedeemMutation;
pub use subscription::OrderSubscription;

/// Where an order stands.
#[derive(Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "domain::orders::Status")]
pub enum OrderStatus {
    /// The unit is taken and the order is being written; it can be paid already.
    Queued,
    /// It waits for payment until `payBy`.
    Unpaid,
    /// It is paid.
    Paid,
    /// It was redeemed in the shop. Final.
    Used,
    /// It was not paid in time, or its buyer cancelled it. Final, once no refund is on its way.
    Closed,
    /// Its money is on its way back.
    Refunding,
    /// Its money went back. Final.
    Refunded,
    /// It could not be placed. Final.
    Rejected,
}

/// Why an order could not be placed.
#[derive(Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "domain::orders::RejectReason")]
pub enum OrderRejection {
    /// It was lost with a store before it was written.
    Stale,
    /// The buyer holds this unit by another order.
    Duplicate,
    /// No unit was left for it.
    NoUnit,
    /// It never arrived.
    NotPlaced,
}

/// Why an order was closed.
#[derive(Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "domain::orders::CloseReason")]
pub enum OrderCloseReason {
    /// It was not paid in time.
    Deadline,
    /// Its buyer cancelled it.
    Buyer,
}

/// Whether money went back.
#[derive(Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "domain::orders::RefundStatus")]
pub enum RefundStatus {
    /// It is on its way.
    Pending,
    /// It did.
    Done,
}

/// Money that goes back to the buyer.
#[derive(SimpleObject)]
pub struct Refund {
    /// How much.
    amount: Money,
    /// Whether it went back.
    status: RefundStatus,
}

/// An order of a voucher.
pub struct Order(pub(crate) domain::orders::Order);

/// An order of a voucher. Its buyer sees it, and whoever redeems it for its shop.
#[Object]
impl Order {
    /// The id of the order; good from the moment it is told, before the order is written.
    pub(crate) async fn id(&self, ctx: &Context<'_>) -> ID {
        ID(ctx.services().orders.seal(self.0.key))
    }

    /// What was bought.
    async fn voucher(&self, ctx: &Context<'_>) -> Result<Voucher> {
        let found = by_id(ctx)
            .load_one(self.0.key.voucher)
            .await
            .map_err(|e| fault_error(&*e))?;
        found.map(Voucher).ok_or_else(not_found)
    }

    /// Who bought it.
    async fn buyer(&self, ctx: &Context<'_>) -> Result<User> {
        let found = by_id(ctx)
            .load_one(self.0.key.buyer)
            .await
            .map_err(|e| fault_error(&*e))?;
        found.map(User::new).ok_or_else(not_found)
    }

    /// Where it stands.
    async fn status(&self) -> OrderStatus {
        self.0.status.into()
    }

    /// Why it could not be placed; null unless its status is REJECTED.
    async fn rejection(&self) -> Option<OrderRejection> {
        self.0.rejection.map(Into::into)
    }

    /// Units of the voucher; they are paid and redeemed together.
    async fn quantity(&self) -> i32 {
        self.0.quantity
    }

    /// What it costs, all units together.
    async fn amount(&self) -> Money {
        Money(self.0.price)
    }

    /// The how-manieth unit of the buyer in this sale, from 1, the first one of several; null while it is not known.
    async fn slot(&self) -> Option<i32> {
        self.0.slot
    }

    /// The client's own id of the request that placed it; null where it is not known.
    async fn client_request_id(&self) -> Option<&str> {
        Some(self.0.request_id.as_str()).filter(|id| !id.is_empty())
    }

    /// When the unit was taken.
    async fn reserved_at(&self) -> DateTime<Utc> {
        time(self.0.reserved_at_ms)
    }

    /// When it was written; null while it is QUEUED, and when it was REJECTED.
    async fn created_at(&self) -> Option<DateTime<Utc>> {
        self.0.created_at_ms.map(time)
    }

    /// Until when it can be paid; null while it is QUEUED, and when it was REJECTED.
    async fn pay_by(&self) -> Option<DateTime<Utc>> {
        self.0.pay_by_ms.map(time)
    }

    /// When it was paid; null unless it was.
    async fn paid_at(&self) -> Option<DateTime<Utc>> {
        self.0.paid_at_ms.map(time)
    }

    /// When it was closed; null unless it was.
    async fn closed_at(&self) -> Option<DateTime<Utc>> {
        self.0.closed_at_ms.map(time)
    }

    /// Why it was closed; null unless it was.
    async fn close_reason(&self) -> Option<OrderCloseReason> {
        self.0.close_reason.map(Into::into)
    }

    /// When it was redeemed; null unless it was.
    async fn used_at(&self) -> Option<DateTime<Utc>> {
        self.0.used_at_ms.map(time)
    }

    /// What the buyer shows in the shop, where it is scanned or typed: 12 digits and letters. Null unless the order is
    /// PAID, and for everybody but its buyer.
    async fn redeem_code(&self, ctx: &Context<'_>) -> Option<String> {
        let viewer = ctx.viewer()?;
        if viewer.user_id != self.0.key.buyer {
            return None;
        }
        ctx.services().orders.redeem_code(&self.0)
    }

    /// The latest refund of money that was paid for it, also when it came too late or twice; null when there is none.
    async fn refund(&self) -> Option<Refund> {
        let refund = self.0.refund.as_ref()?;
        Some(Refund {
            amount: Money(refund.amount),
            status: refund.status.into(),
        })
    }

    /// What its buyer said of the shop after redeeming it; null when there is no such review.
    async fn review(&self, ctx: &Context<'_>) -> Option<Result<Review>> {
        let found = by_id(ctx).load_one(ReviewOf(self.0.key.order)).await;
        let found = found.map_err(|e| fault_error(&*e)).transpose()?;
        Some(found.map(Review))
    }

    /// Grows with each change of the order; 0 while it is QUEUED.
    async fn version(&self) -> String {
        self.0.version.to_string()
    }
}

/// A page of a viewer's orders.
pub(crate) async fn orders_of(
    ctx: &Context<'_>,
    viewer: UserId,
    status: Option<OrderStatus>,
    page: (Option<i32>, Option<String>),
) -> Result<List<Order>> {
    let status: Option<domain::orders::Status> = status.map(Into::into);
    let page: Page<OrderId> =
        Page::new(ctx, format!("orders:{viewer}:{status:?}"), page.0, page.1)?;
    let found = ctx
        .services()
        .orders
        .of_user(viewer, status, page.after, page.load() as u64)
        .await
        .map_err(api_error)?;
    Ok(
        page.list(ctx, found.into_iter().map(Order).collect(), |o: &Order| {
            o.0.key.order
        }),
    )
}

/// The order of an id, if it is the viewer's. Another's and an unknown one are the same to him.
pub(crate) fn own_key(ctx: &Context<'_>, id: &ID) -> Result<domain::orders::OrderKey> {
    let viewer = ctx.require_viewer()?;
    ctx.services()
        .orders
        .open(id)
        .filter(|key| key.buyer == viewer.user_id)
        .ok_or_else(not_found)
}
