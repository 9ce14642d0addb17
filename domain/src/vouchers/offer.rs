//! What ordinary vouchers have in stock. Claiming them is in `orders`.

use entity::offer;
use entity::stock_entry::{self, StockReason};
use sea_orm::sea_query::Expr;
use sea_orm::{
    ActiveValue::Set, ColumnTrait, DatabaseTransaction, DbErr, EntityTrait, IntoActiveModel,
    QueryFilter, QuerySelect,
};

use super::{Error, NewOffer, TOTAL_MAX, Voucher, VoucherId, Vouchers};
use crate::users::Session;

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

    /// Sets how many units of an ordinary voucher are for sale, those that are taken included; `None`: without an end.
    ///
    /// # Errors
    /// `NoSuchVoucher`, `Forbidden`; about `input.voucherId` when it is sold in a flash sale, about `input.total` when it
    /// is out of bounds or more units are taken. Nothing has changed then.
    pub async fn adjust_offer(
        &self,
        session: &Session,
        id: VoucherId,
        total: Option<i64>,
    ) -> Result<(), Error> {
        self.require_owner(session, id).await?;
        check_total("input.total", total)?;
        let now = self.infra.clock.now_ms();
        let adjusted = self.infra.db.write(move |txn| {
            Box::pin(async move {
                let offer = offer::Entity::find_by_id(id.0).lock_exclusive();
                let Some(before) = offer.one(txn).await? else {
                    return Ok(Err(Error::BadInput {
                        argument: "input.voucherId",
                        reason: "it is sold in a flash sale".to_owned(),
                    }));
                };
                if total.is_some_and(|total| total < before.sold) {
                    return Ok(Err(Error::BadInput {
                        argument: "input.total",
                        reason: format!("{} units are taken already", before.sold),
                    }));
                }
                set_total(txn, before, total, now).await.map(Ok)
            })
        });
        adjusted.await?
    }
}

/// Changes the total, in the offer's row and in the ledger.
async fn set_total(
    txn: &DatabaseTransaction,
    before: Offer,
    total: Option<i64>,
    now: i64,
) -> Result<(), DbErr> {
    let (old, new) = (before.total.unwrap_or(0), total.unwrap_or(0));
    offer::Entity::update_many()
        .col_expr(offer::Column::Total, Expr::value(total))
        .filter(offer::Column::VoucherId.eq(before.voucher_id))
        .exec(txn)
        .await?;
    let entry = stock_entry::ActiveModel {
        total_before: Set(old),
        total_delta: Set(new - old),
        ..offer_entry(&Offer { total, ..before }, StockReason::Adjust, now)
    };
    stock_entry::Entity::insert(entry)
        .exec_without_returning(txn)
        .await
        .map(|_| ())
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

fn check_total(argument: &'static str, total: Option<i64>) -> Result<(), Error> {
    match total {
        Some(total) if !(1..=TOTAL_MAX).contains(&total) => Err(Error::BadInput {
            argument,
            reason: format!("the stock must be between 1 and {TOTAL_MAX}, or without an end"),
        }),
        _ => Ok(()),
    }
}

pub(super) fn check_offer(new: &NewOffer) -> Result<(), Error> {
    check_total("input.stock", new.total)?;
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
