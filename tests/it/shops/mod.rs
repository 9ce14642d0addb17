//! Shops in every corner: what an import takes, what is near, lists and names on each database, and whose a shop is.
//! The plain way through them is in `places`.

mod imports;
mod lists;
mod nearby;
mod owners;
mod pictures;

use domain::shops::{GeoPoint, NearbyQuery};
use entity::shop::{self, ShopStatus};
use entity::shop_type;
use sea_orm::{DatabaseConnection, EntityTrait, IntoActiveModel};
use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::client::Client;

const LAKE: (f64, f64) = (21.0287, 105.8524);
const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/osm-hanoi-food.json");
/// Rows in one statement, for the database that takes the fewest parameters.
const ROWS: usize = 500;

fn shop_id(number: i64) -> String {
    schema::scalars::global_id("Shop", number).to_string()
}

fn type_id(number: i64) -> String {
    schema::scalars::global_id("ShopType", number).to_string()
}

/// An open shop of the type that every test has, as a row.
fn row(id: i64, (latitude, longitude): (f64, f64)) -> shop::Model {
    shop::Model {
        id,
        type_id: 1,
        owner_id: None,
        name: format!("Shop {id}"),
        images: "[]".to_owned(),
        area: None,
        address: None,
        latitude,
        longitude,
        average_price_minor: None,
        currency: None,
        sold_count: 0,
        comment_count: 0,
        score_tenths: 0,
        open_hours: None,
        source: None,
        status: ShopStatus::Open,
        created_at: 0,
        updated_at: 0,
        version: 1,
    }
}

/// Puts shops into the database by hand, and has the index built from it; not before that of the start is done.
async fn insert(app: &TestApp, shops: &[shop::Model]) {
    for rows in shops.chunks(ROWS) {
        let rows = rows.iter().cloned().map(IntoActiveModel::into_active_model);
        shop::Entity::insert_many(rows)
            .exec_without_returning(app.db())
            .await
            .unwrap();
    }
    let shops = &app.services().shops;
    let anywhere = NearbyQuery {
        center: GeoPoint::new(0.0, 0.0).unwrap(),
        radius_meters: 1,
        type_id: None,
        after: None,
        limit: 1,
    };
    shops.nearby(anywhere).await.unwrap();
    shops.rebuild_geo_index().await.unwrap();
}

/// One more type of shops, before anybody has asked for the types.
async fn add_type(conn: &DatabaseConnection, id: i64, code: &str) {
    let row = shop_type::Model {
        id,
        code: code.to_owned(),
        name: code.to_uppercase(),
        sort: 9,
        created_at: 0,
        version: 1,
    };
    shop_type::Entity::insert(row.into_active_model())
        .exec_without_returning(conn)
        .await
        .unwrap();
}

fn near((latitude, longitude): (f64, f64), radius: u32) -> String {
    format!("center: {{ latitude: {latitude:?}, longitude: {longitude:?} }} radiusMeters: {radius}")
}

async fn page(client: &Client, field: &str, edge: &str, first: usize, after: &Value) -> Value {
    let opened = if field.ends_with(')') {
        field.trim_end_matches(')').to_owned()
    } else {
        format!("{field}(")
    };
    let query = format!(
        "query($after: String) {{ page: {opened} first: {first} after: $after) {{
            edges {{ cursor {edge} }} pageInfo {{ hasNextPage endCursor }} }} }}"
    );
    let answer = client.gql(&query, json!({ "after": after })).await;
    answer.at("page").clone()
}

/// All edges of a list, page by page; `between` happens after each page. Every page but the last is full, and the last
/// is not empty unless it is the only one.
async fn walk_with(
    client: &Client,
    (field, edge): (&str, &str),
    first: usize,
    mut between: impl AsyncFnMut(),
) -> Vec<Value> {
    let (mut found, mut after) = (Vec::new(), Value::Null);
    loop {
        let page = page(client, field, edge, first, &after).await;
        let edges = page["edges"].as_array().unwrap();
        let last = edges.last().map_or(&Value::Null, |edge| &edge["cursor"]);
        assert_eq!(&page["pageInfo"]["endCursor"], last, "{field}");
        found.extend(edges.iter().cloned());
        if page["pageInfo"]["hasNextPage"] == false {
            assert!(!edges.is_empty() || after.is_null(), "an empty last page");
            return found;
        }
        assert_eq!(edges.len(), first, "a page is full when more follow");
        after = last.clone();
        between().await;
    }
}

async fn walk(client: &Client, list: (&str, &str), first: usize) -> Vec<Value> {
    walk_with(client, list, first, async || ()).await
}

/// Ids of the shops of a list.
async fn ids(client: &Client, field: &str, first: usize) -> Vec<String> {
    let edges = walk(client, (field, "node { id }"), first).await;
    let id = |edge: &Value| edge["node"]["id"].as_str().unwrap().to_owned();
    edges.iter().map(id).collect()
}
