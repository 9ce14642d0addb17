//! What is near: the same as measuring every shop, wherever on earth, page by page, whatever happens meanwhile.

use deadpool_redis::redis::cmd;
use entity::shop::{self, ShopStatus};
use futures_util::future::join_all;
use sea_orm::EntityTrait;
use serde_json::{Value, json};

use super::{DATA, LAKE, add_type, ids, insert, near, row, shop_id, type_id, walk};
use crate::support::app::TestApp;
use crate::support::client::Client;
use crate::support::sale::create_shop;
use crate::support::stores::Store;

/// The sphere that distances are told on, in metres.
const RADIUS_M: f64 = 6_372_797.560_856;
const UPDATE: &str =
    "mutation($input: UpdateShopInput!) { updateShop(input: $input) { shop { version } } }";

/// The angle between two places as the product measures it not: by their vectors.
fn metres(a: (f64, f64), b: (f64, f64)) -> f64 {
    let vector = |(latitude, longitude): (f64, f64)| {
        let (latitude, longitude) = (latitude.to_radians(), longitude.to_radians());
        let around = latitude.cos();
        [
            around * longitude.cos(),
            around * longitude.sin(),
            latitude.sin(),
        ]
    };
    let (a, b) = (vector(a), vector(b));
    let cross = [
        a[1] * b[2] - a[2] * b[1],
        a[2] * b[0] - a[0] * b[2],
        a[0] * b[1] - a[1] * b[0],
    ];
    let dot: f64 = a.iter().zip(&b).map(|(a, b)| a * b).sum();
    let sine = cross.iter().map(|c| c * c).sum::<f64>().sqrt();
    RADIUS_M * sine.atan2(dot)
}

/// Searches page by page, and compares with measuring all of `shops`: none is missing, none is twice, each distance is
/// right, the nearest is first. A shop within a millimetre of the circle may be on either side.
async fn assert_found(
    client: &Client,
    shops: &[shop::Model],
    at: (f64, f64),
    (radius, of_type, first): (u32, Option<i64>, usize),
) -> usize {
    let only = of_type.map_or_else(String::new, |t| format!(" typeId: \"{}\"", type_id(t)));
    let field = format!("shopsNearby({}{only})", near(at, radius));
    let edges = walk(client, (&field, "distanceMeters node { id }"), first).await;
    let mut expected: Vec<(f64, String)> = shops
        .iter()
        .filter(|s| s.status == ShopStatus::Open && of_type.is_none_or(|t| t == s.type_id))
        .map(|s| (metres(at, (s.latitude, s.longitude)), shop_id(s.id)))
        .filter(|(distance, _)| *distance <= f64::from(radius))
        .collect();
    let distances: Vec<f64> = edges
        .iter()
        .map(|e| e["distanceMeters"].as_f64().unwrap())
        .collect();
    assert!(distances.is_sorted(), "{field}: the nearest first");
    let mut found: Vec<(f64, String)> = Vec::new();
    for (edge, distance) in edges.iter().zip(distances) {
        found.push((distance, edge["node"]["id"].as_str().unwrap().to_owned()));
    }
    found.sort_by(|a, b| a.1.cmp(&b.1));
    expected.sort_by(|a, b| a.1.cmp(&b.1));
    let names = |list: &[(f64, String)]| list.iter().map(|(_, id)| id.clone()).collect::<Vec<_>>();
    assert_eq!(names(&found), names(&expected), "{field}");
    for (found, expected) in found.iter().zip(&expected) {
        assert!(
            (found.0 - expected.0).abs() < 0.5,
            "{field}: {found:?} {expected:?}"
        );
    }
    found.len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_places_are_found_in_pages_of_seven_also_by_type_and_after_redis_lost_them() {
    let app = TestApp::start().await;
    let export = std::fs::File::open(DATA).unwrap();
    app.services()
        .shops
        .import(export, |_, _| {})
        .await
        .unwrap();
    let shops = shop::Entity::find().all(app.db()).await.unwrap();
    let mut types: Vec<i64> = shops.iter().map(|s| s.type_id).collect();
    types.sort_unstable();
    types.dedup();
    assert_eq!(types.len(), 4);
    let client = app.client();
    let all = assert_found(&client, &shops, LAKE, (5_000, None, 7)).await;
    assert!(all > 500, "{all} shops within 5 km of the lake");
    for of_type in types {
        assert_found(&client, &shops, LAKE, (1_500, Some(of_type), 7)).await;
    }
    assert_found(&client, &shops, (21.06, 105.83), (2_500, None, 7)).await;

    let lost = async |pattern: &str| {
        let redis = app.redis();
        let keys: Vec<String> = redis
            .query(cmd("KEYS").arg(redis.key(pattern)))
            .await
            .unwrap();
        assert!(!keys.is_empty(), "{pattern}");
        redis.query::<i64>(cmd("DEL").arg(&keys)).await.unwrap();
    };
    lost("geo:*").await;
    // Many ask at once for what nobody has built yet.
    let asked =
        join_all((0..8).map(|_| assert_found(&client, &shops, LAKE, (800, None, 50)))).await;
    assert!(asked.iter().all(|count| count == &asked[0]), "{asked:?}");
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_date_line_the_greenwich_meridian_and_the_last_parallel_hide_nothing() {
    let edge = 85.051_128_78;
    let middles = [
        (0.0, 180.0),
        (10.0, 179.95),
        (-33.0, -179.99),
        (edge, 0.0),
        (84.9, 179.9),
        (-edge, -180.0),
        (0.0, 0.0),
        (51.48, 0.001),
    ];
    // Evenly strewn around each, never at random: a failure is the same the next time.
    let golden = |i: u32, step: f64| (f64::from(i) * step).fract() - 0.5;
    let mut shops = Vec::new();
    for (latitude, longitude) in middles {
        for i in 0..150 {
            let there: f64 = (latitude + golden(i, 0.754_877_666)).clamp(-edge, edge);
            let around = longitude + golden(i, 0.569_840_291) / f64::cos(there.to_radians());
            let around = (around + 540.0).rem_euclid(360.0) - 180.0;
            let id = i64::try_from(shops.len()).unwrap() + 1;
            shops.push(row(id, (there, around)));
        }
    }
    let app = TestApp::build().on(Store::Sqlite).start().await;
    insert(&app, &shops).await;
    let client = app.client();
    for at in middles {
        let few = assert_found(&client, &shops, at, (9_000, None, 7)).await;
        let many = assert_found(&client, &shops, at, (50_000, None, 50)).await;
        assert!(few < many && many > 30, "{at:?}: {few} of {many}");
    }
    // The two names of the date line are one place.
    let (west, east) = (near((0.0, -180.0), 20_000), near((0.0, 180.0), 20_000));
    let (west, east) = (
        ids(&client, &format!("shopsNearby({west})"), 50).await,
        ids(&client, &format!("shopsNearby({east})"), 50).await,
    );
    assert!(!west.is_empty());
    assert_eq!(west, east);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shops_at_one_place_come_once_each_and_zero_is_a_place() {
    let app = TestApp::build().on(Store::Sqlite).start().await;
    let tower: Vec<shop::Model> = (1..=40).map(|id| row(id, (0.0, 0.0))).collect();
    insert(&app, &tower).await;
    let expected: Vec<String> = (1..=40).map(shop_id).collect();
    let field = format!("shopsNearby({})", near((0.0, 0.0), 1));
    assert_eq!(ids(&app.client(), &field, 7).await, expected);
    assert_eq!(
        ids(&app.client(), &field, 40).await,
        expected,
        "one page and nothing after it"
    );
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_bounds_of_a_search_are_what_they_are_said_to_be() {
    let app = TestApp::build().on(Store::Sqlite).start().await;
    let client = app.client();
    let search = async |arguments: &str| {
        client
            .gql(
                &format!("{{ shopsNearby({arguments}) {{ edges {{ cursor }} }} }}"),
                Value::Null,
            )
            .await
    };
    let edges = [(85.051_128_78, 180.0), (-85.051_128_78, -180.0)];
    for at in edges {
        search(&near(at, 1)).await.data();
        search(&format!("{} first: 50", near(at, 50_000)))
            .await
            .data();
    }
    let beyond = [
        (85.051_128_79, 0.0),
        (-85.051_128_79, 0.0),
        (90.0, 0.0),
        (0.0, 180.000_1),
        (0.0, -180.000_1),
        (1e308, 0.0),
    ];
    for at in beyond {
        let refused = search(&near(at, 5_000)).await;
        let error = refused.expect_code("BAD_INPUT");
        assert_eq!(error["extensions"]["argument"], "center", "{at:?}");
        assert!(
            error["message"].as_str().unwrap().contains("85.05112878"),
            "it says the range"
        );
    }
    // Neither half a place, nor what JSON has no number for, comes as far as to us.
    for center in [
        "{ latitude: 21.0 }",
        "{ longitude: 105.8 }",
        "{ latitude: NaN, longitude: 0 }",
        "{ latitude: 1e999, longitude: 0 }",
        "{ latitude: null, longitude: 0 }",
    ] {
        let refused = search(&format!("center: {center}")).await;
        assert!(
            !refused.errors().is_empty() && refused.body["data"].is_null(),
            "{center}: {}",
            refused.body
        );
    }
    let a_shop = format!("{} typeId: \"{}\"", near(LAKE, 100), shop_id(1));
    let refused = search(&a_shop).await;
    assert_eq!(
        refused.expect_code("BAD_INPUT")["extensions"]["argument"],
        "typeId"
    );
    let no_type = format!("{} typeId: \"{}\"", near(LAKE, 100), type_id(999));
    assert!(search(&no_type).await.list("shopsNearby.edges").is_empty());
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shop_that_is_opened_moved_retyped_or_closed_is_right_at_once_on_the_other_node_too() {
    let mut app = TestApp::start().await;
    add_type(app.db(), 2, "tea").await;
    let elsewhere = app.second_node().await;
    let merchant = app.as_user(&app.merchant().await);
    let shop = create_shop(&merchant).await;
    let (old, new) = (LAKE, (-33.87, 151.21));
    let seen = async |at, of_type: Option<i64>| {
        let only = of_type.map_or_else(String::new, |t| format!(" typeId: \"{}\"", type_id(t)));
        ids(
            &elsewhere,
            &format!("shopsNearby({}{only})", near(at, 50)),
            50,
        )
        .await
    };
    let is_shop = std::slice::from_ref(&shop);
    assert_eq!(seen(old, None).await, is_shop);
    assert_eq!(seen(old, Some(1)).await, is_shop);
    let input = |at: (f64, f64), of_type| {
        json!({ "input": { "shopId": shop, "name": "Tea", "typeId": type_id(of_type),
            "location": { "latitude": at.0, "longitude": at.1 } } })
    };
    merchant.gql(UPDATE, input(old, 2)).await.data();
    assert_eq!(seen(old, Some(1)).await, [""; 0], "not of its old type");
    assert_eq!(seen(old, Some(2)).await, is_shop);
    assert_eq!(seen(old, None).await, is_shop);
    merchant.gql(UPDATE, input(new, 1)).await.data();
    for of_type in [None, Some(1), Some(2)] {
        assert_eq!(
            seen(old, of_type).await,
            [""; 0],
            "not at its old place, {of_type:?}"
        );
    }
    assert_eq!(seen(new, Some(2)).await, [""; 0]);
    assert_eq!(seen(new, Some(1)).await, is_shop);
    assert_eq!(seen(new, None).await, is_shop);

    // A place that is none changes nothing.
    let refused = merchant.gql(UPDATE, input((86.0, 0.0), 2)).await;
    assert_eq!(
        refused.expect_code("BAD_INPUT")["extensions"]["argument"],
        "input.location"
    );
    assert_eq!(seen(new, Some(1)).await, is_shop);
    let close = "mutation($id: ID!) { closeShop(input: { shopId: $id }) { shop { status } } }";
    merchant.gql(close, json!({ "id": shop })).await.data();
    merchant.gql(UPDATE, input(old, 2)).await.data();
    for at in [old, new] {
        for of_type in [None, Some(1), Some(2)] {
            assert_eq!(
                seen(at, of_type).await,
                [""; 0],
                "it stays closed, {of_type:?}"
            );
        }
    }
    app.finish().await;
}

/// Shops move on two nodes at once, while the index is built anew again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shops_that_move_while_the_index_is_built_are_found_where_they_are_in_the_end() {
    let mut app = TestApp::start().await;
    let other = app.second_node().await;
    let merchant = app.merchant().await;
    let nodes = [app.as_user(&merchant), other.as_user(&merchant)];
    let mut shops = Vec::new();
    for _ in 0..4 {
        shops.push(create_shop(&nodes[0]).await);
    }
    let moves = join_all(shops.iter().flat_map(|shop| nodes.iter().map(move |node| (shop, node))).map(
        |(shop, node)| async move {
            for step in 0..12 {
                let latitude = 10.0 + f64::from(step) * 3.0;
                let input = json!({ "shopId": shop, "name": "Stall on wheels", "typeId": type_id(1),
                    "location": { "latitude": latitude, "longitude": 20.0 } });
                let moved = node.gql(UPDATE, json!({ "input": input })).await;
                assert!(matches!(moved.code(), None | Some("TRY_LATER")), "{}", moved.body);
            }
        },
    ));
    let builds = async {
        for _ in 0..60 {
            app.services().shops.rebuild_geo_index().await.unwrap();
        }
    };
    tokio::join!(moves, builds);
    for place in shop::Entity::find().all(app.db()).await.unwrap() {
        let at = (place.latitude, place.longitude);
        let found = ids(&nodes[0], &format!("shopsNearby({})", near(at, 10)), 50).await;
        assert!(
            found.contains(&shop_id(place.id)),
            "{place:?} is not found where it is"
        );
    }
    app.finish().await;
}
