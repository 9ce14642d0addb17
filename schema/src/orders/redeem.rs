//! What comes after paying: the shop redeems an order, or its buyer gives it back.

use async_graphql::{Context, ID, InputObject, Object, Result, SimpleObject, Union};
use chrono::{DateTime, Utc};
use domain::orders::{RedeemOutcome, RefundOutcome};

use super::{Order, OrderStatus, own_key};
use crate::context::ContextExt;
use crate::error::api_error;
use crate::limits::{Limited, ORDER_WRITES, REDEEMS, WRONG_CODES, caller};
use crate::scalars::time;

/// A code that a buyer showed.
#[derive(InputObject)]
pub struct RedeemOrderInput {
    /// The order's `redeemCode`. Lower case, spaces and hyphens do not matter, nor O for 0, I and L for 1.
    code: String,
}

/// The order is used now; serve the buyer.
#[derive(SimpleObject)]
pub struct OrderRedeemed {
    /// The order as it is.
    order: Order,
}

/// The order was used before.
#[derive(SimpleObject)]
pub struct AlreadyRedeemed {
    /// When it was.
    used_at: DateTime<Utc>,
}

/// The order is in a state that cannot be redeemed; nothing changed.
#[derive(SimpleObject)]
pub struct NotRedeemable {
    /// Where it stands, such as REFUNDING.
    status: OrderStatus,
}

/// What a code came to.
#[derive(Union)]
#[expect(
    clippy::large_enum_variant,
    reason = "made once for each answer, and never kept"
)]
pub enum RedeemResult {
    /// It is used now.
    Redeemed(OrderRedeemed),
    /// It was used before.
    AlreadyRedeemed(AlreadyRedeemed),
    /// It cannot be used.
    NotRedeemable(NotRedeemable),
}

/// The answer to a code.
#[derive(SimpleObject)]
pub struct RedeemOrderPayload {
    /// What it came to.
    result: RedeemResult,
}

/// An order to give back.
#[derive(InputObject)]
pub struct RefundOrderInput {
    /// The order.
    order_id: ID,
}

/// The money is on its way back, or there already; `refund` and `orderStatus` of the order tell.
#[derive(SimpleObject)]
pub struct OrderRefundBegun {
    /// The order as it is.
    order: Order,
}

/// The order is not paid, or was used or given back; nothing changed.
#[derive(SimpleObject)]
pub struct OrderNotRefundable {
    /// The order as it is.
    order: Order,
}

/// What the wish to give an order back came to.
#[derive(Union)]
pub enum RefundResult {
    /// The money goes back.
    Begun(OrderRefundBegun),
    /// It does not.
    NotRefundable(OrderNotRefundable),
}

/// The answer to the wish to give an order back.
#[derive(SimpleObject)]
pub struct RefundOrderPayload {
    /// What it came to.
    result: RefundResult,
}

/// Redeeming orders and giving them back.
#[derive(Default)]
pub struct RedeemMutation;

#[Object]
impl RedeemMutation {
    /// Uses the paid order of a code. The merchant of the order's shop, and administrators; a wrong code and one for
    /// another's shop are both NOT_FOUND, and too many of them RATE_LIMITED.
    #[graphql(guard = "Limited(&REDEEMS)")]
    async fn redeem_order(
        &self,
        ctx: &Context<'_>,
        input: RedeemOrderInput,
    ) -> Result<RedeemOrderPayload> {
        let session = ctx.require_viewer()?;
        let limits = &ctx.services().rate_limits;
        let counted = limits
            .check_undoable(&WRONG_CODES, &caller(ctx))
            .await
            .map_err(api_error)?;
        let outcome = ctx.services().orders.redeem(session, &input.code).await;
        if !matches!(outcome, Err(domain::orders::Error::NoSuchOrder)) {
            limits.undo(counted).await;
        }
        let result = match outcome.map_err(api_error)? {
            RedeemOutcome::Redeemed(order) => RedeemResult::Redeemed(OrderRedeemed {
                order: Order(order),
            }),
            RedeemOutcome::AlreadyRedeemed(order) => {
                RedeemResult::AlreadyRedeemed(AlreadyRedeemed {
                    used_at: time(order.used_at_ms.unwrap_or_default()),
                })
            }
            RedeemOutcome::NotRedeemable(order) => RedeemResult::NotRedeemable(NotRedeemable {
                status: order.status.into(),
            }),
        };
        Ok(RedeemOrderPayload { result })
    }

    /// Gives a paid order back that was not used: its money returns. Its buyer. The unit does not become free by it.
    #[graphql(guard = "Limited(&ORDER_WRITES)")]
    async fn refund_order(
        &self,
        ctx: &Context<'_>,
        input: RefundOrderInput,
    ) -> Result<RefundOrderPayload> {
        let key = own_key(ctx, &input.order_id)?;
        let result = match ctx.services().orders.refund(key).await.map_err(api_error)? {
            RefundOutcome::Begun(order) => RefundResult::Begun(OrderRefundBegun {
                order: Order(order),
            }),
            RefundOutcome::NotRefundable(order) => {
                RefundResult::NotRefundable(OrderNotRefundable {
                    order: Order(order),
                })
            }
        };
        Ok(RefundOrderPayload { result })
    }
}
