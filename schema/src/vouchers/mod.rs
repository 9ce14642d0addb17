//! Vouchers and their flash sales in the API, as everybody sees them and as merchants make them.

#![expect(
    clippy::too_many_arguments,
    reason = "a resolver's arguments are those of its field"
)]

pub mod mutation;

use async_graphql::{Context, Enum, ID, Object, Result};
use chrono::{DateTime, Utc};
use domain::orders::SaleView;
use domain::shops::ShopId;
use domain::vouchers::{FlashSaleFilter, SaleCard, VoucherId};

use crate::context::ContextExt;
use crate::degraded::note_missing_redis;
use crate::error::{api_error, fault_error, not_found};
use crate::limits::{LISTS, Limited};
use crate::loaders::{OfferOf, SaleOf, by_id};
use crate::orders::Order;
use crate::pagination::{List, Page};
use crate::scalars::{Money, global_id, parse_id, parse_min_version, time};
use crate::shops::Shop;

/// How a voucher is sold.
#[derive(Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "domain::vouchers::Kind")]
pub enum VoucherKind {
    /// At any time.
    Ordinary,
    /// In a flash sale.
    Seckill,
}

/// Where a flash sale stands.
#[derive(Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "domain::vouchers::SaleState")]
pub enum FlashSaleState {
    /// Not published; only its merchant knows of it.
    Draft,
    /// Published; it has not begun.
    Announced,
    /// It sells.
    Running,
    /// It would sell, but is paused.
    Paused,
    /// It is over; orders go on.
    Ended,
    /// It is over and its books are closed.
    Settled,
}

/// A flash sale.
pub struct FlashSale {
    voucher: VoucherId,
    sale: SaleCard,
    /// Known already when it comes from a subscription.
    seen: Option<(u64, domain::vouchers::SaleState)>,
}

impl FlashSale {
    fn new(sale: SaleCard) -> Self {
        Self {
            voucher: VoucherId(sale.voucher_id),
            sale,
            seen: None,
        }
    }

    /// As a subscription saw it.
    pub fn seen(view: SaleView) -> Self {
        let seen = Some((view.stock, view.state));
        Self {
            voucher: VoucherId(view.sale.voucher_id),
            sale: SaleCard::from(&view.sale),
            seen,
        }
    }

    async fn look(&self, ctx: &Context<'_>) -> Result<(u64, domain::vouchers::SaleState)> {
        if let Some(seen) = self.seen {
            return Ok(seen);
        }
        let view = ctx
            .services()
            .orders
            .stock(self.voucher)
            .await
            .map_err(api_error)?;
        Ok((view.stock, view.state))
    }
}

/// The flash sale of a voucher.
#[Object]
impl FlashSale {
    /// Units for sale.
    async fn total(&self) -> i32 {
        i32::try_from(self.sale.total).unwrap_or(i32::MAX)
    }

    /// Units left; up to a second old. `voucherStock` tells it live.
    async fn stock(&self, ctx: &Context<'_>) -> Result<i32> {
        Ok(i32::try_from(self.look(ctx).await?.0).unwrap_or(i32::MAX))
    }

    /// When it begins: a click at this very moment counts.
    async fn starts_at(&self) -> DateTime<Utc> {
        time(self.sale.begin_ms)
    }

    /// When it ends: a click at this very moment is too late.
    async fn ends_at(&self) -> DateTime<Utc> {
        time(self.sale.end_ms)
    }

    /// Units that one user may hold.
    async fn per_user_limit(&self) -> i32 {
        self.sale.per_user_limit
    }

    /// Orders that one user may place, those that were closed included.
    async fn max_attempts(&self) -> i32 {
        self.sale.max_attempts
    }

    /// Where it stands.
    async fn state(&self, ctx: &Context<'_>) -> Result<FlashSaleState> {
        Ok(self.look(ctx).await?.1.into())
    }

    /// What is sold; null when the voucher was retired meanwhile.
    async fn voucher(&self, ctx: &Context<'_>) -> Option<Result<Voucher>> {
        let found = by_id(ctx)
            .load_one(self.voucher)
            .await
            .map_err(|e| fault_error(&*e))
            .transpose()?;
        Some(found.map(Voucher))
    }
}

/// A voucher of a shop.
pub struct Voucher(pub(crate) domain::vouchers::Voucher);

/// A voucher of a shop. Anybody may see it.
#[Object]
impl Voucher {
    /// The id of the voucher.
    pub(crate) async fn id(&self) -> ID {
        global_id("Voucher", self.0.id)
    }

    /// The shop that takes it.
    async fn shop(&self, ctx: &Context<'_>) -> Result<Shop> {
        let found = by_id(ctx)
            .load_one(ShopId(self.0.shop_id))
            .await
            .map_err(|e| fault_error(&*e))?;
        found.map(Shop).ok_or_else(not_found)
    }

    /// Its title.
    async fn title(&self) -> &str {
        &self.0.title
    }

    /// Its second line; null when it has none.
    async fn sub_title(&self) -> Option<&str> {
        self.0.sub_title.as_deref()
    }

    /// Its terms of use; null when it has none.
    async fn rules(&self) -> Option<&str> {
        self.0.rules.as_deref()
    }

    /// What the buyer pays.
    async fn pay_price(&self) -> Result<Money> {
        self.money(self.0.price_minor)
    }

    /// What it is worth in the shop.
    async fn value(&self) -> Result<Money> {
        self.money(self.0.value_minor)
    }

    /// How it is sold.
    async fn kind(&self) -> VoucherKind {
        self.0.kind.into()
    }

    /// Its flash sale; null unless its kind is SECKILL.
    async fn sale(&self, ctx: &Context<'_>) -> Option<Result<FlashSale>> {
        let sale = by_id(ctx)
            .load_one(SaleOf(VoucherId(self.0.id)))
            .await
            .map_err(|e| fault_error(&*e))
            .transpose()?;
        Some(sale.map(FlashSale::new))
    }

    /// Units of an ordinary voucher that are left; null when there is no end of them, and for a flash sale, which has
    /// its own.
    async fn stock(&self, ctx: &Context<'_>) -> Option<Result<i32>> {
        let left = |offer: domain::vouchers::Offer| {
            let left = (offer.total? - offer.sold).max(0);
            Some(i32::try_from(left).unwrap_or(i32::MAX))
        };
        self.offer(ctx).await?.map(left).transpose()
    }

    /// Units of an ordinary voucher that one user may hold; null for any number, and for a flash sale, which has its
    /// own.
    async fn per_user_limit(&self, ctx: &Context<'_>) -> Option<Result<i32>> {
        let limit = |offer: domain::vouchers::Offer| offer.per_user_limit;
        self.offer(ctx).await?.map(limit).transpose()
    }

    /// The viewer's latest order of it, one that holds a unit before a closed one; null when there is none, and for
    /// nobody who is signed out.
    async fn viewer_order(&self, ctx: &Context<'_>) -> Option<Result<Order>> {
        let viewer = ctx.viewer()?;
        let orders = &ctx.services().orders;
        let found = orders
            .of_viewer_for(viewer.user_id, VoucherId(self.0.id))
            .await
            .map_err(api_error)
            .transpose()?;
        Some(found.map(Order))
    }

    /// When it was made.
    async fn created_at(&self) -> DateTime<Utc> {
        time(self.0.created_at)
    }

    /// Grows with each change of the voucher.
    async fn version(&self) -> String {
        self.0.version.to_string()
    }
}

impl Voucher {
    /// What it has in stock; `None` unless it is an ordinary one.
    async fn offer(&self, ctx: &Context<'_>) -> Option<Result<domain::vouchers::Offer>> {
        if self.0.kind != domain::vouchers::Kind::Ordinary {
            return None;
        }
        let found = by_id(ctx).load_one(OfferOf(VoucherId(self.0.id))).await;
        found.map_err(|e| fault_error(&*e)).transpose()
    }

    fn money(&self, minor: i64) -> Result<Money> {
        let currency = domain::vouchers::Currency::parse(&self.0.currency).map_err(api_error)?;
        Ok(Money(domain::vouchers::Money { minor, currency }))
    }
}

/// Whether the viewer may know of a voucher.
pub(crate) async fn is_shown(ctx: &Context<'_>, id: VoucherId) -> Result<bool> {
    let loaders = by_id(ctx);
    let sale = loaders.load_one(SaleOf(id)).await;
    let Some(card) = sale.map_err(|e| fault_error(&*e))? else {
        return Ok(true);
    };
    let shop = loaders.load_one(ShopId(card.shop_id)).await;
    let shop = shop.map_err(|e| fault_error(&*e))?;
    Ok(card.is_shown_to(ctx.viewer(), shop.as_ref()))
}

/// Reading vouchers and flash sales.
#[derive(Default)]
pub struct VoucherQuery;

#[Object]
impl VoucherQuery {
    /// A voucher; null when there is none, and while its sale is a draft null for all but those who run its shop. A
    /// malformed id is BAD_INPUT. Another server's change may come up to 5 s late, unless `minVersion` asks for it: null with TRY_LATER and `retryAfterMs` when that version is not to be seen yet.
    async fn voucher(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The voucher.")] id: ID,
        #[graphql(desc = "The `version` that the answer must have at least.")] min_version: Option<
            String,
        >,
    ) -> Option<Result<Voucher>> {
        let read = async {
            let id = VoucherId(parse_id(&id, "Voucher", "id")?);
            let min_version = parse_min_version(min_version.as_deref())?;
            let vouchers = &ctx.services().vouchers;
            let found = vouchers.get(id, min_version).await.map_err(api_error)?;
            let is_shown = found.is_none() || is_shown(ctx, id).await?;
            Ok::<_, async_graphql::Error>(found.filter(|_| is_shown))
        };
        let found = read.await.transpose();
        note_missing_redis(ctx);
        Some(found?.map(Voucher))
    }

    /// Vouchers in flash sales, by when their sale begins, the earliest first; a sale that opens or ends by the clock may be
    /// up to two seconds late in a first page. Drafts only when asked for: by an administrator,
    /// or by a merchant for a shop of their own.
    #[graphql(
        complexity = "first.unwrap_or(20).clamp(0, 50) as usize * child_complexity + 1",
        guard = "Limited(&LISTS)"
    )]
    async fn flash_sales(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only sales that stand there; all that are published by default.")] state: Option<FlashSaleState>,
        #[graphql(desc = "Only sales of this shop.")] shop_id: Option<ID>,
        #[graphql(desc = "How many, 1 to 50; 20 by default.")] first: Option<i32>,
        #[graphql(desc = "The cursor of the last one before, of the same list.")] after: Option<
            String,
        >,
    ) -> Result<List<Voucher>> {
        let shop_id = shop_id
            .map(|id| parse_id(&id, "Shop", "shopId"))
            .transpose()?
            .map(ShopId);
        let filter = FlashSaleFilter {
            state: state.map(Into::into),
            shop_id,
        };
        if filter.state == Some(domain::vouchers::SaleState::Draft) {
            let session = ctx.require_viewer()?;
            let vouchers = &ctx.services().vouchers;
            vouchers
                .may_list_drafts(session, shop_id)
                .await
                .map_err(api_error)?;
        }
        let page: Page<(i64, VoucherId)> =
            Page::new(ctx, format!("flash-sales:{filter:?}"), first, after)?;
        let vouchers = &ctx.services().vouchers;
        let sales = vouchers
            .listed_sales(filter, page.after, page.load() as u64)
            .await
            .map_err(api_error)?;
        let ids: Vec<VoucherId> = sales.iter().map(|s| s.voucher_id).collect();
        let mut found = by_id(ctx)
            .load_many(ids)
            .await
            .map_err(|e| fault_error(&*e))?;
        let items = sales
            .into_iter()
            .filter_map(|s| Some((found.remove(&s.voucher_id)?, s.begin_ms)))
            .collect();
        Ok(page.list_with(
            ctx,
            items,
            |(voucher, begin_ms): &(domain::vouchers::Voucher, i64)| {
                (*begin_ms, VoucherId(voucher.id))
            },
            |(voucher, _)| (Voucher(voucher), async_graphql::connection::EmptyFields),
        ))
    }
}
