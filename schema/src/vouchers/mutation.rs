//! What merchants do with vouchers and their flash sales.

use async_graphql::{ComplexObject, Context, ID, InputObject, Object, Result, SimpleObject};
use chrono::{DateTime, Utc};
use domain::shops::ShopId;
use domain::vouchers::{Currency, Kind, NewOffer, NewSale, NewVoucher, VoucherId};

use super::{FlashSale, Voucher, VoucherKind};
use crate::context::ContextExt;
use crate::error::{api_error, bad_input, not_found};
use crate::limits::{Limited, MERCHANT_WRITES};
use crate::scalars::{CurrencyCode, Decimal, parse_id};

/// A flash sale to make.
#[derive(InputObject)]
pub struct FlashSaleInput {
    /// When it begins.
    starts_at: DateTime<Utc>,
    /// When it ends; in the future, and after it begins.
    ends_at: DateTime<Utc>,
    /// Units, 1 to 1,000,000.
    total: i32,
    /// Units that one user may hold, 1 to 10.
    #[graphql(default = 1)]
    per_user_limit: i32,
    /// Orders that one user may place, closed ones included, from the limit to 100; by default 3, or the limit if that
    /// is more.
    max_attempts: Option<i32>,
}

/// A voucher to make.
#[derive(InputObject)]
pub struct CreateVoucherInput {
    /// The shop that takes it; the viewer runs it.
    shop_id: ID,
    /// How it is sold.
    kind: VoucherKind,
    /// Its title, 1 to 128 characters.
    title: String,
    /// Its second line, at most 255 characters.
    sub_title: Option<String>,
    /// Its terms of use, at most 2,000 characters.
    rules: Option<String>,
    /// What the buyer pays, in the major unit: "12.50".
    pay_price: Decimal,
    /// What it is worth in the shop, at least the price.
    value: Decimal,
    /// The currency of both.
    currency_code: CurrencyCode,
    /// Its flash sale; there if and only if the kind is SECKILL.
    sale: Option<FlashSaleInput>,
    /// Units of an ORDINARY voucher, 1 to 1,000,000; null when there is no end of them. A flash sale has its own.
    stock: Option<i32>,
    /// Units of an ORDINARY voucher that one user may hold, 1 to 10,000; null for any number. A flash sale has its own.
    per_user_limit: Option<i32>,
}

/// A voucher that was made.
#[derive(SimpleObject)]
pub struct CreateVoucherPayload {
    /// The voucher as it is now.
    voucher: Voucher,
}

/// Input and payload of a mutation that changes a flash sale.
macro_rules! sale_change {
    ($input:ident, $input_doc:literal, $payload:ident, $payload_doc:literal) => {
        #[doc = $input_doc]
        #[derive(InputObject)]
        pub struct $input {
            /// The voucher; the viewer runs its shop.
            voucher_id: ID,
        }

        impl $input {
            fn voucher(&self) -> Result<VoucherId> {
                parse_id(&self.voucher_id, "Voucher", "input.voucherId").map(VoucherId)
            }
        }

        #[doc = $payload_doc]
        #[derive(SimpleObject)]
        #[graphql(complex)]
        pub struct $payload {
            /// The sale as it is now.
            sale: FlashSale,
        }

        #[ComplexObject]
        impl $payload {
            /// The voucher it sells.
            async fn voucher(&self, ctx: &Context<'_>) -> Result<Voucher> {
                let found = ctx
                    .services()
                    .vouchers
                    .get(self.sale.voucher, 0)
                    .await
                    .map_err(api_error)?;
                found.map(Voucher).ok_or_else(not_found)
            }
        }

        impl $payload {
            fn of(changed: Result<domain::vouchers::Sale, domain::orders::Error>) -> Result<Self> {
                changed
                    .map(|sale| Self {
                        sale: FlashSale::new((&sale).into()),
                    })
                    .map_err(api_error)
            }
        }
    };
}

sale_change!(
    PublishVoucherInput,
    "A drafted sale to publish.",
    PublishVoucherPayload,
    "A sale that was published."
);
sale_change!(
    PauseVoucherInput,
    "A sale to pause.",
    PauseVoucherPayload,
    "A sale that was paused."
);
sale_change!(
    ResumeVoucherInput,
    "A sale to resume.",
    ResumeVoucherPayload,
    "A sale that was resumed."
);
sale_change!(
    EndVoucherInput,
    "A sale to end.",
    EndVoucherPayload,
    "A sale that was ended."
);

/// A new total for a voucher.
#[derive(InputObject)]
pub struct AdjustVoucherStockInput {
    /// The voucher; the viewer runs its shop.
    voucher_id: ID,
    /// Units for sale in all, those that are taken included; 1 to 1,000,000. Null for an ORDINARY voucher without an end.
    total: Option<i32>,
}

/// A voucher whose total was changed.
#[derive(SimpleObject)]
pub struct AdjustVoucherStockPayload {
    /// The voucher.
    voucher: Voucher,
    /// Its sale as it is now; null for an ORDINARY voucher.
    sale: Option<FlashSale>,
}

/// Making vouchers and running their sales.
#[derive(Default)]
pub struct VoucherMutation;

#[Object]
impl VoucherMutation {
    /// Makes a voucher; a flash sale starts as a draft. The shop's merchant, and administrators.
    #[graphql(guard = "Limited(&MERCHANT_WRITES)")]
    async fn create_voucher(
        &self,
        ctx: &Context<'_>,
        input: CreateVoucherInput,
    ) -> Result<CreateVoucherPayload> {
        let session = ctx.require_viewer()?;
        let currency = Currency::parse(&input.currency_code.0).map_err(api_error)?;
        let amount = |text: &str, argument| {
            domain::vouchers::Money::parse(text, currency)
                .map_err(|e| bad_input(argument, e.to_string()))
        };
        let new = NewVoucher {
            shop_id: ShopId(parse_id(&input.shop_id, "Shop", "input.shopId")?),
            kind: input.kind.into(),
            title: input.title,
            sub_title: input.sub_title,
            rules: input.rules,
            price: amount(&input.pay_price.0, "input.payPrice")?,
            value: amount(&input.value.0, "input.value")?,
            sale: input.sale.map(|sale| NewSale {
                begin_ms: sale.starts_at.timestamp_millis(),
                end_ms: sale.ends_at.timestamp_millis(),
                total: i64::from(sale.total),
                per_user_limit: sale.per_user_limit,
                max_attempts: sale.max_attempts,
            }),
            offer: NewOffer {
                total: input.stock.map(i64::from),
                per_user_limit: input.per_user_limit,
            },
        };
        let voucher = ctx
            .services()
            .vouchers
            .create(session, new)
            .await
            .map_err(api_error)?;
        Ok(CreateVoucherPayload {
            voucher: Voucher(voucher),
        })
    }

    /// Publishes a drafted sale: from now on it is announced, and sells when it begins. The shop's merchant, and
    /// administrators. TRY_LATER when the sale cannot be prepared now.
    #[graphql(guard = "Limited(&MERCHANT_WRITES)")]
    async fn publish_voucher(
        &self,
        ctx: &Context<'_>,
        input: PublishVoucherInput,
    ) -> Result<PublishVoucherPayload> {
        let (session, voucher) = (ctx.require_viewer()?, input.voucher()?);
        PublishVoucherPayload::of(ctx.services().orders.publish(session, voucher).await)
    }

    /// Stops a sale until it is resumed; orders that exist go on. The shop's merchant, and administrators.
    #[graphql(guard = "Limited(&MERCHANT_WRITES)")]
    async fn pause_voucher(
        &self,
        ctx: &Context<'_>,
        input: PauseVoucherInput,
    ) -> Result<PauseVoucherPayload> {
        let (session, voucher) = (ctx.require_viewer()?, input.voucher()?);
        PauseVoucherPayload::of(ctx.services().orders.pause(session, voucher).await)
    }

    /// Lets a paused sale sell again. The shop's merchant, and administrators.
    #[graphql(guard = "Limited(&MERCHANT_WRITES)")]
    async fn resume_voucher(
        &self,
        ctx: &Context<'_>,
        input: ResumeVoucherInput,
    ) -> Result<ResumeVoucherPayload> {
        let (session, voucher) = (ctx.require_viewer()?, input.voucher()?);
        ResumeVoucherPayload::of(ctx.services().orders.resume(session, voucher).await)
    }

    /// Ends a sale now; orders that exist go on. The shop's merchant, and administrators.
    #[graphql(guard = "Limited(&MERCHANT_WRITES)")]
    async fn end_voucher(
        &self,
        ctx: &Context<'_>,
        input: EndVoucherInput,
    ) -> Result<EndVoucherPayload> {
        let (session, voucher) = (ctx.require_viewer()?, input.voucher()?);
        EndVoucherPayload::of(ctx.services().orders.end(session, voucher).await)
    }

    /// Changes the total of an open sale, or of an ordinary voucher. The shop's merchant, and administrators.
    ///
    /// BAD_INPUT when more units are taken already: nothing changes then. TRY_LATER when the sale cannot be reached:
    /// the new total is then taken up as soon as it can.
    #[graphql(guard = "Limited(&MERCHANT_WRITES)")]
    async fn adjust_voucher_stock(
        &self,
        ctx: &Context<'_>,
        input: AdjustVoucherStockInput,
    ) -> Result<AdjustVoucherStockPayload> {
        let session = ctx.require_viewer()?;
        let id = VoucherId(parse_id(&input.voucher_id, "Voucher", "input.voucherId")?);
        let (vouchers, orders) = (&ctx.services().vouchers, &ctx.services().orders);
        let voucher = vouchers.require_owner(session, id).await;
        let voucher = voucher.map_err(api_error)?;
        let total = input.total.map(i64::from);
        let sale = if voucher.kind == Kind::Ordinary {
            let adjusted = vouchers.adjust_offer(session, id, total).await;
            adjusted.map_err(api_error)?;
            None
        } else {
            let total = total
                .ok_or_else(|| bad_input("input.total", "a flash sale has an end of its units"))?;
            let sale = orders.adjust_stock(session, id, total).await;
            Some(FlashSale::new((&sale.map_err(api_error)?).into()))
        };
        Ok(AdjustVoucherStockPayload {
            voucher: Voucher(voucher),
            sale,
        })
    }
}
