//! Shops in the API.

#![expect(
    clippy::too_many_arguments,
    reason = "a resolver's arguments are those of its field"
)]

pub mod mutation;

use async_graphql::connection::{ConnectionNameType, EdgeNameType};
use async_graphql::{Context, Enum, ID, InputObject, Object, OutputType, Result, SimpleObject};
use chrono::{DateTime, Utc};
use domain::infra::text::check_text;
use domain::shops::{
    GeoPoint, NearbyQuery, ShopFilter, ShopId, ShopKey, ShopSort as Sort, ShopTypeId,
};
use domain::switches::Switch;
use domain::uploads::from_column;
use domain::vouchers::VoucherId;

use crate::blogs::Blog;
use crate::context::ContextExt;
use crate::degraded::{is_off, note_missing_redis};
use crate::error::{api_error, fault_error, not_found};
use crate::limits::{LISTS, Limited};
use crate::loaders::by_id;
use crate::pagination::{List, Page};
use crate::reviews::{Review, reviews_of};
use crate::scalars::{Money, global_id, parse_id, parse_min_version, time};
use crate::uploads::{Image, images_of};
use crate::users::Date;
use crate::visits::{VisitPeriod, visit_shop, visitors_of_shop};
use crate::vouchers::Voucher;

/// A kind of shop.
pub struct ShopType(pub(crate) domain::shops::ShopType);

/// A kind of shop, such as a café.
#[Object]
impl ShopType {
    /// The id of the type.
    async fn id(&self) -> ID {
        global_id("ShopType", self.0.id)
    }

    /// A stable name in lower case, for programs: "fast_food".
    async fn code(&self) -> &str {
        &self.0.code
    }

    /// The name to show.
    async fn name(&self) -> &str {
        &self.0.name
    }
}

/// A place on earth, WGS 84.
#[derive(SimpleObject)]
pub struct Location {
    /// Degrees north, -85.05112878 to 85.05112878.
    latitude: f64,
    /// Degrees east, -180 to 180.
    longitude: f64,
}

/// A place on earth, WGS 84.
#[derive(InputObject)]
pub struct GeoPointInput {
    /// Degrees north, -85.05112878 to 85.05112878.
    latitude: f64,
    /// Degrees east, -180 to 180.
    longitude: f64,
}

/// Whether a shop is in business.
#[derive(Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "domain::shops::Status")]
pub enum ShopStatus {
    /// It is.
    Open,
    /// It has closed for good; it is in no list and no search.
    Closed,
}

/// A shop.
pub struct Shop(pub(crate) domain::shops::Shop);

/// A shop. Anybody may see it.
#[Object]
impl Shop {
    /// The id of the shop.
    pub(crate) async fn id(&self) -> ID {
        global_id("Shop", self.0.id)
    }

    /// Its name.
    async fn name(&self) -> &str {
        &self.0.name
    }

    /// What kind of shop it is.
    #[graphql(name = "type")]
    async fn shop_type(&self, ctx: &Context<'_>) -> Result<ShopType> {
        let found = by_id(ctx)
            .load_one(ShopTypeId(self.0.type_id))
            .await
            .map_err(|e| fault_error(&*e))?;
        found.map(ShopType).ok_or_else(not_found)
    }

    /// Its pictures, at most 9, in the order the shop gave them; those that were deleted are left out.
    #[graphql(complexity = "9 * child_complexity + 1")]
    async fn images(&self, ctx: &Context<'_>) -> Result<Vec<Image>> {
        images_of(ctx, &from_column(&self.0.images)).await
    }

    /// The quarter of the city; null when it is not known.
    async fn area(&self) -> Option<&str> {
        self.0.area.as_deref()
    }

    /// Street address; null when it is not known.
    async fn address(&self) -> Option<&str> {
        self.0.address.as_deref()
    }

    /// Where it is.
    async fn location(&self) -> Location {
        Location {
            latitude: self.0.latitude,
            longitude: self.0.longitude,
        }
    }

    /// What a visit costs on average; null when it is not known.
    async fn average_price(&self) -> Option<Money> {
        let currency = domain::vouchers::Currency::parse(self.0.currency.as_deref()?).ok()?;
        Some(Money(domain::vouchers::Money {
            minor: self.0.average_price_minor?,
            currency,
        }))
    }

    /// Rating, 0 to 5 in tenths; null while nobody has rated it.
    async fn score(&self) -> Option<f64> {
        (self.0.score_tenths > 0).then(|| f64::from(self.0.score_tenths) / 10.0)
    }

    /// Units of its vouchers that were paid and not given back; a second or so old.
    async fn sold_count(&self) -> i32 {
        i32::try_from(self.0.sold_count).unwrap_or(i32::MAX)
    }

    /// Reviews written.
    async fn comment_count(&self) -> i32 {
        i32::try_from(self.0.comment_count).unwrap_or(i32::MAX)
    }

    /// How many different people looked at the shop by `shop`, on a day or on the days that end with it; within about 1 %,
    /// up to a second late. Days are those of the server's zone, Asia/Shanghai unless its operator says otherwise, and are
    /// kept for 40 days; 0 for days before. 0 too, with the field named in `extensions.degraded`, when counts are away.
    async fn unique_visitors(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The day, or the last of them; today by default.")] day: Option<Date>,
        #[graphql(desc = "How many days; DAY by default.")] period: Option<VisitPeriod>,
    ) -> i32 {
        visitors_of_shop(ctx, self.0.id, day, period).await
    }

    /// Opening hours in the shop's own words; null when they are not known.
    async fn open_hours(&self) -> Option<&str> {
        self.0.open_hours.as_deref()
    }

    /// Whether it is in business.
    async fn status(&self) -> ShopStatus {
        self.0.status.into()
    }

    /// Notes about it, newest first. `first` is 1 to 50, 20 by default.
    #[graphql(complexity = "first.unwrap_or(20).clamp(0, 50) as usize * child_complexity + 1")]
    async fn blogs(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "How many, 1 to 50; 20 by default.")] first: Option<i32>,
        #[graphql(desc = "The cursor of the last one before.")] after: Option<String>,
    ) -> Result<List<Blog>> {
        crate::blogs::of_shop(ctx, ShopId(self.0.id), (first, after)).await
    }

    /// When it was added.
    async fn created_at(&self) -> DateTime<Utc> {
        time(self.0.created_at)
    }

    /// The vouchers it offers, newest first; drafts are left out. `first` is 1 to 50, 20 by default.
    #[graphql(complexity = "first.unwrap_or(20).clamp(0, 50) as usize * child_complexity + 1")]
    async fn vouchers(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "How many, 1 to 50; 20 by default.")] first: Option<i32>,
        #[graphql(desc = "The cursor of the last one before.")] after: Option<String>,
    ) -> Result<List<Voucher>> {
        let page: Page<VoucherId> =
            Page::new(ctx, format!("shop-vouchers:{}", self.0.id), first, after)?;
        let shop = ShopId(self.0.id);
        let found = ctx
            .services()
            .vouchers
            .of_shop(shop, page.after, page.load() as u64)
            .await
            .map_err(api_error)?;
        Ok(page.list(
            ctx,
            found.into_iter().map(Voucher).collect(),
            |v: &Voucher| VoucherId(v.0.id),
        ))
    }

    /// What guests say of it, newest first. `first` is 1 to 50, 20 by default.
    #[graphql(complexity = "first.unwrap_or(20).clamp(0, 50) as usize * child_complexity + 1")]
    async fn reviews(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "How many, 1 to 50; 20 by default.")] first: Option<i32>,
        #[graphql(desc = "The cursor of the last one before.")] after: Option<String>,
    ) -> Result<List<Review>> {
        reviews_of(ctx, ShopId(self.0.id), (first, after)).await
    }

    /// Grows with each change of the shop.
    async fn version(&self) -> String {
        self.0.version.to_string()
    }
}

/// Which shops to list.
#[derive(InputObject, Default)]
pub struct ShopFilterInput {
    /// Only shops of this type.
    type_id: Option<ID>,
    /// Only shops whose name contains this, whatever the case; 1 to 100 characters.
    name: Option<String>,
}

/// The order of a list of shops.
#[derive(Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "domain::shops::ShopSort")]
pub enum ShopSort {
    /// The latest first.
    Newest,
    /// The best rated first.
    Score,
    /// The most sold first.
    Sold,
    /// The cheapest first; those without a price last.
    Price,
}

/// What a search around a place adds to a shop.
#[derive(SimpleObject)]
pub struct NearbyFields {
    /// Metres from the middle of the search, along the ground of a sphere.
    distance_meters: f64,
}

/// Names of the connection of a search around a place.
pub struct NearbyNames;

impl ConnectionNameType for NearbyNames {
    fn type_name<T: OutputType>() -> String {
        "NearbyShopConnection".to_owned()
    }
}

impl EdgeNameType for NearbyNames {
    fn type_name<T: OutputType>() -> String {
        "NearbyShopEdge".to_owned()
    }
}

/// A page of a search around a place.
pub type NearbyShops = List<Shop, NearbyFields, NearbyNames, NearbyNames>;

/// Reading shops.
#[derive(Default)]
pub struct ShopQuery;

#[Object]
impl ShopQuery {
    /// All types of shops, in the order to show them.
    async fn shop_types(&self, ctx: &Context<'_>) -> Result<Vec<ShopType>> {
        let types = ctx.services().shops.types().await.map_err(api_error)?;
        note_missing_redis(ctx);
        Ok(types.into_iter().map(ShopType).collect())
    }

    /// A shop; null when there is none. A malformed id is BAD_INPUT. Another server's change may come up to 5 s late, unless
    /// `minVersion` asks for it: null with TRY_LATER and `retryAfterMs` when that version is not to be seen yet.
    async fn shop(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The shop.")] id: ID,
        #[graphql(desc = "The `version` that the answer must have at least.")] min_version: Option<
            String,
        >,
    ) -> Option<Result<Shop>> {
        let read = async {
            let id = ShopId(parse_id(&id, "Shop", "id")?);
            let min_version = parse_min_version(min_version.as_deref())?;
            let shops = &ctx.services().shops;
            shops.get(id, min_version).await.map_err(api_error)
        };
        let found = read.await.transpose();
        note_missing_redis(ctx);
        if let Some(Ok(shop)) = &found {
            visit_shop(ctx, shop.id);
        }
        Some(found?.map(Shop))
    }

    /// Shops that are in business. Another server's change may come up to 15 s late into a first page.
    #[graphql(
        complexity = "first.unwrap_or(20).clamp(0, 50) as usize * child_complexity + 1",
        guard = "Limited(&LISTS)"
    )]
    async fn shops(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Which; all by default.")] filter: Option<ShopFilterInput>,
        #[graphql(desc = "In which order; the newest first by default.")] sort: Option<ShopSort>,
        #[graphql(desc = "How many, 1 to 50; 20 by default.")] first: Option<i32>,
        #[graphql(desc = "The cursor of the last one before, of the same list.")] after: Option<
            String,
        >,
    ) -> Result<List<Shop>> {
        let filter = filter.unwrap_or_default();
        let type_id = filter
            .type_id
            .map(|id| parse_id(&id, "ShopType", "filter.typeId"))
            .transpose()?
            .map(ShopTypeId);
        if let Some(name) = &filter.name {
            check_name_part(name)?;
        }
        let mut sort: Sort = sort.map(Into::into).unwrap_or_default();
        if sort == Sort::Sold && is_off(ctx, Switch::ShopsBySales, "shops") {
            sort = Sort::Newest;
        }
        if filter.name.is_some() && is_off(ctx, Switch::ShopSearch, "shops") {
            return Ok(List::new(false, false));
        }
        let filter = ShopFilter {
            type_id,
            name_contains: filter.name,
        };
        let page: Page<ShopKey> =
            Page::new(ctx, format!("shops:{sort:?}:{filter:?}"), first, after)?;
        let found = ctx
            .services()
            .shops
            .list(&filter, sort, page.after, page.load() as u64)
            .await
            .map_err(api_error)?;
        note_missing_redis(ctx);
        Ok(
            page.list(ctx, found.into_iter().map(Shop).collect(), |s: &Shop| {
                sort.key(&s.0)
            }),
        )
    }

    /// Shops in business around a place, the nearest first.
    #[graphql(
        complexity = "first.unwrap_or(20).clamp(0, 50) as usize * child_complexity + 1",
        guard = "Limited(&LISTS)"
    )]
    async fn shops_nearby(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The middle.")] center: GeoPointInput,
        #[graphql(desc = "Metres around it, 1 to 50,000.", default = 5000)] radius_meters: i32,
        #[graphql(desc = "Only shops of this type.")] type_id: Option<ID>,
        #[graphql(desc = "How many, 1 to 50; 20 by default.")] first: Option<i32>,
        #[graphql(desc = "The cursor of the last one before, of the same search.")] after: Option<
            String,
        >,
    ) -> Result<NearbyShops> {
        let type_id = type_id
            .map(|id| parse_id(&id, "ShopType", "typeId"))
            .transpose()?
            .map(ShopTypeId);
        let place = GeoPoint::new(center.latitude, center.longitude).map_err(api_error)?;
        let radius_meters = u32::try_from(radius_meters).unwrap_or(0);
        if is_off(ctx, Switch::ShopsNearby, "shopsNearby") {
            return Ok(NearbyShops::new(false, false));
        }
        let kind = format!("nearby:{place:?}:{radius_meters}:{type_id:?}");
        // The distance goes as its bits: read back from digits it may be another number, and a shop would come twice.
        let page: Page<(u64, ShopId)> = Page::new(ctx, kind, first, after)?;
        let query = NearbyQuery {
            center: place,
            radius_meters,
            type_id,
            after: page.after.map(|(bits, id)| (f64::from_bits(bits), id)),
            limit: page.load(),
        };
        let found = ctx
            .services()
            .shops
            .nearby(query)
            .await
            .map_err(api_error)?;
        Ok(page.list_with(
            ctx,
            found,
            |near| (near.distance_meters.to_bits(), ShopId(near.shop.id)),
            |near| {
                (
                    Shop(near.shop),
                    NearbyFields {
                        distance_meters: near.distance_meters,
                    },
                )
            },
        ))
    }
}

/// A part of a name is a text like a name, but may be a blank.
fn check_name_part(name: &str) -> Result<()> {
    if name.is_empty() {
        let message = "a part of a name has 1 to 100 characters";
        return Err(crate::error::bad_input("filter.name", message));
    }
    check_text("filter.name", name, 0, 100).map_err(api_error)
}
