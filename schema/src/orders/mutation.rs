//! Taking a voucher, paying it, cancelling it.

use async_graphql::{Context, Enum, ID, InputObject, Object, Result, SimpleObject, Union};
use chrono::{DateTime, Utc};
use domain::orders::{Answer, CancelOutcome, PayOutcome, RequestId};
use domain::vouchers::VoucherId;

use super::{Order, own_key};
use crate::context::ContextExt;
use crate::error::api_error;
use crate::limits::{Limited, ORDER_WRITES};
use crate::scalars::{parse_id, time};

/// A click in a flash sale.
#[derive(InputObject)]
pub struct SeckillVoucherInput {
    /// The voucher.
    voucher_id: ID,
    /// The client's own id of this request, 1 to 64 letters, digits, `_`, `.`, `:` or `-`. Repeat a request that was
    /// not answered with the same id: it gets the same order.
    client_request_id: String,
}

/// The unit is the viewer's.
#[derive(SimpleObject)]
pub struct SeckillAccepted {
    /// His order.
    order: Order,
}

/// It is not known yet whether the unit is the viewer's; the order's status will tell. Do not take it for a no.
#[derive(SimpleObject)]
pub struct SeckillPending {
    /// The id of the order that may come.
    order_id: ID,
}

/// The viewer has all the units he may have.
#[derive(SimpleObject)]
pub struct AlreadyOrdered {
    /// One of his orders.
    order: Order,
}

/// Nothing is left now. A unit may come back when an order is not paid.
#[derive(SimpleObject)]
pub struct SoldOut {
    /// Always true.
    sold_out: bool,
}

impl SoldOut {
    pub(crate) fn told() -> Self {
        Self { sold_out: true }
    }
}

/// The viewer has used up his attempts in this sale.
#[derive(SimpleObject)]
pub struct NoAttemptsLeft {
    /// Always true.
    no_attempts_left: bool,
}

/// The sale has not begun.
#[derive(SimpleObject)]
pub struct SaleNotStarted {
    /// When it begins.
    starts_at: DateTime<Utc>,
}

/// The sale is over.
#[derive(SimpleObject)]
pub struct SaleEnded {
    /// Always true.
    ended: bool,
}

/// The sale is paused.
#[derive(SimpleObject)]
pub struct SalePaused {
    /// Always true.
    paused: bool,
}

/// The viewer clicks too fast. Nothing was taken.
#[derive(SimpleObject)]
pub struct RateLimited {
    /// When a click will be taken again, in milliseconds.
    retry_after_ms: i32,
}

/// The sale cannot answer now. Nothing was taken.
#[derive(SimpleObject)]
pub struct TryLater {
    /// When to try again, in milliseconds.
    retry_after_ms: i32,
}

/// What a click came to.
#[derive(Union)]
pub enum SeckillResult {
    /// The unit is the viewer's.
    Accepted(SeckillAccepted),
    /// Not known yet.
    Pending(SeckillPending),
    /// He has all he may have.
    AlreadyOrdered(AlreadyOrdered),
    /// Nothing is left.
    SoldOut(SoldOut),
    /// His attempts are used up.
    NoAttemptsLeft(NoAttemptsLeft),
    /// Too early.
    NotStarted(SaleNotStarted),
    /// Too late.
    Ended(SaleEnded),
    /// Paused.
    Paused(SalePaused),
    /// Too fast.
    RateLimited(RateLimited),
    /// Not now.
    TryLater(TryLater),
}

/// The answer to a click.
#[derive(SimpleObject)]
pub struct SeckillPayload {
    /// What it came to.
    result: SeckillResult,
}

/// Who takes the money.
#[derive(Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "domain::orders::Provider")]
pub enum PaymentProvider {
    /// The built-in provider that moves no money; not offered in production.
    Sandbox,
}

/// An order to pay.
#[derive(InputObject)]
pub struct PayOrderInput {
    /// The order.
    order_id: ID,
    /// Who is to take the money.
    #[graphql(default_with = "PaymentProvider::Sandbox")]
    provider: PaymentProvider,
}

/// The order can be paid.
#[derive(SimpleObject)]
pub struct PaymentReady {
    /// The order as it is.
    order: Order,
    /// Where the buyer pays, in a browser.
    payment_url: String,
}

/// The order is paid, closed or rejected already.
#[derive(SimpleObject)]
pub struct OrderNotPayable {
    /// The order as it is.
    order: Order,
}

/// What the wish to pay came to.
#[derive(Union)]
pub enum PayResult {
    /// It can be paid.
    Ready(PaymentReady),
    /// It cannot.
    NotPayable(OrderNotPayable),
}

/// The answer to the wish to pay.
#[derive(SimpleObject)]
pub struct PayOrderPayload {
    /// What it came to.
    result: PayResult,
}

/// An order to cancel.
#[derive(InputObject)]
pub struct CancelOrderInput {
    /// The order.
    order_id: ID,
}

/// The order is closed; its unit goes back.
#[derive(SimpleObject)]
pub struct OrderCancelled {
    /// The order as it is.
    order: Order,
}

/// The order is in a state that cannot be cancelled; nothing changed.
#[derive(SimpleObject)]
pub struct OrderNotCancellable {
    /// The order as it is.
    order: Order,
}

/// What the wish to cancel came to.
#[derive(Union)]
pub enum CancelResult {
    /// It is closed.
    Cancelled(OrderCancelled),
    /// It is not.
    NotCancellable(OrderNotCancellable),
}

/// The answer to the wish to cancel.
#[derive(SimpleObject)]
pub struct CancelOrderPayload {
    /// What it came to.
    result: CancelResult,
}

/// What the sandbox is to do.
#[derive(Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "domain::orders::SandboxAction")]
pub enum SandboxAction {
    /// One payment.
    Succeed,
    /// The buyer's bank refuses.
    Fail,
    /// The same payment, told twice.
    Repeat,
    /// Two payments with two transaction ids; one goes back.
    PayTwice,
    /// A payment of another amount; it goes back.
    WrongAmount,
    /// A payment that arrives once the order is closed; it goes back.
    Late,
}

/// An order for the sandbox.
#[derive(InputObject)]
pub struct SandboxPayInput {
    /// The order.
    order_id: ID,
    /// What to do.
    #[graphql(default_with = "SandboxAction::Succeed")]
    action: SandboxAction,
}

/// What the sandbox did.
#[derive(SimpleObject)]
pub struct SandboxPayPayload {
    /// The transactions it made.
    transaction_ids: Vec<String>,
    /// How many callbacks the server took; that of a late payment comes later.
    delivered: i32,
}

/// Taking, paying and cancelling orders.
#[derive(Default)]
pub struct OrderMutation;

#[Object]
impl OrderMutation {
    /// Takes a unit in a flash sale. Signed-in users. Answers before the order is written: watch `orderStatus`.
    async fn seckill_voucher(
        &self,
        ctx: &Context<'_>,
        input: SeckillVoucherInput,
    ) -> Result<SeckillPayload> {
        let viewer = ctx.require_viewer()?.user_id;
        let voucher = VoucherId(parse_id(&input.voucher_id, "Voucher", "input.voucherId")?);
        let request = RequestId::parse(&input.client_request_id).map_err(api_error)?;
        let orders = &ctx.services().orders;
        let answer = orders
            .reserve(viewer, voucher, request, ctx.meta().trace_id.clone())
            .await
            .map_err(api_error)?;
        Ok(SeckillPayload {
            result: shape(ctx, answer),
        })
    }

    /// Prepares the payment of an order, also one that is still QUEUED. Its buyer. Repeats give the same address.
    #[graphql(guard = "Limited(&ORDER_WRITES)")]
    async fn pay_order(&self, ctx: &Context<'_>, input: PayOrderInput) -> Result<PayOrderPayload> {
        let key = own_key(ctx, &input.order_id)?;
        let result = match ctx
            .services()
            .orders
            .pay(key, input.provider.into())
            .await
            .map_err(api_error)?
        {
            PayOutcome::Ready { order, payment_url } => PayResult::Ready(PaymentReady {
                order: Order(order),
                payment_url,
            }),
            PayOutcome::NotPayable(order) => PayResult::NotPayable(OrderNotPayable {
                order: Order(order),
            }),
        };
        Ok(PayOrderPayload { result })
    }

    /// Cancels an order that is not paid, also one that is still QUEUED. Its buyer.
    #[graphql(guard = "Limited(&ORDER_WRITES)")]
    async fn cancel_order(
        &self,
        ctx: &Context<'_>,
        input: CancelOrderInput,
    ) -> Result<CancelOrderPayload> {
        let key = own_key(ctx, &input.order_id)?;
        let result = match ctx.services().orders.cancel(key).await.map_err(api_error)? {
            CancelOutcome::Closed(order) => CancelResult::Cancelled(OrderCancelled {
                order: Order(order),
            }),
            CancelOutcome::NotCancellable(order) => {
                CancelResult::NotCancellable(OrderNotCancellable {
                    order: Order(order),
                })
            }
        };
        Ok(CancelOrderPayload { result })
    }

    /// Lets the payment sandbox act on an order, as its page at `paymentUrl` would. Its buyer; FORBIDDEN where the
    /// sandbox is off.
    #[graphql(guard = "Limited(&ORDER_WRITES)")]
    async fn sandbox_pay(
        &self,
        ctx: &Context<'_>,
        input: SandboxPayInput,
    ) -> Result<SandboxPayPayload> {
        let key = own_key(ctx, &input.order_id)?;
        let report = ctx
            .services()
            .orders
            .sandbox_pay(key, input.action.into())
            .await
            .map_err(api_error)?;
        let delivered = i32::try_from(report.delivered).unwrap_or(i32::MAX);
        Ok(SandboxPayPayload {
            transaction_ids: report.transaction_ids,
            delivered,
        })
    }
}

fn shape(ctx: &Context<'_>, answer: Answer) -> SeckillResult {
    let ms = |after: std::time::Duration| i32::try_from(after.as_millis()).unwrap_or(i32::MAX);
    match answer {
        Answer::Accepted(order) => SeckillResult::Accepted(SeckillAccepted {
            order: Order(order),
        }),
        Answer::Pending(key) => SeckillResult::Pending(SeckillPending {
            order_id: ID(ctx.services().orders.seal(key)),
        }),
        Answer::AlreadyOrdered(order) => SeckillResult::AlreadyOrdered(AlreadyOrdered {
            order: Order(order),
        }),
        Answer::SoldOut => SeckillResult::SoldOut(SoldOut::told()),
        Answer::NoAttemptsLeft => SeckillResult::NoAttemptsLeft(NoAttemptsLeft {
            no_attempts_left: true,
        }),
        Answer::NotStarted { starts_at_ms } => SeckillResult::NotStarted(SaleNotStarted {
            starts_at: time(starts_at_ms),
        }),
        Answer::Ended => SeckillResult::Ended(SaleEnded { ended: true }),
        Answer::Paused => SeckillResult::Paused(SalePaused { paused: true }),
        Answer::RateLimited { retry_after } => SeckillResult::RateLimited(RateLimited {
            retry_after_ms: ms(retry_after),
        }),
        Answer::TryLater { retry_after } => SeckillResult::TryLater(TryLater {
            retry_after_ms: ms(retry_after),
        }),
    }
}
