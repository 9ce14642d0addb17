//! Vouchers as their merchants describe them, and the window of a flash sale. Selling them is in `orders`.

mod cached;
mod first_page;
mod money;
mod offer;
mod sale;

use entity::sale::SaleStage;
use entity::voucher::{self, VoucherKind, VoucherStatus};
use sea_orm::{
    ColumnTrait, DbErr, EntityTrait, IntoActiveModel, QueryFilter, QueryOrder, QuerySelect,
};

use crate::define_id;
use crate::infra::Infra;
use crate::infra::cache;
use crate::infra::fault::{Fault, Faulty, database_fault};
use crate::infra::ids::IdsError;
use crate::infra::text::{TextError, check_text};
use crate::shops::{self, ShopId, Shops};
use crate::users::{Role, Session};
use cached::VoucherById;

pub(crate) use cached::SaleByVoucher;
pub use cached::SaleCard;
pub use entity::voucher::VoucherKind as Kind;
pub use first_page::ListedSale;
pub use money::{Currency, Money};
pub(crate) use offer::offer_entry;
pub use offer::{OFFER_LIMIT_MAX, Offer};
pub use sale::{FlashSaleFilter, SaleState, state};

define_id!(
    /// The number of a voucher.
    VoucherId
);

/// A voucher as stored.
pub type Voucher = voucher::Model;
/// A flash sale as stored; `state` tells where it stands.
pub type Sale = entity::sale::Model;

/// The most units of one sale.
pub const TOTAL_MAX: i64 = 1_000_000;
/// The most units of one sale that a user may hold.
pub const LIMIT_MAX: i32 = 10;
/// Orders a user may place in one sale, unless the merchant or the limit says more.
pub const ATTEMPTS: i32 = 3;
/// The most orders of one user in one sale that a merchant may allow.
pub const ATTEMPTS_MAX: i32 = 100;
/// The largest price or value, in minor units.
pub const AMOUNT_MAX: i64 = 1_000_000_000_000;

/// What goes wrong with vouchers.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No such voucher.
    #[error("no such voucher")]
    NoSuchVoucher,
    /// No such shop.
    #[error("no such shop")]
    NoSuchShop,
    /// The viewer does not run the shop.
    #[error("only the shop's owner or an administrator may do this")]
    Forbidden,
    /// A currency that is not taken.
    #[error("this currency is not taken")]
    BadCurrency,
    /// An amount that is none.
    #[error("an amount is digits, with a point before the minor unit")]
    BadAmount,
    /// An argument out of bounds.
    #[error("{reason}")]
    BadInput {
        /// Its path.
        argument: &'static str,
        /// What it must be.
        reason: String,
    },
    /// A text that is not taken.
    #[error(transparent)]
    Text(#[from] TextError),
    /// No id could be made.
    #[error(transparent)]
    Ids(#[from] IdsError),
    /// The shops' own trouble.
    #[error(transparent)]
    Shops(#[from] crate::shops::Error),
    /// The cache's own.
    #[error(transparent)]
    Cache(#[from] cache::Error),
    /// The database's own.
    #[error("the database failed: {0}")]
    Database(#[from] DbErr),
}

impl Faulty for Error {
    fn fault(&self) -> Fault {
        match self {
            Self::NoSuchVoucher | Self::NoSuchShop => Fault::NotFound,
            Self::Forbidden => Fault::Forbidden,
            Self::BadCurrency => Fault::BadInput {
                argument: "input.currencyCode",
            },
            Self::BadAmount => Fault::BadInput {
                argument: "input.payPrice",
            },
            Self::BadInput { argument, .. } => Fault::BadInput { argument },
            Self::Text(e) => e.fault(),
            Self::Ids(_) => Fault::Unavailable,
            Self::Shops(e) => e.fault(),
            Self::Cache(e) => e.fault(),
            Self::Database(e) => database_fault(e),
        }
    }
}

/// A voucher to make.
#[derive(Clone, Debug)]
pub struct NewVoucher {
    /// Its shop.
    pub shop_id: ShopId,
    /// How it is sold.
    pub kind: Kind,
    /// Title, 1 to 128 characters.
    pub title: String,
    /// Second line, at most 255 characters.
    pub sub_title: Option<String>,
    /// Terms of use, at most 2,000 characters.
    pub rules: Option<String>,
    /// What the buyer pays.
    pub price: Money,
    /// What it is worth in the shop, at least the price and in its currency.
    pub value: Money,
    /// The flash sale; there if and only if the kind is `Seckill`.
    pub sale: Option<NewSale>,
    /// What an ordinary one has in stock; without limits, and for a flash sale nothing.
    pub offer: NewOffer,
}

/// What an ordinary voucher has in stock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NewOffer {
    /// Units, 1 to 1,000,000; `None` when there is no end of them.
    pub total: Option<i64>,
    /// Units one user may hold, 1 to 10,000; `None` for any number.
    pub per_user_limit: Option<i32>,
}

/// A flash sale to make.
#[derive(Clone, Copy, Debug)]
pub struct NewSale {
    /// First millisecond of the window.
    pub begin_ms: i64,
    /// First millisecond after it, in the future.
    pub end_ms: i64,
    /// Units, 1 to 1,000,000.
    pub total: i64,
    /// Units one user may hold, 1 to 10.
    pub per_user_limit: i32,
    /// Orders one user may place, closed ones included; `None`: 3, or the limit if that is more.
    pub max_attempts: Option<i32>,
}

/// Vouchers. Cheap to clone.
#[derive(Clone)]
pub struct Vouchers {
    infra: Infra,
    shops: Shops,
}

impl Vouchers {
    /// Makes the concept.
    pub fn new(infra: Infra, shops: Shops) -> Self {
        let vouchers = infra.id_column(voucher::Entity, voucher::Column::Id);
        infra.cache.know_ids(VoucherById, vouchers);
        let sales = infra.id_column(entity::sale::Entity, entity::sale::Column::VoucherId);
        infra.cache.know_ids(SaleByVoucher, sales);
        Self { infra, shops }
    }

    /// The shops that offer them.
    pub(crate) fn shops(&self) -> &Shops {
        &self.shops
    }

    /// The flash sale of a voucher, `None` when it is not sold in one.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn sale(&self, id: VoucherId) -> Result<Option<Sale>, Error> {
        Ok(entity::sale::Entity::find_by_id(id.0)
            .one(self.infra.db.conn())
            .await?)
    }

    /// Vouchers that a shop offers, newest first, before `before`; at most `limit`. Drafted sales are left out.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn of_shop(
        &self,
        shop: ShopId,
        before: Option<VoucherId>,
        limit: u64,
    ) -> Result<Vec<Voucher>, Error> {
        let drafts = entity::sale::Entity::find()
            .select_only()
            .column(entity::sale::Column::VoucherId)
            .filter(entity::sale::Column::ShopId.eq(shop.0))
            .filter(entity::sale::Column::Stage.eq(SaleStage::Draft));
        let offered = voucher::Entity::find()
            .filter(voucher::Column::ShopId.eq(shop.0))
            .filter(voucher::Column::Status.eq(VoucherStatus::Active))
            .filter(voucher::Column::Id.lt(before.map_or(i64::MAX, |b| b.0)))
            .filter(voucher::Column::Id.not_in_subquery(sea_orm::QueryTrait::into_query(drafts)))
            .order_by_desc(voucher::Column::Id)
            .limit(limit);
        Ok(offered.all(self.infra.db.conn()).await?)
    }

    /// Makes a voucher; a flash sale starts as a draft, which `orders` publishes.
    ///
    /// # Errors
    /// `Forbidden` unless the viewer runs the shop; names the argument that is out of bounds.
    pub async fn create(&self, session: &Session, new: NewVoucher) -> Result<Voucher, Error> {
        let shop = self
            .shops
            .load(new.shop_id)
            .await?
            .ok_or(Error::NoSuchShop)?;
        if !runs(session, shop.owner_id) {
            return Err(Error::Forbidden);
        }
        if shop.status == shops::Status::Closed {
            return Err(Error::BadInput {
                argument: "input.shopId",
                reason: "the shop has closed".to_owned(),
            });
        }
        let now = self.infra.clock.now_ms();
        check(&new, now)?;
        let voucher = row(self.infra.ids.next()?, &new, now);
        let sale = new.sale.map(|sale| draft(&voucher, &sale, now));
        let is_ordinary = new.kind == VoucherKind::Ordinary;
        let offer = is_ordinary.then(|| offer::new_offer(&voucher, &new.offer, now));
        let (written, vouchers) = (voucher.clone(), self.clone());
        let write = async move {
            let (id, version) = (VoucherId(voucher.id), voucher.version);
            vouchers.insert(voucher, sale, offer).await?;
            let cache = &vouchers.infra.cache;
            cache.invalidate(SaleByVoucher, &id, version).await;
            Ok::<_, DbErr>((version, ()))
        };
        let cache = &self.infra.cache;
        cache
            .write_then_invalidate(VoucherById, VoucherId(written.id), write)
            .await?;
        Ok(written)
    }

    async fn insert(
        &self,
        voucher: Voucher,
        sale: Option<Sale>,
        offer: Option<Offer>,
    ) -> Result<(), DbErr> {
        self.infra
            .db
            .write(move |txn| {
                let (voucher, sale) = (voucher.clone().into_active_model(), sale.clone());
                let offer = offer.clone();
                Box::pin(async move {
                    voucher::Entity::insert(voucher)
                        .exec_without_returning(txn)
                        .await?;
                    if let Some(sale) = sale {
                        let sale = sale.into_active_model();
                        entity::sale::Entity::insert(sale)
                            .exec_without_returning(txn)
                            .await?;
                    }
                    if let Some(offer) = offer {
                        offer::write(txn, offer).await?;
                    }
                    Ok(())
                })
            })
            .await
    }

    /// Whether the viewer may list drafts: an administrator everywhere, a merchant of a shop of his own.
    ///
    /// # Errors
    /// `Forbidden`, `NoSuchShop`, or trouble of the database.
    pub async fn may_list_drafts(
        &self,
        session: &Session,
        shop: Option<ShopId>,
    ) -> Result<(), Error> {
        let owner = match shop {
            Some(shop) => {
                self.shops
                    .load(shop)
                    .await?
                    .ok_or(Error::NoSuchShop)?
                    .owner_id
            }
            None => None,
        };
        if runs(session, owner) {
            Ok(())
        } else {
            Err(Error::Forbidden)
        }
    }

    /// Refuses what a shop that has closed cannot do any more.
    ///
    /// # Errors
    /// `BadInput` when the voucher's shop has closed; trouble of the database.
    pub async fn require_open_shop(&self, voucher: &Voucher) -> Result<(), Error> {
        let shop = self.shops.load(ShopId(voucher.shop_id)).await?;
        match shop {
            Some(shop) if shop.status != shops::Status::Closed => Ok(()),
            _ => Err(Error::BadInput {
                argument: "input.voucherId",
                reason: "its shop has closed".to_owned(),
            }),
        }
    }

    /// The voucher, if the viewer runs its shop.
    ///
    /// # Errors
    /// `NoSuchVoucher`, `Forbidden`, or trouble of the database.
    pub async fn require_owner(&self, session: &Session, id: VoucherId) -> Result<Voucher, Error> {
        let voucher = voucher::Entity::find_by_id(id.0)
            .one(self.infra.db.conn())
            .await?
            .ok_or(Error::NoSuchVoucher)?;
        let owner = self
            .shops
            .load(ShopId(voucher.shop_id))
            .await?
            .and_then(|shop| shop.owner_id);
        if runs(session, owner) {
            Ok(voucher)
        } else {
            Err(Error::Forbidden)
        }
    }
}

/// Whether somebody may do what a shop's owner may.
fn runs(session: &Session, owner: Option<i64>) -> bool {
    session.role == Role::Admin
        || (session.role == Role::Merchant && owner == Some(session.user_id.0))
}

fn check(new: &NewVoucher, now: i64) -> Result<(), Error> {
    let bad = |argument, reason: &str| {
        Err(Error::BadInput {
            argument,
            reason: reason.to_owned(),
        })
    };
    check_text("input.title", &new.title, 1, 128)?;
    check_text(
        "input.subTitle",
        new.sub_title.as_deref().unwrap_or_default(),
        0,
        255,
    )?;
    check_text(
        "input.rules",
        new.rules.as_deref().unwrap_or_default(),
        0,
        2_000,
    )?;
    if !(0..=AMOUNT_MAX).contains(&new.price.minor) {
        return bad(
            "input.payPrice",
            "the price must be between 0 and 10^12 minor units",
        );
    }
    if new.value.currency != new.price.currency {
        return bad("input.value", "value and price must have one currency");
    }
    if !(new.price.minor..=AMOUNT_MAX).contains(&new.value.minor) {
        return bad(
            "input.value",
            "the value must be at least the price, and at most 10^12 minor units",
        );
    }
    match (new.kind, &new.sale) {
        (VoucherKind::Ordinary, None) => offer::check_offer(&new.offer),
        (VoucherKind::Ordinary, Some(_)) => {
            bad("input.sale", "an ordinary voucher has no flash sale")
        }
        (VoucherKind::Seckill, _) if new.offer != NewOffer::default() => bad(
            "input.stock",
            "a flash-sale voucher has its stock and limit in its sale",
        ),
        (VoucherKind::Seckill, None) => bad("input.sale", "a flash-sale voucher needs its sale"),
        (VoucherKind::Seckill, Some(sale)) => check_sale(sale, now),
    }
}

fn check_sale(sale: &NewSale, now: i64) -> Result<(), Error> {
    let bad = |argument, reason: String| Err(Error::BadInput { argument, reason });
    if sale.end_ms <= sale.begin_ms {
        return bad(
            "input.sale.endsAt",
            "the sale must end after it begins".to_owned(),
        );
    }
    if sale.end_ms <= now {
        return bad(
            "input.sale.endsAt",
            "the sale must end in the future".to_owned(),
        );
    }
    if !(1..=TOTAL_MAX).contains(&sale.total) {
        return bad(
            "input.sale.total",
            format!("the total must be between 1 and {TOTAL_MAX}"),
        );
    }
    if !(1..=LIMIT_MAX).contains(&sale.per_user_limit) {
        return bad(
            "input.sale.perUserLimit",
            format!("the limit must be between 1 and {LIMIT_MAX}"),
        );
    }
    let most = sale
        .max_attempts
        .unwrap_or(ATTEMPTS.max(sale.per_user_limit));
    if !(sale.per_user_limit..=ATTEMPTS_MAX).contains(&most) {
        return bad(
            "input.sale.maxAttempts",
            format!("attempts must be between the limit and {ATTEMPTS_MAX}"),
        );
    }
    Ok(())
}

fn row(id: i64, new: &NewVoucher, now: i64) -> Voucher {
    Voucher {
        id,
        shop_id: new.shop_id.0,
        kind: new.kind,
        title: new.title.clone(),
        sub_title: new.sub_title.clone(),
        rules: new.rules.clone(),
        price_minor: new.price.minor,
        value_minor: new.value.minor,
        currency: new.price.currency.to_string(),
        status: VoucherStatus::Active,
        created_at: now,
        updated_at: now,
        version: 1,
    }
}

fn draft(voucher: &Voucher, sale: &NewSale, now: i64) -> Sale {
    Sale {
        voucher_id: voucher.id,
        shop_id: voucher.shop_id,
        begin_ms: sale.begin_ms,
        end_ms: sale.end_ms,
        total: sale.total,
        sold: 0,
        per_user_limit: sale.per_user_limit,
        max_attempts: sale
            .max_attempts
            .unwrap_or(ATTEMPTS.max(sale.per_user_limit)),
        price_minor: voucher.price_minor,
        currency: voucher.currency.clone(),
        stage: SaleStage::Draft,
        paused: false,
        frozen: false,
        epoch: 0,
        announced: 0,
        adjust_version: 0,
        adjust_target: None,
        lease_token: None,
        lease_until: 0,
        created_at: now,
        updated_at: now,
        settled_at: None,
        version: 1,
    }
}
