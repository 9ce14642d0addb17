//! Vouchers and the windows of their sales as everybody sees them, from the cache. Neither stock nor anything that
//! sells comes from here.

use entity::sale::SaleStage;
use entity::{sale, voucher};
use sea_orm::{DbErr, EntityTrait};
use serde::{Deserialize, Serialize};

use super::{Error, Sale, Voucher, VoucherId, Vouchers, runs};
use crate::infra::cache::Kind;
use crate::shops::Shop;
use crate::users::Session;

/// A voucher by its id.
#[derive(Clone, Copy)]
pub(super) struct VoucherById;

impl Kind for VoucherById {
    type Key = VoucherId;
    type Value = Voucher;
    const NAME: &'static str = "voucher";

    fn number(id: &VoucherId) -> Option<i64> {
        Some(id.0)
    }
}

/// The card of a sale by its voucher.
#[derive(Clone, Copy)]
pub(crate) struct SaleByVoucher;

impl Kind for SaleByVoucher {
    type Key = VoucherId;
    type Value = SaleCard;
    const NAME: &'static str = "sale";
    /// 2: the shop, and whether it is a draft.
    const FORMAT: u32 = 2;

    fn number(id: &VoucherId) -> Option<i64> {
        Some(id.0)
    }
}

/// A flash sale as its page shows it before anybody asks for its stock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SaleCard {
    /// The voucher.
    pub voucher_id: i64,
    /// Its shop.
    pub shop_id: i64,
    /// Whether it is not published: only those who run the shop know of it.
    pub is_draft: bool,
    /// First millisecond of the window.
    pub begin_ms: i64,
    /// First millisecond after it.
    pub end_ms: i64,
    /// Units for sale, sold ones included.
    pub total: i64,
    /// Units one user may hold.
    pub per_user_limit: i32,
    /// Orders one user may place, closed ones included.
    pub max_attempts: i32,
    /// Grows with each change of the sale by its merchant, its opening and its end.
    pub version: i64,
}

impl SaleCard {
    /// Whether somebody may know of the voucher: a draft is for those alone who run its shop.
    pub fn is_shown_to(&self, viewer: Option<&Session>, shop: Option<&Shop>) -> bool {
        !self.is_draft || viewer.is_some_and(|v| runs(v, shop.and_then(|s| s.owner_id)))
    }
}

impl From<&Sale> for SaleCard {
    fn from(sale: &Sale) -> Self {
        Self {
            voucher_id: sale.voucher_id,
            shop_id: sale.shop_id,
            is_draft: sale.stage == SaleStage::Draft,
            begin_ms: sale.begin_ms,
            end_ms: sale.end_ms,
            total: sale.total,
            per_user_limit: sale.per_user_limit,
            max_attempts: sale.max_attempts,
            version: sale.version,
        }
    }
}

impl Vouchers {
    /// A voucher, `None` when there is none. At least as new as `min_version`, 0 for whatever is there: other nodes'
    /// changes may be 5 s old then.
    ///
    /// # Errors
    /// `TryLater` when `min_version` is not to be seen yet; trouble of the database.
    pub async fn get(&self, id: VoucherId, min_version: i64) -> Result<Option<Voucher>, Error> {
        let vouchers = self.clone();
        let load = move || {
            let vouchers = vouchers.clone();
            async move { vouchers.read(id).await }
        };
        let cache = &self.infra.cache;
        let found = cache.get_or_load(VoucherById, &id, min_version, load);
        Ok(found.await?.as_deref().cloned())
    }

    /// Vouchers to show, by id; those that are missing are left out.
    ///
    /// # Errors
    /// As `get`.
    pub async fn shown(&self, ids: &[VoucherId]) -> Result<Vec<Voucher>, Error> {
        let vouchers = self.clone();
        let load = move |id| {
            let vouchers = vouchers.clone();
            async move { vouchers.read(id).await }
        };
        let cache = &self.infra.cache;
        let found = cache.get_or_load_each(VoucherById, ids, load).await?;
        Ok(found.iter().map(|row| Voucher::clone(row)).collect())
    }

    /// Cards of flash sales to show, by voucher; vouchers that are not sold in one are left out.
    ///
    /// # Errors
    /// As `get`.
    pub async fn sale_cards(&self, ids: &[VoucherId]) -> Result<Vec<SaleCard>, Error> {
        let vouchers = self.clone();
        let load = move |id| {
            let vouchers = vouchers.clone();
            async move { vouchers.read_sale(id).await }
        };
        let cache = &self.infra.cache;
        let found = cache.get_or_load_each(SaleByVoucher, ids, load).await?;
        Ok(found.iter().map(|card| SaleCard::clone(card)).collect())
    }

    async fn read(&self, id: VoucherId) -> Result<Option<(i64, Voucher)>, DbErr> {
        let row = voucher::Entity::find_by_id(id.0);
        let row = row.one(self.infra.db.conn()).await?;
        Ok(row.map(|row| (row.version, row)))
    }

    async fn read_sale(&self, id: VoucherId) -> Result<Option<(i64, SaleCard)>, DbErr> {
        let row = sale::Entity::find_by_id(id.0);
        let row = row.one(self.infra.db.conn()).await?;
        Ok(row.map(|row| (row.version, SaleCard::from(&row))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::infra::cache::assert_golden;

    #[test]
    fn what_is_kept_of_vouchers_and_sales_is_read_by_the_next_version() {
        assert_golden::<VoucherById>(
            r#"{"format":1,"value":{"id":7,"shop_id":1,"kind":"SECKILL","title":"Lunch","sub_title":null,"rules":"One each","price_minor":990,"value_minor":2000,"currency":"CNY","status":"ACTIVE","created_at":1,"updated_at":2,"version":3}}"#,
        );
        assert_golden::<SaleByVoucher>(
            r#"{"format":2,"value":{"voucher_id":7,"shop_id":1,"is_draft":false,"begin_ms":10,"end_ms":20,"total":5,"per_user_limit":1,"max_attempts":3,"version":2}}"#,
        );
    }
}
