//! One question to the database for many things of one request.

use std::collections::HashMap;
use std::sync::Arc;

use async_graphql::Context;
use async_graphql::dataloader::{DataLoader, Loader};
use domain::Services;
use domain::shops::{Shop, ShopId, ShopType, ShopTypeId};
use domain::uploads::{Image, ImageId};
use domain::users::{UserCard, UserId};
use domain::vouchers::{SaleCard, Voucher, VoucherId};

/// Loads things by id.
pub(crate) struct ById {
    services: Services,
}

impl ById {
    /// A loader that asks once for what one moment wants.
    pub(crate) fn new(services: Services) -> DataLoader<Self> {
        DataLoader::new(Self { services }, tokio::spawn)
    }
}

/// The loader of the schema.
pub(crate) fn by_id<'a>(ctx: &Context<'a>) -> &'a DataLoader<ById> {
    ctx.data_unchecked::<DataLoader<ById>>()
}

/// The sale of a voucher, as a key of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SaleOf(pub(crate) VoucherId);

impl Loader<ShopId> for ById {
    type Value = Shop;
    type Error = Arc<domain::shops::Error>;

    async fn load(&self, keys: &[ShopId]) -> Result<HashMap<ShopId, Shop>, Self::Error> {
        let shops = self.services.shops.shown(keys).await.map_err(Arc::new)?;
        Ok(shops.into_iter().map(|s| (ShopId(s.id), s)).collect())
    }
}

impl Loader<ShopTypeId> for ById {
    type Value = ShopType;
    type Error = Arc<domain::shops::Error>;

    async fn load(&self, _: &[ShopTypeId]) -> Result<HashMap<ShopTypeId, ShopType>, Self::Error> {
        // They are few: all of them cost no more than some.
        let types = self.services.shops.types().await.map_err(Arc::new)?;
        Ok(types.into_iter().map(|t| (ShopTypeId(t.id), t)).collect())
    }
}

impl Loader<UserId> for ById {
    type Value = UserCard;
    type Error = Arc<domain::users::Error>;

    async fn load(&self, keys: &[UserId]) -> Result<HashMap<UserId, UserCard>, Self::Error> {
        let users = self.services.users.cards(keys).await.map_err(Arc::new)?;
        Ok(users.into_iter().map(|u| (UserId(u.id), u)).collect())
    }
}

impl Loader<ImageId> for ById {
    type Value = Image;
    type Error = Arc<domain::uploads::Error>;

    async fn load(&self, keys: &[ImageId]) -> Result<HashMap<ImageId, Image>, Self::Error> {
        let images = self.services.uploads.get_many(keys).await;
        let images = images.map_err(Arc::new)?;
        Ok(images.into_iter().map(|i| (ImageId(i.id), i)).collect())
    }
}

impl Loader<VoucherId> for ById {
    type Value = Voucher;
    type Error = Arc<domain::vouchers::Error>;

    async fn load(&self, keys: &[VoucherId]) -> Result<HashMap<VoucherId, Voucher>, Self::Error> {
        let vouchers = self.services.vouchers.shown(keys).await;
        let vouchers = vouchers.map_err(Arc::new)?;
        Ok(vouchers.into_iter().map(|v| (VoucherId(v.id), v)).collect())
    }
}

impl Loader<SaleOf> for ById {
    type Value = SaleCard;
    type Error = Arc<domain::vouchers::Error>;

    async fn load(&self, keys: &[SaleOf]) -> Result<HashMap<SaleOf, SaleCard>, Self::Error> {
        let ids: Vec<VoucherId> = keys.iter().map(|k| k.0).collect();
        let sales = self.services.vouchers.sale_cards(&ids).await;
        let sales = sales.map_err(Arc::new)?;
        Ok(sales
            .into_iter()
            .map(|s| (SaleOf(VoucherId(s.voucher_id)), s))
            .collect())
    }
}
