//! Where shops are, and which are near. Redis finds candidates; distances are computed from the database's
//! coordinates, because the index rounds them (52-bit cells).

use std::collections::HashMap;
use std::time::Duration;

use deadpool_redis::redis::{Cmd, cmd, pipe};
use entity::shop::{self, ShopStatus};
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{Error, Shop, ShopId, ShopTypeId, Shops};

/// Mean radius of the earth in metres, as Redis has it, so that both sides measure alike.
const EARTH_RADIUS_M: f64 = 6_372_797.560_856;
/// Redis' index ends here (the square of Web Mercator).
pub const LATITUDE_MAX: f64 = 85.051_128_78;
/// The largest radius of a search, in metres.
pub const RADIUS_MAX_M: u32 = 50_000;
/// How far the index may be off, in metres, on both ends of a distance together.
const SLACK_M: f64 = 2.0;
/// A failed build of the index at start is tried again after this long.
const PREPARE_AGAIN: Duration = Duration::from_secs(1);
/// Shops written to the index in one go.
const REBUILD_PAGE: u64 = 1_000;
/// How long the unfinished index of a builder that died stays in Redis, in seconds. Far more than a page takes.
const UNFINISHED_SECS: i64 = 3_600;
/// A shop changed this long before a rebuild began may have been committed after the rebuild read it, in milliseconds.
/// Longer than any transaction may stand still.
const COMMIT_LAG_MS: i64 = 60_000;
/// The index ends a millimetre before the bounds of a place, in degrees: see `in_index`.
const INDEX_LATITUDE_MAX: f64 = 85.051_128_77;
/// From here on east a place lies on the date line for the index, in degrees: see `in_index`.
const INDEX_DATE_LINE: f64 = 179.999_999_99;

/// A place on earth that the index can hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GeoPoint {
    /// Degrees north, -85.05112878 to 85.05112878.
    pub latitude: f64,
    /// Degrees east, -180 to 180.
    pub longitude: f64,
}

impl GeoPoint {
    /// Checks a place. (0, 0) is one.
    ///
    /// # Errors
    /// `BadPoint` when a coordinate is out of range or no number.
    pub fn new(latitude: f64, longitude: f64) -> Result<Self, Error> {
        let fits = (-LATITUDE_MAX..=LATITUDE_MAX).contains(&latitude)
            && (-180.0..=180.0).contains(&longitude);
        if fits {
            Ok(Self {
                latitude,
                longitude,
            })
        } else {
            Err(Error::BadPoint)
        }
    }

    /// Metres to another place on the sphere, by the haversine formula.
    pub fn distance_m(&self, other: &Self) -> f64 {
        let half = |a: f64, b: f64| ((b - a).to_radians() / 2.0).sin().powi(2);
        let across = self.latitude.to_radians().cos() * other.latitude.to_radians().cos();
        let h =
            half(self.latitude, other.latitude) + across * half(self.longitude, other.longitude);
        2.0 * EARTH_RADIUS_M * h.sqrt().min(1.0).asin()
    }
}

/// A search around a place.
#[derive(Clone, Copy, Debug)]
pub struct NearbyQuery {
    /// The middle.
    pub center: GeoPoint,
    /// Metres around it, 1 to 50,000.
    pub radius_meters: u32,
    /// Only this type; `None`: all.
    pub type_id: Option<ShopTypeId>,
    /// Only shops after this place in the order of (distance in metres, id).
    pub after: Option<(f64, ShopId)>,
    /// At most so many.
    pub limit: usize,
}

/// A shop and how far it is.
#[derive(Clone, Debug)]
pub struct NearbyShop {
    /// The shop.
    pub shop: Shop,
    /// Metres from the middle of the search.
    pub distance_meters: f64,
}

impl Shops {
    /// Open shops around a place, the nearest first.
    ///
    /// # Errors
    /// `BadRadius`; trouble of a store.
    pub async fn nearby(&self, query: NearbyQuery) -> Result<Vec<NearbyShop>, Error> {
        if !(1..=RADIUS_MAX_M).contains(&query.radius_meters) {
            return Err(Error::BadRadius);
        }
        self.require_index().await?;
        let mut count = query.limit.max(1) * 2;
        loop {
            let candidates = self.candidates(&query, count).await?;
            let exhausted = candidates.len() < count;
            // Beyond the last candidate the index knows more shops; only what is surely nearer than those is complete.
            let complete_m = match candidates.last() {
                Some((_, distance)) if !exhausted => distance - SLACK_M,
                _ => f64::INFINITY,
            };
            let found = self.measure(&query, &candidates, complete_m).await?;
            if exhausted || found.len() >= query.limit {
                return Ok(found.into_iter().take(query.limit).collect());
            }
            count *= 4;
        }
    }

    /// Builds the index anew from the database, and replaces the old one in one step. Answers how many shops it holds.
    ///
    /// Shops that change meanwhile are put right at the end: what their writers told the old index went with it.
    ///
    /// # Errors
    /// Trouble of a store; an index that was missing is still missing then.
    pub async fn rebuild_geo_index(&self) -> Result<u64, Error> {
        let began = self.infra.clock.now_ms();
        let (filled, indexed) = self.fill_new_index().await?;
        let mut keys = vec![self.all_key()];
        let types = self.load_types().await?;
        keys.extend(types.iter().map(|t| self.type_key(ShopTypeId(t.id))));
        let mut swap = pipe();
        swap.atomic();
        for key in keys.iter().filter(|key| !filled.contains_key(*key)) {
            swap.cmd("DEL").arg(key).ignore();
        }
        for (key, temporary) in &filled {
            swap.cmd("RENAME").arg(temporary).arg(key).ignore();
            swap.cmd("PERSIST").arg(key).ignore();
        }
        self.infra.redis.query_pipe::<()>(&swap).await?;
        self.catch_up(began - COMMIT_LAG_MS).await?;
        let mut built = cmd("SET");
        built.arg(self.built_key()).arg(indexed);
        self.infra.redis.query::<()>(&built).await?;
        Ok(indexed)
    }

    /// Fills keys that nobody reads yet; answers them by the keys that they are for.
    async fn fill_new_index(&self) -> Result<(HashMap<String, String>, u64), Error> {
        let token = Uuid::new_v4().simple().to_string();
        let mut filled: HashMap<String, String> = HashMap::new();
        let (mut after, mut indexed) = (0, 0);
        loop {
            let open = shop::Column::Status.eq(ShopStatus::Open);
            let page = self.page(open, after).await?;
            let Some(last) = page.last() else { break };
            after = last.id;
            indexed += page.len() as u64;
            let mut adds = pipe();
            for shop in &page {
                for key in self.index_keys(ShopTypeId(shop.type_id)) {
                    let temporary = filled
                        .entry(key.clone())
                        .or_insert_with(|| format!("{key}:new:{token}"));
                    adds.add_command(add(temporary, shop)).ignore();
                }
            }
            for temporary in filled.values() {
                adds.cmd("EXPIRE")
                    .arg(temporary)
                    .arg(UNFINISHED_SECS)
                    .ignore();
            }
            self.infra.redis.query_pipe::<()>(&adds).await?;
        }
        Ok((filled, indexed))
    }

    /// Indexes the shops that were made or changed since.
    async fn catch_up(&self, since_ms: i64) -> Result<(), Error> {
        let mut after = 0;
        loop {
            let changed = shop::Column::UpdatedAt.gte(since_ms);
            let page = self.page(changed, after).await?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            after = last.id;
            self.index(&page).await?;
        }
    }

    async fn page(&self, which: Expr, after: i64) -> Result<Vec<Shop>, Error> {
        let page = shop::Entity::find()
            .filter(which)
            .filter(shop::Column::Id.gt(after))
            .order_by_asc(shop::Column::Id)
            .limit(REBUILD_PAGE);
        Ok(page.all(self.infra.db.conn()).await?)
    }

    /// Brings shops into the index, or out of it when they are closed.
    ///
    /// Two who change a shop at once may come here in another order than to the database. So everybody looks at the
    /// database again afterwards, and whoever is last leaves the index right.
    ///
    /// # Errors
    /// Trouble of a store; the index is then behind the database.
    pub async fn index(&self, shops: &[Shop]) -> Result<(), Error> {
        let mut behind = shops.to_vec();
        while !behind.is_empty() {
            self.write_index(&behind).await?;
            let ids: Vec<ShopId> = behind.iter().map(|shop| ShopId(shop.id)).collect();
            let written: HashMap<i64, Shop> = behind.drain(..).map(|s| (s.id, s)).collect();
            for now in self.get_many(&ids).await? {
                let Some(then) = written.get(&now.id).filter(|s| s.version != now.version) else {
                    continue;
                };
                if then.type_id != now.type_id {
                    self.unindex(ShopId(now.id), ShopTypeId(then.type_id))
                        .await?;
                }
                behind.push(now);
            }
        }
        Ok(())
    }

    async fn write_index(&self, shops: &[Shop]) -> Result<(), Error> {
        let mut changes = pipe();
        for shop in shops {
            for key in self.index_keys(ShopTypeId(shop.type_id)) {
                if shop.status == ShopStatus::Open {
                    changes.add_command(add(&key, shop)).ignore();
                } else {
                    changes.cmd("ZREM").arg(key).arg(shop.id).ignore();
                }
            }
        }
        Ok(self.infra.redis.query_pipe::<()>(&changes).await?)
    }

    /// Takes a shop out of its old type's index.
    pub(super) async fn unindex(&self, shop: ShopId, old: ShopTypeId) -> Result<(), Error> {
        let key = self.type_key(old);
        self.infra
            .redis
            .query::<i64>(cmd("ZREM").arg(key).arg(shop.0))
            .await?;
        Ok(())
    }

    /// Builds the index where there is none, as in a fresh Redis, before anybody asks for it; ends when there is one, or
    /// at `stop`.
    pub async fn prepare_index(&self, stop: CancellationToken) {
        let mut done = false;
        while !done && !stop.is_cancelled() {
            let built = stop.run_until_cancelled(self.require_index()).await;
            done = matches!(built, Some(Ok(())));
            if let Some(Err(e)) = built {
                tracing::debug!(error = %e, "the index of places is not built yet");
                stop.run_until_cancelled(tokio::time::sleep(PREPARE_AGAIN))
                    .await;
            }
        }
    }

    /// A fresh Redis has no index: it is built once, by whoever asks first; others of this process wait for it.
    async fn require_index(&self) -> Result<(), Error> {
        if self.is_index_built().await? {
            return Ok(());
        }
        let _alone = self.rebuilding.lock().await;
        if !self.is_index_built().await? {
            self.rebuild_geo_index().await?;
        }
        Ok(())
    }

    async fn is_index_built(&self) -> Result<bool, Error> {
        let redis = &self.infra.redis;
        Ok(redis.query(cmd("EXISTS").arg(self.built_key())).await?)
    }

    async fn candidates(
        &self,
        query: &NearbyQuery,
        count: usize,
    ) -> Result<Vec<(i64, f64)>, Error> {
        let key = query
            .type_id
            .map_or_else(|| self.all_key(), |id| self.type_key(id));
        let center = in_index(query.center);
        let mut search = cmd("GEOSEARCH");
        search
            .arg(key)
            .arg("FROMLONLAT")
            .arg(center.longitude)
            .arg(center.latitude);
        search
            .arg("BYRADIUS")
            .arg(f64::from(query.radius_meters) + SLACK_M)
            .arg("m");
        search.arg("ASC").arg("COUNT").arg(count).arg("WITHDIST");
        Ok(self.infra.redis.query(&search).await?)
    }

    /// Loads candidates, measures them exactly, and keeps those of the page that are surely in their place.
    async fn measure(
        &self,
        query: &NearbyQuery,
        candidates: &[(i64, f64)],
        complete_m: f64,
    ) -> Result<Vec<NearbyShop>, Error> {
        let after_m = query
            .after
            .map_or(f64::NEG_INFINITY, |(distance, _)| distance);
        let ids: Vec<ShopId> = candidates
            .iter()
            .filter(|(_, d)| *d >= after_m - SLACK_M)
            .map(|(id, _)| ShopId(*id))
            .collect();
        let mut found = Vec::new();
        for chunk in ids.chunks(super::IDS_PER_READ) {
            for shop in self.get_many(chunk).await? {
                let place = GeoPoint {
                    latitude: shop.latitude,
                    longitude: shop.longitude,
                };
                let distance_meters = query.center.distance_m(&place);
                let open = shop.status == ShopStatus::Open;
                let right_type = query.type_id.is_none_or(|t| t.0 == shop.type_id);
                let after = query
                    .after
                    .is_none_or(|(d, id)| (distance_meters, shop.id) > (d, id.0));
                let inside = distance_meters <= f64::from(query.radius_meters)
                    && distance_meters <= complete_m;
                if open && right_type && after && inside {
                    found.push(NearbyShop {
                        shop,
                        distance_meters,
                    });
                }
            }
        }
        found.sort_by(|a, b| {
            a.distance_meters
                .total_cmp(&b.distance_meters)
                .then(a.shop.id.cmp(&b.shop.id))
        });
        Ok(found)
    }

    fn index_keys(&self, shop_type: ShopTypeId) -> [String; 2] {
        [self.all_key(), self.type_key(shop_type)]
    }

    /// String, the number of shops of the index when it was built; there if there is an index. No time to live.
    fn built_key(&self) -> String {
        self.infra.redis.key("geo:shops:built")
    }

    /// Sorted set of all open shops by place; no time to live.
    fn all_key(&self) -> String {
        self.infra.redis.key("geo:shops:all")
    }

    /// Sorted set of the open shops of one type by place; no time to live.
    fn type_key(&self, shop_type: ShopTypeId) -> String {
        self.infra.redis.key(format!("geo:shops:{shop_type}"))
    }
}

fn add(key: &str, shop: &Shop) -> Cmd {
    let place = in_index(GeoPoint {
        latitude: shop.latitude,
        longitude: shop.longitude,
    });
    let mut add = cmd("GEOADD");
    add.arg(key)
        .arg(place.longitude)
        .arg(place.latitude)
        .arg(shop.id);
    add
}

/// A place as the index takes it, at most a millimetre off.
///
/// For the greatest longitude and latitude Redis (7.0) counts one cell too many, and no search from elsewhere looks
/// into that one. So the date line is 180° west here, and the poles' ends are a little nearer to the equator.
fn in_index(place: GeoPoint) -> GeoPoint {
    let date_line = place.longitude >= INDEX_DATE_LINE;
    GeoPoint {
        latitude: place
            .latitude
            .clamp(-INDEX_LATITUDE_MAX, INDEX_LATITUDE_MAX),
        longitude: if date_line { -180.0 } else { place.longitude },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_beyond_the_index_are_refused_and_zero_is_a_place() {
        for (latitude, longitude) in [
            (85.06, 0.0),
            (-85.06, 0.0),
            (0.0, 180.1),
            (f64::NAN, 0.0),
            (0.0, f64::INFINITY),
        ] {
            assert!(
                GeoPoint::new(latitude, longitude).is_err(),
                "{latitude} {longitude}"
            );
        }
        assert!(GeoPoint::new(0.0, 0.0).is_ok());
        assert!(GeoPoint::new(LATITUDE_MAX, -180.0).is_ok());
    }

    #[test]
    fn the_edges_of_the_index_are_inside_it_and_hardly_move() {
        for (latitude, longitude) in [
            (LATITUDE_MAX, 180.0),
            (-LATITUDE_MAX, -180.0),
            (12.5, 180.0),
            (0.0, 0.0),
            (21.0287, 105.8524),
        ] {
            let place = GeoPoint::new(latitude, longitude).unwrap();
            let indexed = in_index(place);
            assert!(indexed.longitude < 180.0 && indexed.latitude < LATITUDE_MAX);
            assert!(place.distance_m(&indexed) < 0.002, "{place:?} {indexed:?}");
        }
        let lake = GeoPoint::new(21.0287, 105.8524).unwrap();
        assert_eq!(in_index(lake), lake);
    }

    #[test]
    fn a_degree_at_the_equator_is_111_km_also_across_the_date_line() {
        let west = GeoPoint::new(0.0, 179.5).unwrap();
        let east = GeoPoint::new(0.0, -179.5).unwrap();
        assert!((west.distance_m(&east) - 111_226.3).abs() < 1.0);
        assert!(west.distance_m(&west).abs() < f64::EPSILON);
    }
}
