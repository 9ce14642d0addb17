//! Claiming an ordinary voucher.

use async_graphql::{Context, ID, InputObject, Object, Result, SimpleObject, Union};
use domain::orders::{Claim, ClaimAnswer, ClaimRefusal, RequestId};
use domain::vouchers::VoucherId;

use super::Order;
use super::mutation::SoldOut;
use crate::context::ContextExt;
use crate::error::api_error;
use crate::limits::{Limited, ORDER_WRITES};
use crate::scalars::parse_id;

/// A claim of an ordinary voucher.
#[derive(InputObject)]
pub struct ClaimVoucherInput {
    /// The voucher.
    voucher_id: ID,
    /// The client's own id of this request, 1 to 64 letters, digits, `_`, `.`, `:` or `-`. Repeat a request that was
    /// not answered with the same id: it gets the same order. With another voucher or quantity it is BAD_INPUT.
    client_request_id: String,
    /// Units, 1 to 100; one order holds them all.
    #[graphql(default = 1)]
    quantity: i32,
}

/// The units are the viewer's.
#[derive(SimpleObject)]
pub struct ClaimAccepted {
    /// His order; PAID at once when it costs nothing, else to be paid until `payBy`.
    order: Order,
}

/// Fewer units are left than the viewer wants, but some are. Nothing was taken.
#[derive(SimpleObject)]
pub struct NotEnoughLeft {
    /// Units left.
    left: i32,
}

/// The viewer would hold more units than he may. Nothing was taken.
#[derive(SimpleObject)]
pub struct LimitReached {
    /// Units that one user may hold.
    per_user_limit: i32,
    /// Units that the viewer holds.
    held: i32,
}

/// The voucher is not offered any more, or its shop has closed. Nothing was taken.
#[derive(SimpleObject)]
pub struct NotOnSale {
    /// Always true.
    not_on_sale: bool,
}

/// What a claim came to.
#[derive(Union)]
#[expect(
    clippy::large_enum_variant,
    reason = "made once for each answer, and never kept"
)]
pub enum ClaimResult {
    /// The units are the viewer's.
    Accepted(ClaimAccepted),
    /// Nothing is left.
    SoldOut(SoldOut),
    /// Too few are left.
    NotEnoughLeft(NotEnoughLeft),
    /// He has all he may have.
    LimitReached(LimitReached),
    /// It is not offered.
    NotOnSale(NotOnSale),
}

/// The answer to a claim.
#[derive(SimpleObject)]
pub struct ClaimVoucherPayload {
    /// What it came to.
    result: ClaimResult,
}

/// Claiming ordinary vouchers.
#[derive(Default)]
pub struct ClaimMutation;

#[Object]
impl ClaimMutation {
    /// Takes units of an ordinary voucher. Signed-in users. The order is there when this answers.
    #[graphql(guard = "Limited(&ORDER_WRITES)")]
    async fn claim_voucher(
        &self,
        ctx: &Context<'_>,
        input: ClaimVoucherInput,
    ) -> Result<ClaimVoucherPayload> {
        let claim = Claim {
            buyer: ctx.require_viewer()?.user_id,
            voucher: VoucherId(parse_id(&input.voucher_id, "Voucher", "input.voucherId")?),
            quantity: input.quantity,
            request: RequestId::parse(&input.client_request_id).map_err(api_error)?,
        };
        let orders = &ctx.services().orders;
        let result = match orders.claim(claim).await.map_err(api_error)? {
            ClaimAnswer::Accepted(order) => ClaimResult::Accepted(ClaimAccepted {
                order: Order(*order),
            }),
            ClaimAnswer::Refused(refusal) => refused(refusal),
        };
        Ok(ClaimVoucherPayload { result })
    }
}

fn refused(refusal: ClaimRefusal) -> ClaimResult {
    let units = |n: i64| i32::try_from(n).unwrap_or(i32::MAX);
    match refusal {
        ClaimRefusal::NotOnSale => ClaimResult::NotOnSale(NotOnSale { not_on_sale: true }),
        ClaimRefusal::LimitReached { limit, held } => ClaimResult::LimitReached(LimitReached {
            per_user_limit: limit,
            held: units(held),
        }),
        ClaimRefusal::SoldOut { left: 0 } => ClaimResult::SoldOut(SoldOut::told()),
        ClaimRefusal::SoldOut { left } => {
            ClaimResult::NotEnoughLeft(NotEnoughLeft { left: units(left) })
        }
    }
}
