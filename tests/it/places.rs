//! Real places: imported once however often, found by distance in whole pages, and right at once when they change.

use std::collections::HashSet;
use std::time::Duration;

use domain::shops::GeoPoint;
use entity::shop::{self, ShopStatus};
use sea_orm::{ColumnTrait, EntityTrait, PaginatorTrait, QueryFilter};
use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::client::Client;
use crate::support::process::run;
use crate::support::sale::create_shop;
use crate::support::stores::{Store, Stores, connect};
use crate::support::wait::eventually;

const LAKE: (f64, f64) = (21.0287, 105.8524);
const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/osm-hanoi-food.json");

async fn import_places(app: &TestApp) {
    let export = std::fs::File::open(DATA).unwrap();
    app.services()
        .shops
        .import(export, |_, _| {})
        .await
        .unwrap();
}

/// All pages of a search, as (id, metres).
async fn walk(client: &Client, arguments: &str, first: usize) -> Vec<(String, f64)> {
    let (mut found, mut after) = (Vec::new(), Value::Null);
    loop {
        let query = format!(
            "query($after: String) {{ shopsNearby({arguments}, first: {first}, after: $after) {{
                edges {{ distanceMeters node {{ id }} }} pageInfo {{ hasNextPage endCursor }} }} }}"
        );
        let answer = client.gql(&query, json!({ "after": after })).await;
        for edge in answer.list("shopsNearby.edges") {
            let id = edge["node"]["id"].as_str().unwrap().to_owned();
            found.push((id, edge["distanceMeters"].as_f64().unwrap()));
        }
        if answer.at("shopsNearby.pageInfo.hasNextPage") == false {
            return found;
        }
        after = answer.at("shopsNearby.pageInfo.endCursor").clone();
    }
}

fn around(radius: u32) -> String {
    let (latitude, longitude) = LAKE;
    format!("center: {{ latitude: {latitude}, longitude: {longitude} }}, radiusMeters: {radius}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_is_imported_once_however_often_and_says_what_it_left_out() {
    let stores = Stores::create(Store::MariaDb).await;
    let env = stores.env();
    let first = run(&["import", "shops", DATA], &env).await;
    assert!(
        first
            .stdout
            .ends_with("imported 800, unchanged 0, skipped 26 (no name: 26)\n"),
        "{first:?}"
    );
    let again = run(&["import", "shops", DATA], &env).await;
    assert!(
        again
            .stdout
            .ends_with("imported 0, unchanged 800, skipped 26 (no name: 26)\n"),
        "{again:?}"
    );
    let conn = connect(stores.database_url.as_ref().unwrap()).await;
    assert_eq!(shop::Entity::find().count(&conn).await.unwrap(), 800);

    let broken = stores.folder.path().join("broken.json");
    for text in ["", "{", "[]", "{\"elements\":{}}", "\0"] {
        std::fs::write(&broken, text).unwrap();
        let refused = run(&["import", "shops", broken.to_str().unwrap()], &env).await;
        assert!(!refused.status.success(), "{text:?}");
        assert!(refused.stderr.contains("broken.json"), "{}", refused.stderr);
    }
    let missing = run(&["import", "shops", "/nowhere.json"], &env).await;
    assert!(
        !missing.status.success() && missing.stderr.contains("/nowhere.json"),
        "{missing:?}"
    );
    assert_eq!(shop::Entity::find().count(&conn).await.unwrap(), 800);

    // One place moved, and another lost its name.
    let moved = std::fs::read_to_string(DATA).unwrap().replacen(
        "\"lat\": 21.0217552",
        "\"lat\": 21.0317552",
        1,
    );
    std::fs::write(&broken, moved).unwrap();
    let changed = run(&["import", "shops", broken.to_str().unwrap()], &env).await;
    let expected = "imported 0, unchanged 799, updated 1, skipped 26 (no name: 26)\n";
    assert!(changed.stdout.ends_with(expected), "{changed:?}");
    conn.close().await.unwrap();
    stores.drop_database().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_search_is_what_measuring_every_shop_gives_in_whole_pages() {
    let app = TestApp::start().await;
    import_places(&app).await;
    let center = GeoPoint::new(LAKE.0, LAKE.1).unwrap();
    let open = shop::Entity::find()
        .filter(shop::Column::Status.eq(ShopStatus::Open))
        .all(app.db())
        .await
        .unwrap();
    let client = app.client();
    for radius in [150, 700, 5_000] {
        let mut expected: Vec<(String, f64)> = open
            .iter()
            .map(|s| {
                let place = GeoPoint {
                    latitude: s.latitude,
                    longitude: s.longitude,
                };
                (
                    schema::scalars::global_id("Shop", s.id).to_string(),
                    center.distance_m(&place),
                )
            })
            .filter(|(_, distance)| *distance <= f64::from(radius))
            .collect();
        expected.sort_by(|a, b| a.1.total_cmp(&b.1));
        let found = walk(&client, &around(radius), 50).await;
        assert_eq!(found.len(), expected.len(), "{radius} m");
        let ids: HashSet<_> = found.iter().map(|(id, _)| id).collect();
        assert_eq!(ids.len(), found.len(), "no shop twice");
        assert!(found.is_sorted_by(|a, b| a.1 <= b.1), "nearest first");
        for (found, expected) in found.iter().zip(&expected) {
            assert!((found.1 - expected.1).abs() < 0.5, "{found:?} {expected:?}");
        }
    }
    // Small pages are the same list.
    assert_eq!(
        walk(&client, &around(300), 7).await,
        walk(&client, &around(300), 50).await
    );

    // The index is built again when Redis lost it.
    let keys: Vec<String> = app
        .redis()
        .query(deadpool_redis::redis::cmd("KEYS").arg(app.redis().key("geo:*")))
        .await
        .unwrap();
    app.redis()
        .query::<i64>(deadpool_redis::redis::cmd("DEL").arg(&keys))
        .await
        .unwrap();
    assert!(!walk(&client, &around(300), 50).await.is_empty());
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_search_that_makes_no_sense_is_refused_by_the_arguments_name() {
    let app = TestApp::start().await;
    let lake = "center: { latitude: 21.0287, longitude: 105.8524 }";
    let cases = [
        (
            "center: { latitude: 85.06, longitude: 0 }".to_owned(),
            "center",
        ),
        (
            "center: { latitude: 0, longitude: 180.5 }".to_owned(),
            "center",
        ),
        (format!("{lake}, radiusMeters: 0"), "radiusMeters"),
        (format!("{lake}, radiusMeters: -5"), "radiusMeters"),
        (format!("{lake}, radiusMeters: 50001"), "radiusMeters"),
        (format!("{lake}, first: 0"), "first"),
        (format!("{lake}, first: 51"), "first"),
        (format!("{lake}, typeId: \"x\""), "typeId"),
    ];
    for (arguments, named) in cases {
        let query = format!("{{ shopsNearby({arguments}) {{ edges {{ cursor }} }} }}");
        let answer = app.gql(&query, Value::Null).await;
        assert_eq!(
            answer.expect_code("BAD_INPUT")["extensions"]["argument"],
            named,
            "{arguments}"
        );
    }
    let garbled = format!("{{ shopsNearby({lake}, after: \"abc\") {{ edges {{ cursor }} }} }}");
    app.gql(&garbled, Value::Null)
        .await
        .expect_code("BAD_CURSOR");
    let origin = "{ shopsNearby(center: { latitude: 0, longitude: 0 }) { edges { cursor } } }";
    assert!(
        app.gql(origin, Value::Null)
            .await
            .list("shopsNearby.edges")
            .is_empty(),
        "zero is a place"
    );
    let unknown = schema::scalars::global_id("Shop", 1).to_string();
    assert_eq!(
        app.gql(
            "query($id: ID!) { shop(id: $id) { id } }",
            json!({ "id": unknown })
        )
        .await
        .at("shop"),
        &Value::Null
    );
    app.gql("{ shop(id: \"x\") { id } }", Value::Null)
        .await
        .expect_code("BAD_INPUT");
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shop_that_moves_or_closes_is_right_at_once_and_is_its_merchants_alone() {
    let app = TestApp::start().await;
    let merchant = app.as_user(&app.merchant().await);
    let shop = create_shop(&merchant).await;
    let client = app.client();
    assert_eq!(walk(&client, &around(1_000), 50).await.len(), 1);
    let types = client.gql("{ shopTypes { id } }", Value::Null).await;
    let input = json!({ "shopId": shop, "name": "Noodles 🍜 by the river", "typeId": types.text("shopTypes.0.id"),
        "location": { "latitude": 21.06, "longitude": 105.9 } });
    let update = "mutation($input: UpdateShopInput!) { updateShop(input: $input) { shop { name version } } }";
    let stranger = app.as_user(&app.merchant().await);
    stranger
        .gql(update, json!({ "input": input }))
        .await
        .expect_code("FORBIDDEN");
    let moved = merchant.gql(update, json!({ "input": input })).await;
    assert_eq!(
        moved.text("updateShop.shop.name"),
        "Noodles 🍜 by the river"
    );
    assert!(
        walk(&client, &around(1_000), 50).await.is_empty(),
        "it is elsewhere now"
    );
    let there = "center: { latitude: 21.06, longitude: 105.9 }, radiusMeters: 50";
    assert_eq!(walk(&client, there, 50).await.len(), 1);

    for (name, argument) in [
        ("", "input.name"),
        ("a\0b", "input.name"),
        ("a\u{202e}b", "input.name"),
    ] {
        let mut bad = input.clone();
        bad["name"] = json!(name);
        let answer = merchant.gql(update, json!({ "input": bad })).await;
        assert_eq!(
            answer.expect_code("BAD_INPUT")["extensions"]["argument"],
            argument,
            "{name:?}"
        );
    }
    let close = "mutation($id: ID!) { closeShop(input: { shopId: $id }) { shop { status } } }";
    stranger
        .gql(close, json!({ "id": shop }))
        .await
        .expect_code("FORBIDDEN");
    merchant.gql(close, json!({ "id": shop })).await.data();
    eventually(Duration::from_secs(5), "an empty search", async || {
        walk(&client, there, 50).await.is_empty()
    })
    .await;
    let list = client
        .gql("{ shops { edges { node { id } } } }", Value::Null)
        .await;
    assert!(list.list("shops.edges").is_empty());
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_come_in_whole_pages_in_each_order_and_names_are_searched_as_written() {
    for store in [Store::MariaDb, Store::Postgres, Store::Sqlite] {
        let app = TestApp::build().on(store).start().await;
        import_places(&app).await;
        let client = app.client();
        for sort in ["NEWEST", "SCORE", "SOLD", "PRICE"] {
            let (mut seen, mut after) = (HashSet::new(), Value::Null);
            loop {
                let query = format!(
                    "query($after: String) {{ shops(sort: {sort}, first: 50, after: $after) {{
                        edges {{ node {{ id }} }} pageInfo {{ hasNextPage endCursor }} }} }}"
                );
                let answer = client.gql(&query, json!({ "after": after })).await;
                for edge in answer.list("shops.edges") {
                    assert!(
                        seen.insert(edge["node"]["id"].as_str().unwrap().to_owned()),
                        "{sort}: twice"
                    );
                }
                if answer.at("shops.pageInfo.hasNextPage") == false {
                    break;
                }
                after = answer.at("shops.pageInfo.endCursor").clone();
                let other = "query($after: String) { shops(filter: { name: \"a\" }, after: $after) { edges { cursor } } }";
                client
                    .gql(other, json!({ "after": after }))
                    .await
                    .expect_code("BAD_CURSOR");
            }
            assert_eq!(seen.len(), 800, "{sort} on {store:?}");
        }
        let search = async |name: &str| {
            let query = "query($name: String!) { shops(filter: { name: $name }, first: 50) { edges { node { name } } } }";
            client
                .gql(query, json!({ "name": name }))
                .await
                .list("shops.edges")
                .len()
        };
        assert!(
            search("cOfFeE").await > 10,
            "whatever the case, on {store:?}"
        );
        for wildcard in ["%", "_", "!%", "\\"] {
            assert!(
                search(wildcard).await < 5,
                "{wildcard} means itself on {store:?}"
            );
        }
        app.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_import_mends_the_index_and_leaves_alone_what_a_merchant_describes() {
    let app = TestApp::start().await;
    import_places(&app).await;
    let client = app.client();
    let before = walk(&client, &around(300), 50).await;
    // As an import leaves it that was killed between the database and Redis.
    let ids: Vec<String> = shop::Entity::find()
        .all(app.db())
        .await
        .unwrap()
        .iter()
        .map(|s| s.id.to_string())
        .collect();
    let mut forget = deadpool_redis::redis::cmd("ZREM");
    forget.arg(app.redis().key("geo:shops:all")).arg(ids);
    app.redis().query::<i64>(&forget).await.unwrap();
    assert!(walk(&client, &around(300), 50).await.is_empty());

    let (nearest, _) = &before[0];
    let number = schema::scalars::parse_id(&nearest.as_str().into(), "Shop", "id").unwrap();
    let merchant = app.merchant().await;
    let owner = Some(domain::users::UserId(merchant.id));
    let shops = &app.services().shops;
    shops
        .set_owner(domain::shops::ShopId(number), owner)
        .await
        .unwrap();
    let place = shop::Entity::find_by_id(number)
        .one(app.db())
        .await
        .unwrap()
        .unwrap();
    let input = json!({ "shopId": nearest, "name": "Renamed by its merchant",
        "typeId": schema::scalars::global_id("ShopType", place.type_id).to_string(),
        "location": { "latitude": place.latitude, "longitude": place.longitude } });
    let update =
        "mutation($input: UpdateShopInput!) { updateShop(input: $input) { shop { name } } }";
    app.as_user(&merchant)
        .gql(update, json!({ "input": input }))
        .await
        .data();

    let export = std::fs::File::open(DATA).unwrap();
    let report = shops.import(export, |_, _| {}).await.unwrap();
    assert_eq!(
        report.to_string(),
        "imported 0, unchanged 800, skipped 26 (no name: 26)"
    );
    assert_eq!(walk(&client, &around(300), 50).await, before);
    let seen = client
        .gql(
            "query($id: ID!) { shop(id: $id) { name } }",
            json!({ "id": nearest }),
        )
        .await;
    assert_eq!(seen.text("shop.name"), "Renamed by its merchant");
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn seeding_again_changes_nothing() {
    let stores = Stores::create(Store::MariaDb).await;
    let env = stores.env();
    let first = run(&["seed"], &env).await;
    assert!(
        first.stdout.starts_with(
            "shops: imported 800, unchanged 0, skipped 26 (no name: 26)\nflash sales published: 5\n"
        ),
        "{first:?}"
    );
    let conn = connect(stores.database_url.as_ref().unwrap()).await;
    let shops = shop::Entity::find().all(&conn).await.unwrap();
    let sales = entity::sale::Entity::find().all(&conn).await.unwrap();
    assert_eq!(shops.iter().filter(|s| s.owner_id.is_some()).count(), 5);
    let again = run(&["seed"], &env).await;
    assert!(
        again.stdout.starts_with(
            "shops: imported 0, unchanged 800, skipped 26 (no name: 26)\nflash sales published: 0\n"
        ),
        "{again:?}"
    );
    assert_eq!(shop::Entity::find().all(&conn).await.unwrap(), shops);
    assert_eq!(
        entity::sale::Entity::find().all(&conn).await.unwrap(),
        sales
    );
    conn.close().await.unwrap();
    stores.drop_database().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shop_on_the_very_edge_of_the_map_is_found_from_both_sides_of_it() {
    let app = TestApp::start().await;
    let merchant = app.as_user(&app.merchant().await);
    let (id, client) = (create_shop(&merchant).await, app.client());
    let update = "mutation($input: UpdateShopInput!) { updateShop(input: $input) { shop { location { latitude longitude } } } }";
    let shop_type = client
        .gql("{ shopTypes { id } }", Value::Null)
        .await
        .text("shopTypes.0.id")
        .to_owned();
    for (place, elsewhere) in [
        ((12.5, 180.0), [(12.5, -179.9999), (12.5, 179.9999)]),
        ((12.5, -180.0), [(12.5, 179.9999), (12.5, 180.0)]),
        ((85.051_128_78, 105.0), [(85.051, 105.0), (85.05, 105.0)]),
        (
            (-85.051_128_78, 180.0),
            [(-85.051, -179.9999), (-85.05, 180.0)],
        ),
    ] {
        let input = json!({ "shopId": id, "name": "At the edge", "typeId": shop_type,
            "location": { "latitude": place.0, "longitude": place.1 } });
        let moved = merchant.gql(update, json!({ "input": input })).await;
        assert_eq!(
            moved.at("updateShop.shop.location"),
            &json!({ "latitude": place.0, "longitude": place.1 }),
            "it is where its merchant says"
        );
        for (latitude, longitude) in elsewhere {
            let around = format!(
                "center: {{ latitude: {latitude}, longitude: {longitude} }}, radiusMeters: 150"
            );
            let found = walk(&client, &around, 5).await;
            assert_eq!(found.len(), 1, "{place:?} from {latitude}, {longitude}");
        }
    }
    app.finish().await;
}
