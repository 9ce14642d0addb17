//! What an export of OpenStreetMap holds, as places that can be shops: Overpass JSON, or GeoJSON points. Knows no store.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::{Error, GeoPoint};
use crate::infra::text::check_text;

/// Texts are cut to what their columns take, in characters.
const TEXT_CHARS: usize = 255;
const AREA_CHARS: usize = 128;
const KIND_CHARS: usize = 64;
/// Some programs write it before the text.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();
/// The tag keys that say what a place is, in the order they are looked at.
const KIND_TAGS: [&str; 6] = ["amenity", "shop", "tourism", "leisure", "craft", "office"];

/// A place of an export that can be a shop.
pub(super) struct Place {
    /// Where it comes from, the same in each export: `osm:node/123`.
    pub(super) source: String,
    /// Its name, not blank.
    pub(super) name: String,
    /// The code of its type.
    pub(super) kind: String,
    pub(super) location: GeoPoint,
    pub(super) address: Option<String>,
    pub(super) area: Option<String>,
    pub(super) open_hours: Option<String>,
}

#[derive(Deserialize)]
struct Element {
    #[serde(rename = "type")]
    kind: String,
    id: i64,
    lat: Option<f64>,
    lon: Option<f64>,
    center: Option<Center>,
    tags: Option<Map<String, Value>>,
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
    #[serde(default)]
    coordinates: Value,
}

/// Reads an export from its beginning to its end, and hands on each place that can be a shop, or why it is left out:
/// each source once. Nothing but what tells sources apart is kept. `each` answers whether to go on.
///
/// # Errors
/// `BadExport`.
pub(super) fn read(
    export: impl Read,
    mut each: impl FnMut(Result<Place, &'static str>) -> bool,
) -> Result<(), Error> {
    let bad = |e: &dyn std::fmt::Display| Error::BadExport(e.to_string());
    let mut export = BufReader::new(export);
    let begin = export.fill_buf().map_err(|e| bad(&e))?;
    if begin.starts_with(BYTE_ORDER_MARK) {
        export.consume(BYTE_ORDER_MARK.len());
    }
    let mut sources = Sources::default();
    let mut stopped = false;
    let mut whole = serde_json::Deserializer::from_reader(export);
    let found = Export(&mut |element: &Element| {
        let place = place(element).and_then(|place| match sources.is_new(element) {
            true => Ok(place),
            false => Err("repeated"),
        });
        stopped = !each(place);
        !stopped
    })
    .deserialize(&mut whole);
    match found {
        _ if stopped => Ok(()),
        Ok(true) => whole.end().map_err(|e| bad(&e)),
        Ok(false) => Err(bad(&"neither \"elements\" nor \"features\"")),
        Err(e) => Err(bad(&e)),
    }
}

/// The sources that were seen: a few bytes each, whatever their names' length.
#[derive(Default)]
struct Sources {
    kinds: HashMap<String, usize>,
    seen: HashSet<(usize, i64)>,
}

impl Sources {
    fn is_new(&mut self, element: &Element) -> bool {
        let kind = match self.kinds.get(&element.kind) {
            Some(kind) => *kind,
            None => {
                let kind = self.kinds.len();
                self.kinds.insert(element.kind.clone(), kind);
                kind
            }
        };
        self.seen.insert((kind, element.id))
    }
}

/// A whole export, read element by element. Answers whether there was a list of them.
struct Export<'a, F>(&'a mut F);

impl<'de, F: FnMut(&Element) -> bool> DeserializeSeed<'de> for Export<'_, F> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<bool, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de, F: FnMut(&Element) -> bool> Visitor<'de> for Export<'_, F> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with \"elements\" or \"features\"")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<bool, M::Error> {
        let mut found = false;
        while let Some(key) = map.next_key::<String>()? {
            found |= match key.as_str() {
                "elements" => map.next_value_seed(List::of(|e: Element| (self.0)(&e)))?,
                "features" => {
                    map.next_value_seed(List::of(|f: Feature| (self.0)(&from_feature(f))))?
                }
                _ => map.next_value::<IgnoredAny>().map(|_| false)?,
            };
        }
        Ok(found)
    }
}

/// A list that is handed on item by item. Answers whether it was one, and not null.
struct List<T, F>(F, PhantomData<T>);

impl<T, F: FnMut(T) -> bool> List<T, F> {
    fn of(each: F) -> Self {
        Self(each, PhantomData)
    }
}

impl<'de, T: Deserialize<'de>, F: FnMut(T) -> bool> DeserializeSeed<'de> for List<T, F> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<bool, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de, T: Deserialize<'de>, F: FnMut(T) -> bool> Visitor<'de> for List<T, F> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_unit<E>(self) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_seq<S: SeqAccess<'de>>(mut self, mut list: S) -> Result<bool, S::Error> {
        while let Some(item) = list.next_element()? {
            if !(self.0)(item) {
                return Err(serde::de::Error::custom("stopped"));
            }
        }
        Ok(true)
    }
}

/// A feature of GeoJSON as an element of Overpass. Its id is `node/123`, beside its properties or among them as `@id`.
fn from_feature(feature: Feature) -> Element {
    let point = feature
        .geometry
        .filter(|g| g.kind == "Point")
        .map(|g| g.coordinates)
        .unwrap_or_default();
    let tags = feature.properties.unwrap_or_default();
    let id = match feature.id.as_ref().or_else(|| tags.get("@id")) {
        Some(Value::Number(n)) => format!("feature/{n}"),
        Some(Value::String(s)) => s.clone(),
        _ => String::new(),
    };
    let (kind, number) = id.rsplit_once('/').unwrap_or(("feature", &id));
    Element {
        kind: kind.to_owned(),
        id: number.parse().unwrap_or(0),
        lat: point.get(1).and_then(Value::as_f64),
        lon: point.get(0).and_then(Value::as_f64),
        center: None,
        tags: Some(tags),
    }
}

fn place(element: &Element) -> Result<Place, &'static str> {
    let tag = |key: &str, chars| clean(element.tags.as_ref()?.get(key)?, chars);
    let kind = KIND_TAGS.iter().find_map(|key| tag(key, KIND_CHARS));
    let street = tag("addr:street", TEXT_CHARS).map(|street| {
        let number = tag("addr:housenumber", TEXT_CHARS);
        number.map_or_else(|| street.clone(), |number| format!("{number} {street}"))
    });
    let address = street.or_else(|| tag("addr:full", TEXT_CHARS));
    let place = Place {
        location: location(element)?,
        name: name(element).ok_or("no name")?,
        source: format!("osm:{}/{}", element.kind, element.id),
        kind: code(kind.as_deref().unwrap_or("other")),
        address: address.map(|a| a.chars().take(TEXT_CHARS).collect()),
        area: tag("addr:district", AREA_CHARS).or_else(|| tag("addr:city", AREA_CHARS)),
        open_hours: tag("opening_hours", TEXT_CHARS),
    };
    if element.id == 0 {
        return Err("no id");
    }
    Ok(place)
}

/// Where it is; a way has its coordinates in its centre.
fn location(element: &Element) -> Result<GeoPoint, &'static str> {
    let center = element.center.as_ref();
    let latitude = element.lat.or(center.map(|c| c.lat));
    let longitude = element.lon.or(center.map(|c| c.lon));
    let (latitude, longitude) = latitude.zip(longitude).ok_or("no coordinates")?;
    GeoPoint::new(latitude, longitude).map_err(|_| "coordinates out of range")
}

/// Its name as written there, else in English, else in the first language of the export, else its brand.
fn name(element: &Element) -> Option<String> {
    let tags = element.tags.as_ref()?;
    let tag = |key: &str| clean(tags.get(key)?, TEXT_CHARS);
    let in_any_language = || {
        let mut names = tags.iter().filter(|(key, _)| key.starts_with("name:"));
        names.find_map(|(_, value)| clean(value, TEXT_CHARS))
    };
    tag("name")
        .or_else(|| tag("name:en"))
        .or_else(in_any_language)
        .or_else(|| tag("brand"))
}

/// A text without the characters that people's texts may not hold and without blanks at its ends, cut to a number of
/// characters; `None` when nothing is left.
fn clean(value: &Value, chars: usize) -> Option<String> {
    let harmful = |c: char| check_text("tags", c.encode_utf8(&mut [0; 4]), 0, 1).is_err();
    let text = value.as_str()?.replace(harmful, "");
    let text: String = text.trim().chars().take(chars).collect();
    (!text.is_empty()).then_some(text)
}

/// The code of a type: of several values the first, in lower case.
fn code(kind: &str) -> String {
    let first = kind.split(';').map(str::trim).find(|k| !k.is_empty());
    let code = first.unwrap_or("other").to_lowercase();
    code.chars().take(KIND_CHARS).collect()
}

/// The name of a type to show: `fast_food` → `Fast food`.
pub(super) fn title(code: &str) -> String {
    let words = code.replace('_', " ");
    let mut characters = words.chars();
    characters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(characters).collect()
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn read(text: &str) -> Result<(Vec<Place>, BTreeMap<&'static str, u64>), Error> {
        let (mut places, mut skipped) = (Vec::new(), BTreeMap::new());
        super::read(text.as_bytes(), |place| {
            match place {
                Ok(place) => places.push(place),
                Err(reason) => *skipped.entry(reason).or_insert(0) += 1,
            }
            true
        })?;
        Ok((places, skipped))
    }

    #[test]
    fn a_name_is_found_where_it_is_and_what_has_none_is_left_out() {
        let export = r#"{"elements":[
            {"type":"node","id":1,"lat":21.0,"lon":105.8,"tags":{"amenity":"cafe","name":"A"}},
            {"type":"node","id":2,"lat":21.0,"lon":105.8,"tags":{"amenity":"cafe","name:vi":"B","name:en":"C"}},
            {"type":"node","id":3,"lat":21.0,"lon":105.8,"tags":{"amenity":"cafe","name:vi":"D","name:ar":"X"}},
            {"type":"way","id":4,"center":{"lat":21.0,"lon":105.8},"tags":{"amenity":"fast_food","brand":"E"}},
            {"type":"node","id":5,"lat":21.0,"lon":105.8,"tags":{"amenity":"cafe"}},
            {"type":"node","id":6,"tags":{"name":"F"}},
            {"type":"node","id":1,"lat":21.0,"lon":105.8,"tags":{"name":"A"}},
            {"type":"node","id":7,"lat":21.0,"lon":105.8,"tags":{"name":" \u200f\u202e ","brand":"G\u0000"}},
            {"type":"node","id":8,"lat":0,"lon":0,"tags":{"name":"H"}},
            {"type":"node","id":9,"lat":86.0,"lon":0,"tags":{"name":"I"}},
            {"type":"node","id":10,"lat":21.0,"lon":105.8,"tags":null}
        ]}"#;
        let (places, skipped) = read(&format!("\u{feff}{export}")).unwrap();
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
                ("E", "osm:way/4"),
                ("G", "osm:node/7"),
                ("H", "osm:node/8"),
            ]
        );
        assert_eq!(
            skipped,
            BTreeMap::from([
                ("coordinates out of range", 1),
                ("no coordinates", 1),
                ("no name", 2),
                ("repeated", 1)
            ])
        );
        for bad in [
            "[]",
            "{}",
            "{\"elements\":null}",
            "{\"elements\":[]} x",
            "{\"elements\":[{}]}",
            "{\"elements\":[",
            "",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
        assert!(
            read("{\"elements\":[],\"features\":null}")
                .unwrap()
                .0
                .is_empty()
        );
    }

    #[test]
    fn a_place_has_its_type_address_and_hours() {
        let export = r#"{"elements":[{"type":"node","id":1,"lat":21.0,"lon":105.8,"tags":{"amenity":"Cafe; bar","name":"A",
            "addr:housenumber":"12","addr:street":"Hàng Bạc","addr:city":"Hà Nội","opening_hours":"Mo-Su 07:00-22:00"}}]}"#;
        let (places, _) = read(export).unwrap();
        let place = &places[0];
        assert_eq!(place.kind, "cafe");
        assert_eq!(place.address.as_deref(), Some("12 Hàng Bạc"));
        assert_eq!(place.area.as_deref(), Some("Hà Nội"));
        assert_eq!(place.open_hours.as_deref(), Some("Mo-Su 07:00-22:00"));
        assert_eq!(title("fast_food"), "Fast food");
    }

    #[test]
    fn points_of_geojson_are_the_same_places_and_other_shapes_have_no_coordinates() {
        let export = r#"{"type":"FeatureCollection","features":[
            {"type":"Feature","id":"node/1","geometry":{"type":"Point","coordinates":[105.8,21.0]},"properties":{"amenity":"cafe","name":"A"}},
            {"type":"Feature","geometry":{"type":"Point","coordinates":[105.8,21.0]},"properties":{"@id":"way/2","name":"B"}},
            {"type":"Feature","id":3,"geometry":{"type":"Point","coordinates":[105.8,21.0]},"properties":{"name":"C"}},
            {"type":"Feature","geometry":{"type":"Point","coordinates":[105.8,21.0]},"properties":{"name":"D"}},
            {"type":"Feature","id":"way/5","geometry":{"type":"Polygon","coordinates":[[[105.8,21.0]]]},"properties":{"name":"E"}},
            {"type":"Feature","id":"way/6","geometry":{"type":"GeometryCollection","geometries":[]},"properties":{"name":"F"}},
            {"type":"Feature","id":"way/7","geometry":null,"properties":null}
        ]}"#;
        let (places, skipped) = read(export).unwrap();
        let found: Vec<_> = places
            .iter()
            .map(|p| (p.source.as_str(), p.location.latitude))
            .collect();
        let expected = [
            ("osm:node/1", 21.0),
            ("osm:way/2", 21.0),
            ("osm:feature/3", 21.0),
        ];
        assert_eq!(found, expected);
        assert_eq!(
            skipped,
            BTreeMap::from([("no coordinates", 3), ("no id", 1)])
        );
    }
}
