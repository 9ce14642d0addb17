//! First pages of lists of shops, from the cache: what everybody asks for first. Which shops and in which order is kept,
//! not the shops: those come from their own entries, so that a list never shows a row older than the shop's page does.
//!
//! What is promised: a shop that is opened, closed, retyped or priced is in its lists at once on the node that wrote,
//! on others by the broadcast, and everywhere within 15 s. What moves a shop without going through `Shops` (its score,
//! its sales) moves it in these lists as late.

use std::cmp::Reverse;
use std::fmt;
use std::time::Duration;

use entity::shop::{self, Column, ShopStatus};
use futures_util::future::join_all;
use sea_orm::{DbErr, QuerySelect};

use super::list::ShopFilter;
use super::{Error, Shop, ShopId, ShopSort, ShopTypeId, Shops};
use crate::infra::cache::{Kind, Policy, Versions};

/// Shops of a page that is kept; one more tells whether others follow.
const PAGE: u64 = 20;
const ORDERS: [ShopSort; 4] = [
    ShopSort::Newest,
    ShopSort::Score,
    ShopSort::Sold,
    ShopSort::Price,
];

/// Ids of a first page, in their order.
#[derive(Clone, Copy)]
struct FirstPage;

impl Kind for FirstPage {
    type Key = PageKey;
    type Value = Vec<ShopId>;
    const NAME: &'static str = "shop_page";
    const POLICY: Policy = Policy::LogicalExpiry {
        stale_for: Duration::from_secs(5),
    };
    const VERSIONS: Versions = Versions::OfInvalidations;
    const REDIS_LIFE: Duration = Duration::from_secs(5);
}

#[derive(Clone, Copy)]
struct PageKey {
    type_id: Option<ShopTypeId>,
    sort: ShopSort,
}

impl fmt::Display for PageKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = match self.sort {
            ShopSort::Newest => "newest",
            ShopSort::Score => "score",
            ShopSort::Sold => "sold",
            ShopSort::Price => "price",
        };
        match self.type_id {
            Some(id) => write!(f, "{id}-{order}"),
            None => write!(f, "all-{order}"),
        }
    }
}

impl Shops {
    /// The first page of a list by type and order; `None` when what is kept does not do, and the database must be asked.
    pub(super) async fn first_page(
        &self,
        filter: &ShopFilter,
        sort: ShopSort,
        limit: u64,
    ) -> Result<Option<Vec<Shop>>, Error> {
        if filter.name_contains.is_some() || limit > PAGE + 1 {
            return Ok(None);
        }
        let key = PageKey {
            type_id: filter.type_id,
            sort,
        };
        let shops = self.clone();
        let load = move || {
            let shops = shops.clone();
            async move { Ok(Some((0, shops.read_first_page(key).await?))) }
        };
        let cache = &self.infra.cache;
        let kept = cache.get_or_load(FirstPage, &key, 0, load).await?;
        let ids: Vec<ShopId> = kept.iter().flat_map(|ids| ids.iter().copied()).collect();
        let is_cut = ids.len() as u64 > limit;
        let ids = &ids[..ids.len().min(usize::try_from(limit).unwrap_or(usize::MAX))];
        let mut found = self.shown(ids).await?;
        let belongs = |shop: &Shop| {
            shop.status == ShopStatus::Open && filter.type_id.is_none_or(|id| shop.type_id == id.0)
        };
        if found.len() < ids.len() || !found.iter().all(belongs) {
            return Ok(None);
        }
        // By what they are now: the cursor of the last one is made of it.
        let before: Vec<_> = found.iter().map(|shop| sort.key(shop)).collect();
        match sort {
            ShopSort::Price => found.sort_by_key(|shop| (sort.key(shop).value, shop.id)),
            _ => found.sort_by_key(|shop| Reverse((sort.key(shop).value, shop.id))),
        }
        let is_moved = found.iter().map(|shop| sort.key(shop)).ne(before);
        Ok((!is_moved || !is_cut).then_some(found))
    }

    async fn read_first_page(&self, key: PageKey) -> Result<Vec<ShopId>, DbErr> {
        let filter = ShopFilter {
            type_id: key.type_id,
            name_contains: None,
        };
        let page = self.ordered(&filter, key.sort, None, PAGE + 1);
        let ids = page.select_only().column(Column::Id).into_tuple::<i64>();
        let ids = ids.all(self.infra.db.conn()).await?;
        Ok(ids.into_iter().map(ShopId).collect())
    }

    /// Drops the first pages that a change of shops of these types may have changed.
    pub(super) async fn drop_first_pages(&self, types: impl IntoIterator<Item = i64>) {
        let mut type_ids: Vec<_> = types.into_iter().map(|id| Some(ShopTypeId(id))).collect();
        type_ids.push(None);
        type_ids.sort();
        type_ids.dedup();
        let cache = &self.infra.cache;
        let keys = type_ids
            .into_iter()
            .flat_map(|type_id| ORDERS.map(|sort| PageKey { type_id, sort }));
        let drops = keys.map(|key| async move { cache.invalidate(FirstPage, &key, 0).await });
        join_all(drops).await;
    }

    /// Whether a change moves a shop into, out of or within lists.
    pub(super) fn moves_in_lists(before: &Shop, after: &Shop) -> bool {
        let place = |shop: &shop::Model| {
            let keys = ORDERS.map(|sort| sort.key(shop));
            (shop.type_id, shop.status == ShopStatus::Open, keys)
        };
        place(before) != place(after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::infra::cache::assert_golden;

    #[test]
    fn what_is_kept_of_a_page_is_read_by_the_next_version() {
        assert_golden::<FirstPage>(r#"{"format":1,"value":["9","7"]}"#);
        let key = |type_id, sort| PageKey { type_id, sort }.to_string();
        assert_eq!(key(None, ShopSort::Newest), "all-newest");
        assert_eq!(key(Some(ShopTypeId(3)), ShopSort::Price), "3-price");
    }
}
