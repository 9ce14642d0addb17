//! Shops: what they are, where they are, lists of them. Their vouchers are in `vouchers`.

mod cached;
mod first_page;
pub mod geo;
pub mod import;
mod list;
mod osm;
pub(crate) mod tally;

use std::sync::Arc;

use deadpool_redis::redis::RedisError;
use entity::shop::{self, ShopStatus};
use entity::shop_type;
use sea_orm::{
    ActiveModelTrait, ActiveValue, ColumnTrait, DbErr, EntityTrait, IntoActiveModel, QueryFilter,
};

use crate::define_id;
use crate::infra::Infra;
use crate::infra::cache;
use crate::infra::fault::{Fault, Faulty, RETRY_AFTER, database_fault, redis_fault};
use crate::infra::ids::IdsError;
use crate::infra::text::{TextError, check_text};
use crate::uploads::{self, ImageId, Uploads, from_column, to_column};
use crate::users::{Role, Session, UserId};
use cached::ShopById;

pub use geo::{GeoPoint, NearbyQuery, NearbyShop};
pub use list::{ShopFilter, ShopKey, ShopSort};

define_id!(
    /// The number of a shop.
    ShopId
);
define_id!(
    /// The number of a type of shops.
    ShopTypeId
);

/// A shop as stored.
pub type Shop = shop::Model;
/// A type of shops as stored.
pub type ShopType = shop_type::Model;
/// Whether a shop is in business.
pub type Status = ShopStatus;

/// Ids in one question to the database.
const IDS_PER_READ: usize = 500;
/// How often a change is made again because somebody else changed the shop at the same moment.
const CHANGE_TRIES: usize = 8;

/// What goes wrong with shops.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No such shop.
    #[error("no such shop")]
    NoSuchShop,
    /// No such type.
    #[error("no such type of shops")]
    NoSuchType,
    /// The viewer does not run the shop.
    #[error("only the shop's owner or an administrator may do this")]
    Forbidden,
    /// A place that is none, or beyond what the index holds.
    #[error(
        "latitude must be between -85.05112878 and 85.05112878, longitude between -180 and 180"
    )]
    BadPoint,
    /// A radius out of bounds.
    #[error("the radius must be between 1 and {} metres", geo::RADIUS_MAX_M)]
    BadRadius,
    /// A text that is not taken.
    #[error(transparent)]
    Text(#[from] TextError),
    /// Pictures that the viewer may not show, or trouble with them.
    #[error(transparent)]
    Uploads(#[from] uploads::Error),
    /// A file that is no export.
    #[error("the file cannot be read as an export: {0}")]
    BadExport(String),
    /// No id could be made.
    #[error(transparent)]
    Ids(#[from] IdsError),
    /// The database's own.
    #[error("the database failed: {0}")]
    Database(#[from] DbErr),
    /// Others change the shop again and again at the same moment.
    #[error("the shop is being changed by others")]
    Contended,
    /// The cache's own.
    #[error(transparent)]
    Cache(#[from] cache::Error),
    /// Redis' own.
    #[error("redis failed: {0}")]
    Redis(#[from] RedisError),
}

impl Faulty for Error {
    fn fault(&self) -> Fault {
        match self {
            Self::NoSuchShop => Fault::NotFound,
            Self::NoSuchType => Fault::BadInput {
                argument: "input.typeId",
            },
            Self::Forbidden => Fault::Forbidden,
            Self::BadPoint => Fault::BadInput { argument: "center" },
            Self::BadRadius => Fault::BadInput {
                argument: "radiusMeters",
            },
            Self::Text(e) => e.fault(),
            Self::Uploads(e) => e.fault(),
            Self::BadExport(_) => Fault::BadInput { argument: "file" },
            Self::Ids(_) => Fault::Unavailable,
            Self::Database(e) => database_fault(e),
            Self::Contended => Fault::TryLater {
                retry_after: RETRY_AFTER,
            },
            Self::Cache(e) => e.fault(),
            Self::Redis(e) => redis_fault(e),
        }
    }
}

/// What a merchant says of a shop.
#[derive(Clone, Debug)]
pub struct ShopDetails {
    /// Name, 1 to 255 characters.
    pub name: String,
    /// Its type.
    pub type_id: ShopTypeId,
    /// Where it is.
    pub location: GeoPoint,
    /// Street address, at most 255 characters.
    pub address: Option<String>,
    /// Quarter of the city, at most 128 characters.
    pub area: Option<String>,
    /// Opening hours in words, at most 255 characters.
    pub open_hours: Option<String>,
    /// What a person spends there on average.
    pub average_price: Option<AveragePrice>,
    /// Its pictures, in their order; `None`: as they are.
    pub image_ids: Option<Vec<ImageId>>,
}

/// What a person spends in a shop on average.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AveragePrice {
    /// Whole minor units of the currency, 0 or more.
    pub minor: i64,
    /// ISO 4217 code.
    pub currency: String,
}

/// Shops. Cheap to clone.
#[derive(Clone)]
pub struct Shops {
    infra: Infra,
    uploads: Uploads,
    /// Held by whoever of this process builds the index of places.
    rebuilding: Arc<tokio::sync::Mutex<()>>,
}

impl Shops {
    /// Makes the concept.
    pub fn new(infra: Infra, uploads: Uploads) -> Self {
        let ids = infra.id_column(shop::Entity, shop::Column::Id);
        infra.cache.know_ids(ShopById, ids);
        Self {
            infra,
            uploads,
            rebuilding: Arc::default(),
        }
    }

    /// A shop as the database has it now, for what decides.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn load(&self, id: ShopId) -> Result<Option<Shop>, Error> {
        Ok(shop::Entity::find_by_id(id.0)
            .one(self.infra.db.conn())
            .await?)
    }

    /// Shops by id as the database has them now; those that are missing are left out.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn get_many(&self, ids: &[ShopId]) -> Result<Vec<Shop>, Error> {
        let mut shops = Vec::with_capacity(ids.len());
        for chunk in ids.chunks(IDS_PER_READ) {
            let ids = chunk.iter().map(|id| id.0);
            shops.extend(
                shop::Entity::find()
                    .filter(shop::Column::Id.is_in(ids))
                    .all(self.infra.db.conn())
                    .await?,
            );
        }
        Ok(shops)
    }

    /// Opens a shop for its merchant.
    ///
    /// # Errors
    /// `Forbidden` unless the viewer is a merchant or an administrator; names the argument that is wrong.
    pub async fn create(&self, session: &Session, details: ShopDetails) -> Result<Shop, Error> {
        if !matches!(session.role, Role::Merchant | Role::Admin) {
            return Err(Error::Forbidden);
        }
        self.check(session, &details, &[]).await?;
        let shop = new_shop(
            self.infra.ids.next()?,
            Some(session.user_id),
            &details,
            self.infra.clock.now_ms(),
        );
        let insert = shop::Entity::insert(shop.clone().into_active_model());
        let (db, version) = (self.infra.db.clone(), shop.version);
        let write = async move {
            insert.exec_without_returning(db.conn()).await?;
            Ok::<_, DbErr>((version, ()))
        };
        let cache = &self.infra.cache;
        cache
            .write_then_invalidate(ShopById, ShopId(shop.id), write)
            .await?;
        self.drop_first_pages([shop.type_id]).await;
        self.index(std::slice::from_ref(&shop)).await?;
        Ok(shop)
    }

    /// Changes what is known of a shop: also moves it, or gives it another type.
    ///
    /// # Errors
    /// `NoSuchShop`, `Forbidden`; names the argument that is wrong.
    pub async fn update(
        &self,
        session: &Session,
        id: ShopId,
        details: ShopDetails,
    ) -> Result<Shop, Error> {
        let before = self.require_own(session, id).await?;
        let known = from_column(&before.images);
        self.check(session, &details, &known).await?;
        let (before, after) = self.change(id, move |shop| details.describe(shop)).await?;
        if after.type_id != before.type_id {
            self.unindex(id, ShopTypeId(before.type_id)).await?;
        }
        self.index(std::slice::from_ref(&after)).await?;
        Ok(after)
    }

    /// Closes a shop for good: it leaves lists and searches.
    ///
    /// # Errors
    /// `NoSuchShop`, `Forbidden`, or trouble of a store.
    pub async fn close(&self, session: &Session, id: ShopId) -> Result<Shop, Error> {
        self.require_own(session, id).await?;
        let (_, after) = self
            .change(id, |shop| shop.status = ShopStatus::Closed)
            .await?;
        self.index(std::slice::from_ref(&after)).await?;
        Ok(after)
    }

    /// Hands a shop to a merchant, or takes it from one.
    ///
    /// # Errors
    /// `NoSuchShop`, or trouble of the database.
    pub async fn set_owner(&self, id: ShopId, owner: Option<UserId>) -> Result<Shop, Error> {
        let owner_id = owner.map(|o| o.0);
        let (_, after) = self
            .change(id, move |shop| shop.owner_id = owner_id)
            .await?;
        Ok(after)
    }

    async fn require_own(&self, session: &Session, id: ShopId) -> Result<Shop, Error> {
        let shop = self.load(id).await?.ok_or(Error::NoSuchShop)?;
        let own = session.role == Role::Merchant && shop.owner_id == Some(session.user_id.0);
        if own || session.role == Role::Admin {
            Ok(shop)
        } else {
            Err(Error::Forbidden)
        }
    }

    /// Pictures that the shop has already (`known`) may be anybody's: it may have changed hands.
    async fn check(
        &self,
        session: &Session,
        details: &ShopDetails,
        known: &[ImageId],
    ) -> Result<(), Error> {
        check_text("input.name", &details.name, 1, 255)?;
        check_text(
            "input.address",
            details.address.as_deref().unwrap_or_default(),
            0,
            255,
        )?;
        check_text(
            "input.area",
            details.area.as_deref().unwrap_or_default(),
            0,
            128,
        )?;
        check_text(
            "input.openHours",
            details.open_hours.as_deref().unwrap_or_default(),
            0,
            255,
        )?;
        let kind = shop_type::Entity::find_by_id(details.type_id.0)
            .one(self.infra.db.conn())
            .await?;
        kind.map(|_| ()).ok_or(Error::NoSuchType)?;
        if let Some(images) = &details.image_ids {
            self.uploads.require_owned(session, images, known).await?;
        }
        Ok(())
    }

    /// Changes a shop as it is at this moment; answers it before and after. Two who change it at once do so one after the
    /// other, so that each version is one state.
    async fn change(
        &self,
        id: ShopId,
        change: impl Fn(&mut Shop) + Send + Sync + 'static,
    ) -> Result<(Shop, Shop), Error> {
        let shops = self.clone();
        let write = async move {
            let changed = shops.change_row(id, change).await?;
            Ok::<_, Error>((changed.1.version, changed))
        };
        let cache = &self.infra.cache;
        let (before, after) = cache.write_then_invalidate(ShopById, id, write).await?;
        if Self::moves_in_lists(&before, &after) {
            self.drop_first_pages([before.type_id, after.type_id]).await;
        }
        Ok((before, after))
    }

    async fn change_row(
        &self,
        id: ShopId,
        change: impl Fn(&mut Shop) + Send + Sync,
    ) -> Result<(Shop, Shop), Error> {
        for _ in 0..CHANGE_TRIES {
            let before = self.load(id).await?.ok_or(Error::NoSuchShop)?;
            let mut after = before.clone();
            change(&mut after);
            after.version = before.version + 1;
            after.updated_at = self.infra.clock.now_ms();
            let mut values = after.clone().into_active_model().reset_all();
            values.id = ActiveValue::NotSet;
            let updated = shop::Entity::update_many()
                .set(values)
                .filter(shop::Column::Id.eq(id.0))
                .filter(shop::Column::Version.eq(before.version))
                .exec(self.infra.db.conn())
                .await?;
            if updated.rows_affected == 1 {
                return Ok((before, after));
            }
        }
        Err(Error::Contended)
    }
}

impl ShopDetails {
    fn describe(&self, shop: &mut Shop) {
        shop.type_id = self.type_id.0;
        shop.name.clone_from(&self.name);
        shop.address.clone_from(&self.address);
        shop.area.clone_from(&self.area);
        shop.latitude = self.location.latitude;
        shop.longitude = self.location.longitude;
        shop.open_hours.clone_from(&self.open_hours);
        let price = self.average_price.as_ref();
        shop.average_price_minor = price.map(|price| price.minor);
        shop.currency = price.map(|price| price.currency.clone());
        if let Some(images) = &self.image_ids {
            shop.images = to_column(images);
        }
    }
}

fn new_shop(id: i64, owner: Option<UserId>, details: &ShopDetails, now: i64) -> Shop {
    let mut shop = Shop {
        id,
        type_id: details.type_id.0,
        owner_id: owner.map(|o| o.0),
        name: String::new(),
        images: "[]".to_owned(),
        area: None,
        address: None,
        latitude: 0.0,
        longitude: 0.0,
        average_price_minor: None,
        currency: None,
        sold_count: 0,
        comment_count: 0,
        score_tenths: 0,
        open_hours: None,
        source: None,
        status: ShopStatus::Open,
        created_at: now,
        updated_at: now,
        version: 1,
    };
    details.describe(&mut shop);
    shop
}
