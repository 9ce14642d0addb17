//! Shops and their types as everybody sees them, from the cache. What decides, such as who owns a shop, reads the
//! database by `Shops::load`.

use std::time::Duration;

use entity::{shop, shop_type};
use sea_orm::{EntityTrait, QueryOrder};

use super::{Error, Shop, ShopId, ShopType, Shops};
use crate::infra::cache::{Kind, Policy};

/// A shop by its id.
#[derive(Clone, Copy)]
pub(super) struct ShopById;

impl Kind for ShopById {
    type Key = ShopId;
    type Value = Shop;
    const NAME: &'static str = "shop";

    fn number(id: &ShopId) -> Option<i64> {
        Some(id.0)
    }
}

/// All types of shops, under the one key `all`. Types are only added or changed, so the sum of their versions grows
/// with every change.
#[derive(Clone, Copy)]
pub(super) struct AllTypes;

impl AllTypes {
    pub(super) const KEY: &'static str = "all";
}

impl Kind for AllTypes {
    type Key = &'static str;
    type Value = Vec<ShopType>;
    const NAME: &'static str = "shop_types";
    const POLICY: Policy = Policy::LogicalExpiry {
        stale_for: Duration::from_secs(60 * 60),
    };
}

impl Shops {
    /// A shop, `None` when there is none; closed ones too. At least as new as `min_version`, 0 for whatever is there:
    /// other nodes' changes may be 5 s old then.
    ///
    /// # Errors
    /// `TryLater` when `min_version` is not to be seen yet; trouble of the database.
    pub async fn get(&self, id: ShopId, min_version: i64) -> Result<Option<Shop>, Error> {
        let shops = self.clone();
        let load = move || {
            let shops = shops.clone();
            async move { shops.read(id).await }
        };
        let cache = &self.infra.cache;
        let found = cache.get_or_load(ShopById, &id, min_version, load).await?;
        Ok(found.as_deref().cloned())
    }

    /// Shops to show, by id; those that are missing are left out.
    ///
    /// # Errors
    /// As `get`.
    pub async fn shown(&self, ids: &[ShopId]) -> Result<Vec<Shop>, Error> {
        let shops = self.clone();
        let load = move |id| {
            let shops = shops.clone();
            async move { shops.read(id).await }
        };
        let found = self
            .infra
            .cache
            .get_or_load_each(ShopById, ids, load)
            .await?;
        Ok(found.iter().map(|shop| Shop::clone(shop)).collect())
    }

    /// All types, in their order.
    ///
    /// # Errors
    /// Trouble of the database.
    pub async fn types(&self) -> Result<Vec<ShopType>, Error> {
        let shops = self.clone();
        let load = move || {
            let shops = shops.clone();
            async move {
                let types = shops.load_types().await?;
                Ok(Some((types.iter().map(|t| t.version).sum(), types)))
            }
        };
        let cache = &self.infra.cache;
        let found = cache.get_or_load(AllTypes, &AllTypes::KEY, 0, load).await?;
        Ok(found.as_deref().cloned().unwrap_or_default())
    }

    pub(super) async fn load_types(&self) -> Result<Vec<ShopType>, sea_orm::DbErr> {
        let types = shop_type::Entity::find()
            .order_by_asc(shop_type::Column::Sort)
            .order_by_asc(shop_type::Column::Id);
        types.all(self.infra.db.conn()).await
    }

    async fn read(&self, id: ShopId) -> Result<Option<(i64, Shop)>, sea_orm::DbErr> {
        let row = shop::Entity::find_by_id(id.0);
        let row = row.one(self.infra.db.conn()).await?;
        Ok(row.map(|row| (row.version, row)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::infra::cache::assert_golden;

    #[test]
    fn what_is_kept_of_shops_and_types_is_read_by_the_next_version() {
        assert_golden::<ShopById>(
            r#"{"format":1,"value":{"id":7,"type_id":1,"owner_id":null,"name":"Phở","images":"[]","area":null,"address":"1 Lake","latitude":21.0287,"longitude":105.8524,"average_price_minor":1500,"currency":"VND","sold_count":2,"comment_count":3,"score_tenths":45,"open_hours":null,"source":"osm:node/1","status":"OPEN","created_at":1,"updated_at":2,"version":4}}"#,
        );
        assert_golden::<AllTypes>(
            r#"{"format":1,"value":[{"id":1,"code":"noodles","name":"Noodles","sort":1,"created_at":0,"version":1}]}"#,
        );
    }
}
