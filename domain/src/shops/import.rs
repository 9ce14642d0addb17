//! Taking shops from an OpenStreetMap export: Overpass JSON, or GeoJSON points. The same export again changes
//! nothing.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io::Read;

use entity::shop::{self, ShopStatus};
use entity::shop_type;
use sea_orm::{ColumnTrait, EntityTrait, IntoActiveModel, QueryFilter};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::cached::{AllTypes, ShopById};
use super::{Error, GeoPoint, Shop, ShopDetails, ShopId, ShopTypeId, Shops, new_shop};
use crate::infra::db::is_unique_violation;

/// Elements written in one transaction.
const CHUNK: usize = 500;
/// Texts of an export are cut to what their columns take, in characters.
const NAME_CHARS: usize = 255;

/// The tag keys that say what a place is, in the order they are looked at, with the words put before their values.
const KIND_TAGS: [&str; 6] = ["amenity", "shop", "tourism", "leisure", "craft", "office"];

/// What an import did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportReport {
    /// Shops that are new.
    pub imported: u64,
    /// Shops that were there and changed.
    pub updated: u64,
    /// Shops that were there as they are.
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

#[derive(Deserialize)]
struct Export {
    elements: Option<Vec<Element>>,
    features: Option<Vec<Feature>>,
}

#[derive(Deserialize)]
struct Element {
    #[serde(rename = "type")]
    kind: String,
    id: i64,
    lat: Option<f64>,
    lon: Option<f64>,
    center: Option<Center>,
    #[serde(default)]
    tags: Map<String, Value>,
}

#[derive(Deserialize)]
struct Center {
    lat: f64,
    lon: f64,
}

#[derive(Deserialize)]
struct Feature {
    id: Option<Value>,
    geometry: Option<Geometry>,
    properties: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
struct Geometry {
    #[serde(rename = "type")]
    kind: String,
    coordinates: Value,
}

/// A place of an export that can be a shop.
struct Place {
    source: String,
    name: String,
    kind: String,
    location: GeoPoint,
    address: Option<String>,
    area: Option<String>,
    open_hours: Option<String>,
}

impl Shops {
    /// Imports an export; `progress` hears how many elements of how many are done.
    ///
    /// # Errors
    /// `BadExport` when it cannot be read, before anything is written; trouble of a store, with whole chunks done.
    pub async fn import(
        &self,
        mut export: impl Read,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<ImportReport, Error> {
        let mut text = String::new();
        export
            .read_to_string(&mut text)
            .map_err(|e| Error::BadExport(e.to_string()))?;
        let (places, skipped) = read(&text)?;
        drop(text);
        let mut report = ImportReport {
            skipped,
            ..ImportReport::default()
        };
        let total = places.len() as u64 + report.skipped.values().sum::<u64>();
        let types = self.types_for(&places).await?;
        let mut done = total - places.len() as u64;
        for chunk in places.chunks(CHUNK) {
            self.import_chunk(chunk, &types, &mut report).await?;
            done += chunk.len() as u64;
            progress(done, total);
        }
        Ok(report)
    }

    async fn import_chunk(
        &self,
        places: &[Place],
        types: &HashMap<String, ShopTypeId>,
        report: &mut ImportReport,
    ) -> Result<(), Error> {
        let sources = places.iter().map(|p| p.source.as_str());
        let known = shop::Entity::find()
            .filter(shop::Column::Source.is_in(sources))
            .all(self.infra.db.conn())
            .await?;
        let known: HashMap<String, Shop> = known
            .into_iter()
            .filter_map(|s| Some((s.source.clone()?, s)))
            .collect();
        let (mut new, mut changed) = (Vec::new(), Vec::new());
        for place in places {
            let details = place.details(types);
            match known.get(&place.source) {
                None => {
                    let mut shop = new_shop(
                        self.infra.ids.next()?,
                        None,
                        &details,
                        self.infra.clock.now_ms(),
                    );
                    shop.source = Some(place.source.clone());
                    new.push(shop);
                }
                Some(shop) if place.is_as(shop, &details) => report.unchanged += 1,
                Some(shop) => changed.push((shop.clone(), details)),
            }
        }
        let (imported, updated) = (new.len() as u64, changed.len() as u64);
        if !new.is_empty() {
            let rows = new.iter().cloned().map(IntoActiveModel::into_active_model);
            shop::Entity::insert_many(rows)
                .exec_without_returning(self.infra.db.conn())
                .await?;
            for shop in &new {
                let id = ShopId(shop.id);
                self.infra.cache.invalidate(ShopById, &id, 1).await;
            }
            self.index(&new).await?;
        }
        for (shop, details) in changed {
            self.overwrite(shop, details).await?;
        }
        report.imported += imported;
        report.updated += updated;
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

/// Reads an export: the places that can be shops, each source once, and what is left out.
fn read(text: &str) -> Result<(Vec<Place>, BTreeMap<&'static str, u64>), Error> {
    let export: Export = serde_json::from_str(text).map_err(|e| Error::BadExport(e.to_string()))?;
    let mut elements = export.elements;
    if let Some(features) = export.features {
        elements
            .get_or_insert_default()
            .extend(features.into_iter().map(from_feature));
    }
    let elements = elements
        .ok_or_else(|| Error::BadExport("neither \"elements\" nor \"features\"".to_owned()))?;
    let (mut places, mut skipped, mut seen) = (
        Vec::new(),
        BTreeMap::new(),
        std::collections::HashSet::new(),
    );
    for element in elements {
        match place(&element) {
            Ok(place) if !seen.insert(place.source.clone()) => {
                *skipped.entry("repeated").or_insert(0) += 1
            }
            Ok(place) => places.push(place),
            Err(reason) => *skipped.entry(reason).or_insert(0) += 1,
        }
    }
    Ok((places, skipped))
}

fn from_feature(feature: Feature) -> Element {
    let point = feature
        .geometry
        .filter(|g| g.kind == "Point")
        .map(|g| g.coordinates)
        .unwrap_or_default();
    let id = match feature.id {
        Some(Value::Number(n)) => format!("feature/{n}"),
        Some(Value::String(s)) => s,
        _ => String::new(),
    };
    let (kind, number) = id.rsplit_once('/').unwrap_or(("feature", &id));
    Element {
        kind: kind.to_owned(),
        id: number.parse().unwrap_or(0),
        lat: point.get(1).and_then(Value::as_f64),
        lon: point.get(0).and_then(Value::as_f64),
        center: None,
        tags: feature.properties.unwrap_or_default(),
    }
}

fn place(element: &Element) -> Result<Place, &'static str> {
    let tag = |key: &str| {
        element
            .tags
            .get(key)
            .and_then(Value::as_str)
            .map(str::trim)
            .filter(|v| !v.is_empty())
    };
    let center = element.center.as_ref();
    let latitude = element
        .lat
        .or(center.map(|c| c.lat))
        .ok_or("no coordinates")?;
    let longitude = element
        .lon
        .or(center.map(|c| c.lon))
        .ok_or("no coordinates")?;
    let location = GeoPoint::new(latitude, longitude).map_err(|_| "coordinates out of range")?;
    let any_name = || {
        let mut names = element
            .tags
            .iter()
            .filter(|(key, _)| key.starts_with("name:"));
        names.find_map(|(_, value)| value.as_str().map(str::trim).filter(|v| !v.is_empty()))
    };
    let name = tag("name")
        .or_else(|| tag("name:en"))
        .or_else(any_name)
        .or_else(|| tag("brand"))
        .ok_or("no name")?;
    if element.id == 0 {
        return Err("no id");
    }
    let kind = KIND_TAGS.iter().find_map(|key| tag(key)).unwrap_or("other");
    let street = tag("addr:street").map(|street| match tag("addr:housenumber") {
        Some(number) => format!("{number} {street}"),
        None => street.to_owned(),
    });
    Ok(Place {
        source: format!("osm:{}/{}", element.kind, element.id),
        name: cut(name, NAME_CHARS),
        kind: cut(kind, 64).to_lowercase(),
        location,
        address: street
            .or_else(|| tag("addr:full").map(str::to_owned))
            .map(|a| cut(&a, NAME_CHARS)),
        area: tag("addr:district")
            .or_else(|| tag("addr:city"))
            .map(|a| cut(a, 128)),
        open_hours: tag("opening_hours").map(|h| cut(h, NAME_CHARS)),
    })
}

/// A text without what `check_text` refuses, cut to a number of characters.
fn cut(text: &str, chars: usize) -> String {
    let harmless =
        |c: &char| *c != '\0' && !matches!(*c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars().filter(harmless).take(chars).collect()
}

/// `fast_food` → `Fast food`.
fn title(code: &str) -> String {
    let words = code.replace('_', " ");
    let mut characters = words.chars();
    characters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(characters).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_where_it_is_and_what_has_none_is_left_out() {
        let export = r#"{"elements":[
            {"type":"node","id":1,"lat":21.0,"lon":105.8,"tags":{"amenity":"cafe","name":"A"}},
            {"type":"node","id":2,"lat":21.0,"lon":105.8,"tags":{"amenity":"cafe","name:vi":"B","name:en":"C"}},
            {"type":"node","id":3,"lat":21.0,"lon":105.8,"tags":{"amenity":"cafe","name:vi":"D"}},
            {"type":"way","id":4,"center":{"lat":21.0,"lon":105.8},"tags":{"amenity":"fast_food","brand":"E"}},
            {"type":"node","id":5,"lat":21.0,"lon":105.8,"tags":{"amenity":"cafe"}},
            {"type":"node","id":6,"tags":{"name":"F"}},
            {"type":"node","id":1,"lat":21.0,"lon":105.8,"tags":{"name":"A"}}
        ]}"#;
        let (places, skipped) = read(export).unwrap();
        let names: Vec<_> = places
            .iter()
            .map(|p| (p.name.as_str(), p.source.as_str()))
            .collect();
        assert_eq!(
            names,
            [
                ("A", "osm:node/1"),
                ("C", "osm:node/2"),
                ("D", "osm:node/3"),
                ("E", "osm:way/4")
            ]
        );
        assert_eq!(
            skipped,
            BTreeMap::from([("no name", 1), ("no coordinates", 1), ("repeated", 1)])
        );
        assert!(read("[]").is_err());
        assert!(read("{}").is_err());
    }

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
