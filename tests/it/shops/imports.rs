//! What an import takes from a file, and what comes of a file that says something else the next time.

use std::io::Cursor;

use entity::shop::{self, ShopStatus};
use sea_orm::{ColumnTrait, EntityTrait, PaginatorTrait, QueryFilter};
use serde_json::{Value, json};

use super::{DATA, ids, near, shop_id};
use crate::support::app::TestApp;
use crate::support::process::run;
use crate::support::stores::{Store, Stores, connect};

async fn import(app: &TestApp, elements: &Value) -> String {
    let export = json!({ "version": 0.6, "elements": elements }).to_string();
    let shops = &app.services().shops;
    let report = shops.import(Cursor::new(export), |_, _| {}).await.unwrap();
    report.to_string()
}

async fn by_source(app: &TestApp, source: &str) -> shop::Model {
    shop::Entity::find()
        .filter(shop::Column::Source.eq(source))
        .one(app.db())
        .await
        .unwrap()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_no_export_is_named_and_nothing_of_it_is_written() {
    let stores = Stores::create(Store::Sqlite).await;
    let conn = connect(stores.database_url.as_ref().unwrap()).await;
    let export = std::fs::read(DATA).unwrap();
    let texts = [
        &export[..export.len() / 2],
        b"{\"elements\":[{\"type\":\"node\",\"id\":\"one\",\"lat\":1,\"lon\":1,\"tags\":{\"name\":\"A\"}}]}",
        b"{\"elements\":[{\"type\":\"node\",\"id\":1,\"lat\":1,\"lon\":1,\"tags\":{\"name\":\"\xff\"}}]}",
    ];
    let broken = stores.folder.path().join("broken.json");
    for text in texts {
        std::fs::write(&broken, text).unwrap();
        let refused = run(
            &["import", "shops", broken.to_str().unwrap()],
            &stores.env(),
        )
        .await;
        assert!(!refused.status.success() && refused.stdout.is_empty());
        let told = &refused.stderr;
        assert!(
            told.contains("broken.json") && told.contains("cannot be read as an export"),
            "{told}"
        );
    }
    assert_eq!(shop::Entity::find().count(&conn).await.unwrap(), 0);
    conn.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn points_of_a_geojson_file_are_shops() {
    let point = |id: Value, at: Value, properties: Value| {
        json!({ "type": "Feature", "id": id, "properties": properties,
            "geometry": { "type": "Point", "coordinates": at } })
    };
    let mut area = point(
        json!("way/9"),
        json!([[[105.8, 21.0]]]),
        json!({ "name": "An area" }),
    );
    area["geometry"]["type"] = json!("Polygon");
    let mut nowhere = point(json!(8), Value::Null, json!({ "name": "Nowhere" }));
    nowhere["geometry"] = Value::Null;
    let features = [
        point(
            json!("node/1"),
            json!([105.85, 21.03]),
            json!({ "name": "Bún chả 🍜", "amenity": "restaurant" }),
        ),
        point(
            json!(2),
            json!([0, 0, 12.5]),
            json!({ "name:en": "Null Island", "shop": "sea_food" }),
        ),
        point(
            json!("node/3"),
            json!([105.85, 21.03]),
            json!({ "amenity": "cafe" }),
        ),
        point(
            json!("node/4"),
            json!([21.03, 105.85]),
            json!({ "name": "Swapped" }),
        ),
        point(
            json!("node/1"),
            json!([105.85, 21.03]),
            json!({ "name": "The first again" }),
        ),
        point(
            Value::Null,
            json!([105.85, 21.03]),
            json!({ "name": "Without an id" }),
        ),
        area,
        nowhere,
    ];
    let stores = Stores::create(Store::Sqlite).await;
    let file = stores.folder.path().join("points.geojson");
    let export = json!({ "type": "FeatureCollection", "features": features });
    std::fs::write(&file, export.to_string()).unwrap();
    for (imported, unchanged) in [(2, 0), (0, 2)] {
        let done = run(&["import", "shops", file.to_str().unwrap()], &stores.env()).await;
        let expected = format!(
            "imported {imported}, unchanged {unchanged}, skipped 6 (coordinates out of range: 1, no coordinates: 2, \
             no id: 1, no name: 1, repeated: 1)\n"
        );
        assert_eq!(done.stdout, expected, "{done:?}");
    }
    let conn = connect(stores.database_url.as_ref().unwrap()).await;
    let shops = shop::Entity::find().all(&conn).await.unwrap();
    let mut seen: Vec<_> = shops
        .iter()
        .map(|s| {
            (
                s.name.as_str(),
                s.latitude,
                s.longitude,
                s.source.as_deref(),
            )
        })
        .collect();
    seen.sort_by_key(|s| s.0);
    let expected = [
        ("Bún chả 🍜", 21.03, 105.85, Some("osm:node/1")),
        ("Null Island", 0.0, 0.0, Some("osm:feature/2")),
    ];
    assert_eq!(seen, expected);
    conn.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_element_that_changed_is_updated_and_found_where_it_is_now() {
    let app = TestApp::build().on(Store::Sqlite).start().await;
    let client = app.client();
    let (here, there) = ((21.03, 105.85), (21.05, 105.95));
    let mut elements = json!([
        { "type": "node", "id": 1, "lat": here.0, "lon": here.1, "tags": { "name": "Moves", "amenity": "cafe" } },
        { "type": "way", "id": 1, "center": { "lat": here.0, "lon": here.1 },
          "tags": { "name": "Stays", "amenity": "cafe" } },
        { "type": "node", "id": 2, "lat": here.0, "lon": here.1, "tags": { "name": "Closes", "amenity": "cafe" } },
    ]);
    assert_eq!(
        import(&app, &elements).await,
        "imported 3, unchanged 0, skipped 0"
    );
    let cafe = client.gql("{ shopTypes { id code } }", Value::Null).await;
    let types = cafe.list("shopTypes");
    let cafe = types.iter().find(|t| t["code"] == "cafe").unwrap()["id"].clone();
    let found = async |at, shop_type: &Value| {
        ids(
            &client,
            &format!("shopsNearby({} typeId: {shop_type})", near(at, 100)),
            50,
        )
        .await
    };
    assert_eq!(found(here, &cafe).await.len(), 3);

    // Its merchant closed it; the map does not open it again.
    let closes = by_source(&app, "osm:node/2").await;
    let admin = app.as_user(&app.admin().await);
    let close = "mutation($id: ID!) { closeShop(input: { shopId: $id }) { shop { status } } }";
    admin
        .gql(close, json!({ "id": shop_id(closes.id) }))
        .await
        .data();

    elements[0]["lat"] = json!(there.0);
    elements[0]["lon"] = json!(there.1);
    elements[0]["tags"] = json!({ "name": "Moved", "amenity": "bar", "addr:street": "Phố Huế", "addr:housenumber": "7" });
    elements[2]["tags"]["name"] = json!("Closed");
    let moves = by_source(&app, "osm:node/1").await;
    assert_eq!(
        import(&app, &elements).await,
        "imported 0, unchanged 1, updated 2, skipped 0"
    );
    let bar = client.gql("{ shopTypes { id code } }", Value::Null).await;
    let types = bar.list("shopTypes");
    let bar = types.iter().find(|t| t["code"] == "bar").unwrap()["id"].clone();
    let stays = shop_id(by_source(&app, "osm:way/1").await.id);
    assert_eq!(found(here, &cafe).await, [stays]);
    assert!(
        found(there, &cafe).await.is_empty(),
        "it is no café any more"
    );
    assert_eq!(found(there, &bar).await, [shop_id(moves.id)]);
    let query =
        "query($id: ID!) { shop(id: $id) { name address type { code } location { latitude } } }";
    let seen = client.gql(query, json!({ "id": shop_id(moves.id) })).await;
    let expected = json!({ "name": "Moved", "address": "7 Phố Huế", "type": { "code": "bar" }, "location": { "latitude": there.0 } });
    assert_eq!(seen.at("shop"), &expected);
    let closed = by_source(&app, "osm:node/2").await;
    assert_eq!(
        (closed.name.as_str(), closed.status),
        ("Closed", ShopStatus::Closed)
    );
    assert_eq!(
        import(&app, &elements).await,
        "imported 0, unchanged 3, skipped 0"
    );
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_may_not_be_in_a_text_is_left_out_of_a_name() {
    let app = TestApp::build().on(Store::Sqlite).start().await;
    let named = |id: i64, name: &str| json!({ "type": "node", "id": id, "lat": 21, "lon": 105, "tags": { "name": name } });
    let elements = json!([
        named(1, "Left\u{200e} and\u{202e} right\u{61c}\0"),
        named(2, "\u{202e}\u{2066}\0"),
        named(3, &"🍜".repeat(300)),
        named(4, " \u{3000} "),
    ]);
    assert_eq!(
        import(&app, &elements).await,
        "imported 2, unchanged 0, skipped 2 (no name: 2)"
    );
    assert_eq!(by_source(&app, "osm:node/1").await.name, "Left and right");
    assert_eq!(by_source(&app, "osm:node/3").await.name, "🍜".repeat(255));
    app.finish().await;
}
