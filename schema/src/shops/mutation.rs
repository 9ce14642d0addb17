//! What merchants do with their shops.

use async_graphql::{Context, ID, InputObject, Object, Result, SimpleObject};
use domain::shops::{AveragePrice, GeoPoint, ShopDetails, ShopId, ShopTypeId};

use super::{GeoPointInput, Shop};
use crate::context::ContextExt;
use crate::error::api_error;
use crate::limits::{Limited, MERCHANT_WRITES};
use crate::scalars::{MoneyInput, parse_id};
use crate::uploads::image_ids;

/// A shop to open.
#[derive(InputObject)]
pub struct CreateShopInput {
    /// Its name, 1 to 255 characters.
    name: String,
    /// Its type.
    type_id: ID,
    /// Where it is.
    location: GeoPointInput,
    /// Street address, at most 255 characters.
    address: Option<String>,
    /// Quarter of the city, at most 128 characters.
    area: Option<String>,
    /// Opening hours in words, at most 255 characters.
    open_hours: Option<String>,
    /// What a person spends there on average.
    average_price: Option<MoneyInput>,
    /// Its pictures, at most 9 of the viewer's own, each once; see `Image`.
    #[graphql(default)]
    image_ids: Vec<ID>,
}

/// A shop as it is to be; what is left out becomes unknown.
#[derive(InputObject)]
pub struct UpdateShopInput {
    /// The shop.
    shop_id: ID,
    /// Its name, 1 to 255 characters.
    name: String,
    /// Its type.
    type_id: ID,
    /// Where it is.
    location: GeoPointInput,
    /// Street address, at most 255 characters.
    address: Option<String>,
    /// Quarter of the city, at most 128 characters.
    area: Option<String>,
    /// Opening hours in words, at most 255 characters.
    open_hours: Option<String>,
    /// What a person spends there on average.
    average_price: Option<MoneyInput>,
    /// Its pictures, at most 9, each once: those it has, and others of the viewer's own. Left out, they stay as they are.
    image_ids: Option<Vec<ID>>,
}

/// A shop to close.
#[derive(InputObject)]
pub struct CloseShopInput {
    /// The shop.
    shop_id: ID,
}

/// A shop that was opened.
#[derive(SimpleObject)]
pub struct CreateShopPayload {
    /// The shop as it is now.
    shop: Shop,
}

/// A shop that was changed.
#[derive(SimpleObject)]
pub struct UpdateShopPayload {
    /// The shop as it is now.
    shop: Shop,
}

/// A shop that was closed.
#[derive(SimpleObject)]
pub struct CloseShopPayload {
    /// The shop as it is now.
    shop: Shop,
}

/// Running shops.
#[derive(Default)]
pub struct ShopMutation;

#[Object]
impl ShopMutation {
    /// Opens a shop that the viewer runs. Merchants and administrators.
    #[graphql(guard = "Limited(&MERCHANT_WRITES)")]
    async fn create_shop(
        &self,
        ctx: &Context<'_>,
        input: CreateShopInput,
    ) -> Result<CreateShopPayload> {
        let session = ctx.require_viewer()?;
        let details = ShopDetails {
            name: input.name,
            type_id: ShopTypeId(parse_id(&input.type_id, "ShopType", "input.typeId")?),
            location: place(&input.location)?,
            address: input.address,
            area: input.area,
            open_hours: input.open_hours,
            average_price: input.average_price.as_ref().map(average).transpose()?,
            image_ids: Some(image_ids(&input.image_ids)?),
        };
        let shop = ctx
            .services()
            .shops
            .create(session, details)
            .await
            .map_err(api_error)?;
        Ok(CreateShopPayload { shop: Shop(shop) })
    }

    /// Changes a shop, also its place and its type. Its merchant, and administrators.
    #[graphql(guard = "Limited(&MERCHANT_WRITES)")]
    async fn update_shop(
        &self,
        ctx: &Context<'_>,
        input: UpdateShopInput,
    ) -> Result<UpdateShopPayload> {
        let session = ctx.require_viewer()?;
        let shop = ShopId(parse_id(&input.shop_id, "Shop", "input.shopId")?);
        let details = ShopDetails {
            name: input.name,
            type_id: ShopTypeId(parse_id(&input.type_id, "ShopType", "input.typeId")?),
            location: place(&input.location)?,
            address: input.address,
            area: input.area,
            open_hours: input.open_hours,
            average_price: input.average_price.as_ref().map(average).transpose()?,
            image_ids: input.image_ids.as_deref().map(image_ids).transpose()?,
        };
        let shop = ctx
            .services()
            .shops
            .update(session, shop, details)
            .await
            .map_err(api_error)?;
        Ok(UpdateShopPayload { shop: Shop(shop) })
    }

    /// Closes a shop for good: it leaves all lists and searches. Its merchant, and administrators.
    #[graphql(guard = "Limited(&MERCHANT_WRITES)")]
    async fn close_shop(
        &self,
        ctx: &Context<'_>,
        input: CloseShopInput,
    ) -> Result<CloseShopPayload> {
        let session = ctx.require_viewer()?;
        let shop = ShopId(parse_id(&input.shop_id, "Shop", "input.shopId")?);
        let shop = ctx
            .services()
            .shops
            .close(session, shop)
            .await
            .map_err(api_error)?;
        Ok(CloseShopPayload { shop: Shop(shop) })
    }
}

fn average(input: &MoneyInput) -> Result<AveragePrice> {
    let price = input.read("input.averagePrice")?;
    Ok(AveragePrice {
        minor: price.minor,
        currency: price.currency.to_string(),
    })
}

fn place(input: &GeoPointInput) -> Result<GeoPoint> {
    GeoPoint::new(input.latitude, input.longitude)
        .map_err(|e| crate::error::bad_input("input.location", e.to_string()))
}
