//! First pages of the lists of flash sales, from the cache: everybody asks for them at the moment a sale opens. Which
//! sales and when they begin is kept; what is shown of each comes from its own entry, and its stock from elsewhere.
//!
//! What is promised: what a merchant does to a sale is in the lists at once on the node that wrote, on others by the
//! broadcast. What the clock does, a sale that opens or ends, is there within 2 s.

use std::time::Duration;

use futures_util::future::join_all;
use serde::{Deserialize, Serialize};

use super::{Error, FlashSaleFilter, SaleState, VoucherId, Vouchers};
use crate::infra::cache::{Kind, Versions};

/// Sales of a page that is kept; one more tells whether others follow.
const PAGE: u64 = 20;
/// How late an entry may be at each of two tiers.
const LIFE: Duration = Duration::from_secs(1);
/// Drafts are for their merchants alone: no list of them is kept.
const STATES: [(Option<SaleState>, &str); 6] = [
    (None, "all"),
    (Some(SaleState::Announced), "announced"),
    (Some(SaleState::Running), "running"),
    (Some(SaleState::Paused), "paused"),
    (Some(SaleState::Ended), "ended"),
    (Some(SaleState::Settled), "settled"),
];

/// Sales of a first page, by state, in their order.
#[derive(Clone, Copy)]
struct FirstPage;

impl Kind for FirstPage {
    type Key = &'static str;
    type Value = Vec<ListedSale>;
    const NAME: &'static str = "sale_page";
    const VERSIONS: Versions = Versions::OfInvalidations;
    const LOCAL_LIFE: Duration = LIFE;
    const REDIS_LIFE: Duration = LIFE;
}

/// A sale in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedSale {
    /// The voucher that is sold.
    pub voucher_id: VoucherId,
    /// First millisecond of its window.
    pub begin_ms: i64,
}

impl Vouchers {
    /// As `flash_sales`, no more of each than its place in the list. A first page of at most 20 of all shops comes from
    /// the cache and may be 2 s behind the clock.
    ///
    /// # Errors
    /// When the database fails; `Cache` when somebody else loads and takes long.
    pub async fn listed_sales(
        &self,
        filter: FlashSaleFilter,
        after: Option<(i64, VoucherId)>,
        limit: u64,
    ) -> Result<Vec<ListedSale>, Error> {
        let kept = STATES.iter().find(|(state, _)| *state == filter.state);
        let is_first = after.is_none() && filter.shop_id.is_none() && limit <= PAGE + 1;
        match kept.filter(|_| is_first) {
            Some((_, key)) => self.first_sales(key, filter, limit).await,
            None => self.read_listed(filter, after, limit).await,
        }
    }

    async fn first_sales(
        &self,
        key: &'static str,
        filter: FlashSaleFilter,
        limit: u64,
    ) -> Result<Vec<ListedSale>, Error> {
        let vouchers = self.clone();
        let load = move || {
            let vouchers = vouchers.clone();
            async move {
                let sales = vouchers.read_sales(filter, None, PAGE + 1).await?;
                Ok(Some((0, sales.iter().map(ListedSale::from).collect())))
            }
        };
        let cache = &self.infra.cache;
        let kept = cache.get_or_load(FirstPage, &key, 0, load).await?;
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Ok(kept
            .iter()
            .flat_map(|page| page.iter().copied())
            .take(limit)
            .collect())
    }

    async fn read_listed(
        &self,
        filter: FlashSaleFilter,
        after: Option<(i64, VoucherId)>,
        limit: u64,
    ) -> Result<Vec<ListedSale>, Error> {
        let sales = self.flash_sales(filter, after, limit).await?;
        Ok(sales.iter().map(ListedSale::from).collect())
    }

    /// Drops the first pages; called once a change of a sale is committed.
    pub(crate) async fn drop_first_pages(&self) {
        let cache = &self.infra.cache;
        let drops =
            STATES.map(|(_, key)| async move { cache.invalidate(FirstPage, &key, 0).await });
        join_all(drops).await;
    }
}

impl From<&super::Sale> for ListedSale {
    fn from(sale: &super::Sale) -> Self {
        Self {
            voucher_id: VoucherId(sale.voucher_id),
            begin_ms: sale.begin_ms,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::infra::cache::assert_golden;

    #[test]
    fn what_is_kept_of_a_page_is_read_by_the_next_version() {
        assert_golden::<FirstPage>(r#"{"format":1,"value":[{"voucher_id":"7","begin_ms":10}]}"#);
    }
}
