//! Watching orders and stocks.

use async_graphql::{Context, ID, Result, Subscription};
use domain::vouchers::VoucherId;
use futures_util::{Stream, StreamExt};

use super::{Order, own_key};
use crate::context::ContextExt;
use crate::error::{api_error, not_found};
use crate::scalars::parse_id;
use crate::vouchers::{FlashSale, is_shown};

/// Everything about orders that can be watched.
#[derive(Default)]
pub struct OrderSubscription;

#[Subscription]
impl OrderSubscription {
    /// An order: first as it is, then at each change; ends when nothing will change any more. Its buyer.
    async fn order_status(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The order.")] order_id: ID,
    ) -> Result<impl Stream<Item = Result<Order>>> {
        let key = own_key(ctx, &order_id)?;
        let changes = ctx.services().orders.watch(key);
        Ok(changes.map(|order| order.map(Order).map_err(api_error)))
    }

    /// Every change of every order of the viewer, from now on. Signed-in users.
    async fn order_updates(&self, ctx: &Context<'_>) -> Result<impl Stream<Item = Order>> {
        let viewer = ctx.require_viewer()?.user_id;
        Ok(ctx.services().orders.watch_user(viewer).map(Order))
    }

    /// A flash sale: first as it is, then when its stock or state changes, at most twice a second; ends when the sale
    /// is settled. Anybody.
    async fn voucher_stock(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The voucher.")] voucher_id: ID,
    ) -> Result<impl Stream<Item = FlashSale>> {
        let voucher = VoucherId(parse_id(&voucher_id, "Voucher", "voucherId")?);
        // A voucher that is in no sale, or in one the viewer must not know of, is an error now, not a silence.
        if !is_shown(ctx, voucher).await? {
            return Err(not_found());
        }
        ctx.services()
            .orders
            .stock(voucher)
            .await
            .map_err(api_error)?;
        Ok(ctx
            .services()
            .orders
            .watch_stock(voucher)
            .map(FlashSale::seen))
    }
}
