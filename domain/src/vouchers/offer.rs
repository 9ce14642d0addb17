//! What ordinary vouchers have in stock. Claiming them is in `orders`.

use entity::offer;
use entity::stock_entry::{self, StockReason};
use sea_orm::{
    ActiveValue::Set, ColumnTrait, DatabaseTransaction, DbErr, EntityTrait, IntoActiveModel,
    QueryFilter,
};

use super::{Error, NewOffer, TOTAL_MAX, Voucher, VoucherId, Vouchers};

/// What an ordinary voucher has in stock, as stored.
pub type Offer = offer::Model;

/// The largest limit of units that one user may hold of an ordinary voucher.
pub const OFFER_LIMIT_MAX: i32 = 10_000;
/// Ids in one question to the database.
const IDS_PER_READ: usize = 500;

impl Vouchers {
    /// What ordinary vouchers have in stock now, by voucher; those sold in a flash sale are left out.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn offers(&self, ids: &[VoucherId]) -> Result<Vec<Offer>, Error> {
        let mut offers = Vec::with_capacity(ids.len());
        for chunk in ids.chunks(IDS_PER_READ) {
            let found = offer::Entity::find()
                .filter(offer::Column::VoucherId.is_in(chunk.iter().map(|id| id.0)));
            let db = self.infra.db.clone();
            let read = async move { found.all(db.conn()).await };
            offers.extend(self.infra.db.run(read).await?);
        }
        Ok(offers)
    }
}

/// An entry of the books that says how an offer stands now, with nothing sold and its total new; 0 stands for a total
/// without an end.
pub(crate) fn offer_entry(
    offer: &Offer,
    reason: StockReason,
    now: i64,
) -> stock_entry::ActiveModel {
    let total = offer.total.unwrap_or(0);
    stock_entry::ActiveModel {
        voucher_id: Set(offer.voucher_id),
        order_id: Set(None),
        reason: Set(reason),
        sold_delta: Set(0),
        total_delta: Set(total),
        sold_before: Set(offer.sold),
        sold_after: Set(offer.sold),
        total_before: Set(0),
        total_after: Set(total),
        created_at: Set(now),
        ..Default::default()
    }
}

pub(super) fn new_offer(voucher: &Voucher, new: &NewOffer, now: i64) -> Offer {
    Offer {
        voucher_id: voucher.id,
        shop_id: voucher.shop_id,
        total: new.total,
        sold: 0,
        per_user_limit: new.per_user_limit,
        created_at: now,
    }
}

/// Writes an offer and opens its books.
pub(super) async fn write(txn: &DatabaseTransaction, offer: Offer) -> Result<(), DbErr> {
    let entry = offer_entry(&offer, StockReason::Open, offer.created_at);
    offer::Entity::insert(offer.into_active_model())
        .exec_without_returning(txn)
        .await?;
    stock_entry::Entity::insert(entry)
        .exec_without_returning(txn)
        .await
        .map(|_| ())
}

pub(super) fn check_offer(new: &NewOffer) -> Result<(), Error> {
    if new
        .total
        .is_some_and(|total| !(1..=TOTAL_MAX).contains(&total))
    {
        return Err(Error::BadInput {
            argument: "input.stock",
            reason: format!("the stock must be between 1 and {TOTAL_MAX}, or without an end"),
        });
    }
    let limits = 1..=OFFER_LIMIT_MAX;
    if new
        .per_user_limit
        .is_some_and(|limit| !limits.contains(&limit))
    {
        return Err(Error::BadInput {
            argument: "input.perUserLimit",
            reason: format!("the limit must be between 1 and {OFFER_LIMIT_MAX}, or none"),
        });
    }
    Ok(())
}
