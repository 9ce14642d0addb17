//! Waiting for a unit of a sold-out sale.

use async_graphql::{Context, Enum, ID, InputObject, Object, Result, SimpleObject};
use domain::orders::Joined;
use domain::users::UserId;
use domain::vouchers::VoucherId;

use crate::context::ContextExt;
use crate::error::api_error;
use crate::limits::{Limited, ORDER_WRITES};
use crate::scalars::parse_id;

/// A sale to wait for.
#[derive(InputObject)]
pub struct JoinWaitlistInput {
    /// The voucher.
    voucher_id: ID,
}

/// Why somebody was not put on a waiting list.
#[derive(Clone, Copy, PartialEq, Eq, Enum)]
pub enum WaitlistRefusal {
    /// A unit can be had now.
    NotSoldOut,
    /// The sale has not begun, is paused or is over.
    NotRunning,
    /// The viewer has all units he may have.
    AlreadyOrdered,
    /// The viewer has used up his attempts in this sale.
    NoAttemptsLeft,
    /// Too many wait already.
    Full,
}

/// The viewer's place on a waiting list.
#[derive(SimpleObject)]
pub struct JoinWaitlistPayload {
    /// The how-manieth of the list he is, from 1; null when he was refused.
    waitlist_position: Option<i32>,
    /// Why he was refused; null when he was not.
    refusal: Option<WaitlistRefusal>,
}

/// A sale to wait for no longer.
#[derive(InputObject)]
pub struct LeaveWaitlistInput {
    /// The voucher.
    voucher_id: ID,
}

/// The viewer waits no longer.
#[derive(SimpleObject)]
pub struct LeaveWaitlistPayload {
    /// Whether he was on the list.
    left: bool,
}

/// A viewer's place on a waiting list.
pub(crate) async fn position_of(
    ctx: &Context<'_>,
    viewer: UserId,
    voucher: &ID,
) -> Result<Option<i32>> {
    let voucher = VoucherId(parse_id(voucher, "Voucher", "voucherId")?);
    let orders = &ctx.services().orders;
    let position = orders.waitlist_position(viewer, voucher).await;
    let position = position.map_err(api_error)?;
    Ok(position.map(|p| i32::try_from(p).unwrap_or(i32::MAX)))
}

/// Waiting.
#[derive(Default)]
pub struct WaitlistMutation;

#[Object]
impl WaitlistMutation {
    /// Puts the viewer on the waiting list of a running sale that is sold out; a repeat changes nothing. When a unit comes
    /// back it is ordered for the first of the list, who is told by a notification of kind WAITLIST_ISSUED, and pays in
    /// time or lets it go to the next. For users.
    #[graphql(guard = "Limited(&ORDER_WRITES)")]
    async fn join_waitlist(
        &self,
        ctx: &Context<'_>,
        input: JoinWaitlistInput,
    ) -> Result<JoinWaitlistPayload> {
        let viewer = ctx.require_viewer()?.user_id;
        let voucher = VoucherId(parse_id(&input.voucher_id, "Voucher", "input.voucherId")?);
        let joined = ctx.services().orders.join_waitlist(viewer, voucher).await;
        let refusal = match joined.map_err(api_error)? {
            Joined::Position(position) => {
                return Ok(JoinWaitlistPayload {
                    waitlist_position: Some(i32::try_from(position).unwrap_or(i32::MAX)),
                    refusal: None,
                });
            }
            Joined::NotSoldOut => WaitlistRefusal::NotSoldOut,
            Joined::NotRunning => WaitlistRefusal::NotRunning,
            Joined::AlreadyOrdered => WaitlistRefusal::AlreadyOrdered,
            Joined::NoAttemptsLeft => WaitlistRefusal::NoAttemptsLeft,
            Joined::Full => WaitlistRefusal::Full,
        };
        Ok(JoinWaitlistPayload {
            waitlist_position: None,
            refusal: Some(refusal),
        })
    }

    /// Takes the viewer off a waiting list; a unit that is his already stays his order. For users.
    #[graphql(guard = "Limited(&ORDER_WRITES)")]
    async fn leave_waitlist(
        &self,
        ctx: &Context<'_>,
        input: LeaveWaitlistInput,
    ) -> Result<LeaveWaitlistPayload> {
        let viewer = ctx.require_viewer()?.user_id;
        let voucher = VoucherId(parse_id(&input.voucher_id, "Voucher", "input.voucherId")?);
        let left = ctx.services().orders.leave_waitlist(viewer, voucher).await;
        Ok(LeaveWaitlistPayload {
            left: left.map_err(api_error)?,
        })
    }
}
