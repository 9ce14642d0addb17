//! Reminders of sales to come.

use async_graphql::{Context, Enum, ID, InputObject, Object, Result, SimpleObject};
use chrono::{DateTime, Utc};
use domain::reminders::Noted;
use domain::users::UserId;
use domain::vouchers::VoucherId;

use crate::context::ContextExt;
use crate::error::api_error;
use crate::limits::{Limited, MARKS};
use crate::scalars::{parse_id, time};

/// A sale to be reminded of.
#[derive(InputObject)]
pub struct RemindMeInput {
    /// The voucher.
    voucher_id: ID,
}

/// Why nobody is reminded.
#[derive(Clone, Copy, PartialEq, Eq, Enum)]
pub enum ReminderRefusal {
    /// The sale has begun already.
    AlreadyStarted,
}

/// A reminder.
#[derive(SimpleObject)]
pub struct RemindMePayload {
    /// When the viewer is reminded, as the sale stands now; in the past when that is at once. Null when it was refused.
    remind_at: Option<DateTime<Utc>>,
    /// Why it was refused; null when it was not.
    refusal: Option<ReminderRefusal>,
}

/// A sale not to be reminded of.
#[derive(InputObject)]
pub struct CancelReminderInput {
    /// The voucher.
    voucher_id: ID,
}

/// A reminder that will not come.
#[derive(SimpleObject)]
pub struct CancelReminderPayload {
    /// Whether there was one.
    cancelled: bool,
}

/// Whether a viewer has asked to be reminded of a sale.
pub(crate) async fn has_reminder(ctx: &Context<'_>, viewer: UserId, voucher: &ID) -> Result<bool> {
    let voucher = VoucherId(parse_id(voucher, "Voucher", "voucherId")?);
    let noted = ctx.services().reminders.is_noted(viewer, voucher).await;
    noted.map_err(api_error)
}

/// Asking for reminders.
#[derive(Default)]
pub struct ReminderMutation;

#[Object]
impl ReminderMutation {
    /// Reminds the viewer a few minutes before a sale begins, once, by a notification of kind SALE_STARTING; a repeat
    /// changes nothing. When the beginning moves, the reminder moves along. For users.
    #[graphql(guard = "Limited(&MARKS)")]
    async fn remind_me(&self, ctx: &Context<'_>, input: RemindMeInput) -> Result<RemindMePayload> {
        let viewer = ctx.require_viewer()?.user_id;
        let voucher = VoucherId(parse_id(&input.voucher_id, "Voucher", "input.voucherId")?);
        let noted = ctx.services().reminders.remind(viewer, voucher).await;
        Ok(match noted.map_err(api_error)? {
            Noted::WillRemind { at_ms } => RemindMePayload {
                remind_at: Some(time(at_ms)),
                refusal: None,
            },
            Noted::Begun => RemindMePayload {
                remind_at: None,
                refusal: Some(ReminderRefusal::AlreadyStarted),
            },
        })
    }

    /// Takes a wish to be reminded back. For users.
    #[graphql(guard = "Limited(&MARKS)")]
    async fn cancel_reminder(
        &self,
        ctx: &Context<'_>,
        input: CancelReminderInput,
    ) -> Result<CancelReminderPayload> {
        let viewer = ctx.require_viewer()?.user_id;
        let voucher = VoucherId(parse_id(&input.voucher_id, "Voucher", "input.voucherId")?);
        let gone = ctx.services().reminders.forget(viewer, voucher).await;
        Ok(CancelReminderPayload {
            cancelled: gone.map_err(api_error)?,
        })
    }
}
