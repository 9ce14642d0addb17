//! Taking shops from an export. The same export again changes nothing. What is in an export is read in `osm`.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io::{Read, Seek};

use entity::shop::{self, ShopStatus};
use entity::shop_type;
use futures_util::{StreamExt, stream};
use sea_orm::{ColumnTrait, EntityTrait, IntoActiveModel, QueryFilter};
use tokio::sync::mpsc;

use super::cached::{AllTypes, ShopById};
use super::osm::{Place, read, title};
use super::{Error, Shop, ShopDetails, ShopId, ShopTypeId, Shops, new_shop};
use crate::infra::db::is_unique_violation;

/// Places written in one go: few enough for one statement's parameters, many enough that the way does not count.
const CHUNK: usize = 500;
/// Chunks that are read while one is written.
const CHUNKS_AHEAD: usize = 2;
/// New shops that the cache is told of at once.
const TOLD_AT_ONCE: usize = 64;

/// What an import did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportReport {
    /// Shops that are new.
    pub imported: u64,
    /// Shops that were there and changed.
    pub updated: u64,
    /// Shops that were there as they are, or that their merchants describe themselves.
    pub unchanged: u64,
    /// Elements left out, by reason.
    pub skipped: BTreeMap<&'static str, u64>,
}

impl fmt::Display for ImportReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "imported {}, unchanged {}, ",
            self.imported, self.unchanged
        )?;
        if self.updated > 0 {
            write!(f, "updated {}, ", self.updated)?;
        }
        write!(f, "skipped {}", self.skipped.values().sum::<u64>())?;
        if !self.skipped.is_empty() {
            let reasons: Vec<_> = self
                .skipped
                .iter()
                .map(|(reason, count)| format!("{reason}: {count}"))
                .collect();
            write!(f, " ({})", reasons.join(", "))?;
        }
        Ok(())
    }
}

impl ImportReport {
    fn elements(&self) -> u64 {
        self.imported + self.updated + self.unchanged + self.skipped.values().sum::<u64>()
    }
}

/// Elements that are written together.
#[derive(Default)]
struct Chunk {
    places: Vec<Place>,
    skipped: BTreeMap<&'static str, u64>,
}

/// Reads an export to its end, and answers it with the number of its elements.
async fn count<R: Read + Seek + Send + 'static>(mut export: R) -> Result<(R, u64), Error> {
    let reader = tokio::task::spawn_blocking(move || {
        let mut elements = 0;
        read(&mut export, |_| {
            elements += 1;
            true
        })?;
        Ok((export, elements))
    });
    ended(reader.await)
}

/// Reads an export from its beginning into chunks, until nobody takes them any more.
fn send_chunks(mut export: impl Read + Seek, chunks: &mpsc::Sender<Chunk>) -> Result<(), Error> {
    export
        .rewind()
        .map_err(|e| Error::BadExport(e.to_string()))?;
    let mut chunk = Chunk::default();
    read(export, |place| {
        match place {
            Ok(place) => chunk.places.push(place),
            Err(reason) => *chunk.skipped.entry(reason).or_insert(0) += 1,
        }
        chunk.places.len() < CHUNK || chunks.blocking_send(std::mem::take(&mut chunk)).is_ok()
    })?;
    // Gone is the receiver only when writing has failed, which is told there.
    let _ = chunks.blocking_send(chunk);
    Ok(())
}

fn ended<T>(task: Result<Result<T, Error>, tokio::task::JoinError>) -> Result<T, Error> {
    task.unwrap_or_else(|e| Err(Error::BadExport(format!("reading ended early: {e}"))))
}

impl Shops {
    /// Imports an export: OpenStreetMap's Overpass JSON, or GeoJSON points. `progress` hears how many elements of how
    /// many are done.
    ///
    /// The export is read twice, first to see that it is one, and is never held as a whole. A shop that a merchant runs
    /// is left as its merchant describes it.
    ///
    /// # Errors
    /// `BadExport` when it cannot be read, before anything is written; trouble of a store, with whole chunks done.
    pub async fn import(
        &self,
        export: impl Read + Seek + Send + 'static,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<ImportReport, Error> {
        let (export, total) = count(export).await?;
        let (sender, mut chunks) = mpsc::channel(CHUNKS_AHEAD);
        let reader = tokio::task::spawn_blocking(move || send_chunks(export, &sender));
        let mut report = ImportReport::default();
        progress(0, total);
        while let Some(chunk) = chunks.recv().await {
            self.take(chunk, &mut report).await?;
            progress(report.elements(), total);
        }
        ended(reader.await)?;
        Ok(report)
    }

    async fn take(&self, chunk: Chunk, report: &mut ImportReport) -> Result<(), Error> {
        let types = self.types_for(&chunk.places).await?;
        let done = match self.import_chunk(&chunk.places, &types).await {
            // Another import at the same time brought some of these: now they are known.
            Err(Error::Database(e)) if is_unique_violation(&e) => {
                self.import_chunk(&chunk.places, &types).await
            }
            result => result,
        }?;
        report.imported += done.imported;
        report.updated += done.updated;
        report.unchanged += done.unchanged;
        for (reason, count) in chunk.skipped {
            *report.skipped.entry(reason).or_insert(0) += count;
        }
        Ok(())
    }

    async fn import_chunk(
        &self,
        places: &[Place],
        types: &HashMap<String, ShopTypeId>,
    ) -> Result<ImportReport, Error> {
        let known = self.by_source(places).await?;
        let now = self.infra.clock.now_ms();
        let (mut new, mut changed, mut kept) = (Vec::new(), Vec::new(), Vec::new());
        for place in places {
            let details = place.details(types);
            match known.get(&place.source) {
                None => {
                    let mut shop = new_shop(self.infra.ids.next()?, None, &details, now);
                    shop.source = Some(place.source.clone());
                    new.push(shop);
                }
                Some(shop) if shop.owner_id.is_some() || place.is_as(shop, &details) => {
                    kept.push(shop.clone());
                }
                Some(shop) => changed.push((shop.clone(), details)),
            }
        }
        let report = ImportReport {
            imported: new.len() as u64,
            updated: changed.len() as u64,
            unchanged: kept.len() as u64,
            skipped: BTreeMap::new(),
        };
        self.insert(&new).await?;
        for (shop, details) in changed {
            self.overwrite(shop, details).await?;
        }
        // Also those that are as they were: an import that was broken off may have left them out of the index.
        kept.extend(new);
        self.index(&kept).await?;
        Ok(report)
    }

    async fn by_source(&self, places: &[Place]) -> Result<HashMap<String, Shop>, Error> {
        let sources = places.iter().map(|p| p.source.as_str());
        let known = shop::Entity::find()
            .filter(shop::Column::Source.is_in(sources))
            .all(self.infra.db.conn())
            .await?;
        let with_source = known
            .into_iter()
            .filter_map(|s| Some((s.source.clone()?, s)));
        Ok(with_source.collect())
    }

    async fn insert(&self, new: &[Shop]) -> Result<(), Error> {
        if new.is_empty() {
            return Ok(());
        }
        let rows = new.iter().cloned().map(IntoActiveModel::into_active_model);
        shop::Entity::insert_many(rows)
            .exec_without_returning(self.infra.db.conn())
            .await?;
        let cache = &self.infra.cache;
        let told = stream::iter(new).for_each_concurrent(TOLD_AT_ONCE, async |shop| {
            cache.invalidate(ShopById, &ShopId(shop.id), 1).await;
        });
        told.await;
        let types = new.iter().map(|shop| shop.type_id);
        self.drop_first_pages(types).await;
        Ok(())
    }

    async fn overwrite(&self, before: Shop, details: ShopDetails) -> Result<(), Error> {
        let change = move |shop: &mut Shop| details.describe(shop);
        let (before, after) = self.change(ShopId(before.id), change).await?;
        if before.type_id != after.type_id {
            self.unindex(ShopId(after.id), ShopTypeId(before.type_id))
                .await?;
        }
        if after.status == ShopStatus::Open {
            self.index(std::slice::from_ref(&after)).await?;
        }
        Ok(())
    }

    /// The types that the places have, made where they are missing.
    async fn types_for(&self, places: &[Place]) -> Result<HashMap<String, ShopTypeId>, Error> {
        let mut types: HashMap<String, ShopTypeId> = self
            .load_types()
            .await?
            .into_iter()
            .map(|t| (t.code, ShopTypeId(t.id)))
            .collect();
        let known = types.len();
        for place in places {
            if types.contains_key(&place.kind) {
                continue;
            }
            let id = self.infra.ids.next()?;
            let row = shop_type::Model {
                id,
                code: place.kind.clone(),
                name: title(&place.kind),
                sort: i32::try_from(types.len()).unwrap_or(i32::MAX),
                created_at: self.infra.clock.now_ms(),
                version: 1,
            };
            match shop_type::Entity::insert(row.into_active_model())
                .exec_without_returning(self.infra.db.conn())
                .await
            {
                Ok(_) => {
                    types.insert(place.kind.clone(), ShopTypeId(id));
                }
                // Another import at the same time made it.
                Err(e) if is_unique_violation(&e) => {
                    types.extend(
                        self.load_types()
                            .await?
                            .into_iter()
                            .map(|t| (t.code, ShopTypeId(t.id))),
                    );
                }
                Err(e) => return Err(e.into()),
            }
        }
        if types.len() > known {
            let now = self.load_types().await?.iter().map(|t| t.version).sum();
            let cache = &self.infra.cache;
            cache.invalidate(AllTypes, &AllTypes::KEY, now).await;
        }
        Ok(types)
    }
}

impl Place {
    fn details(&self, types: &HashMap<String, ShopTypeId>) -> ShopDetails {
        ShopDetails {
            name: self.name.clone(),
            type_id: types.get(&self.kind).copied().unwrap_or(ShopTypeId(0)),
            location: self.location,
            address: self.address.clone(),
            area: self.area.clone(),
            open_hours: self.open_hours.clone(),
            average_price: None,
            image_ids: None,
        }
    }

    fn is_as(&self, shop: &Shop, details: &ShopDetails) -> bool {
        shop.name == self.name
            && shop.type_id == details.type_id.0
            && shop.address == self.address
            && shop.area == self.area
            && shop.open_hours == self.open_hours
            && (shop.latitude, shop.longitude) == (self.location.latitude, self.location.longitude)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_says_what_was_taken_and_what_was_not() {
        let skipped = BTreeMap::from([("no name", 26)]);
        let report = ImportReport {
            imported: 800,
            skipped,
            ..ImportReport::default()
        };
        assert_eq!(
            report.to_string(),
            "imported 800, unchanged 0, skipped 26 (no name: 26)"
        );
    }
}
