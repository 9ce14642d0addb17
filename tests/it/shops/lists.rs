//! Lists of shops: each order in whole pages while shops are added, names as they are written, cursors of one list.
//! On each database, because each compares and folds letters in its own way.

use std::collections::HashSet;

use entity::shop::{self, ShopStatus};
use serde_json::{Value, json};

use super::{LAKE, add_type, ids, insert, near, page, row, shop_id, type_id, walk, walk_with};
use crate::support::app::TestApp;
use crate::support::client::Client;
use crate::support::sale::create_shop;
use crate::support::stores::Store;

/// Names with everything in them that a pattern language may take for itself, and letters of several scripts.
const NAMES: [&str; 13] = [
    "100% Bún",
    "100 percent",
    "a_b Quán",
    "axb Quán",
    "Wow! Cà phê",
    "back\\slash",
    "[abc] *? .+ ^$ (bar|baz) {2}",
    "PHỞ ĐÊM",
    "Phở đêm",
    "phở Đêm 🍜",
    "Ốc Bông Quán",
    "ÉCLAIR",
    "Кафе ПУШКИНЪ",
];

/// What is looked for.
const SEARCHES: [&str; 32] = [
    "%",
    "_",
    "!",
    "\\",
    "[",
    "]",
    "*",
    "?",
    ".",
    "+",
    "^",
    "$",
    "(BAR|",
    "|",
    "{2}",
    "[ABC] *? .+ ^$ (bar|baz) {2}",
    "[ab]",
    "%b",
    "0%",
    "A_B",
    "wow! CÀ",
    "phở",
    "PHỞ",
    "pHở đÊM",
    "đêm 🍜",
    "🍜",
    "Ốc",
    "ốc bông quán",
    "éclair",
    "кафе пушкинъ",
    "' OR '1'='1",
    "n",
];

/// Sixty shops whose values come again and again, some without a price, some closed.
fn assorted() -> Vec<shop::Model> {
    let shop = |id: i64| shop::Model {
        score_tenths: i32::try_from(id * 7 % 5 * 10).unwrap(),
        sold_count: id * 11 % 8,
        average_price_minor: (id % 3 != 0).then_some(id * 13 % 6 * 1_000),
        currency: (id % 3 != 0).then(|| "VND".to_owned()),
        status: if id % 10 == 0 {
            ShopStatus::Closed
        } else {
            ShopStatus::Open
        },
        type_id: 1 + id % 2,
        ..row(id, LAKE)
    };
    (1..=60).map(shop).collect()
}

/// The ids that a list of this order has, from the rows.
fn expected(shops: &[shop::Model], sort: &str) -> Vec<String> {
    let mut open: Vec<_> = shops
        .iter()
        .filter(|s| s.status == ShopStatus::Open)
        .collect();
    open.sort_by_key(|s| match sort {
        "SCORE" => (-i64::from(s.score_tenths), -s.id),
        "SOLD" => (-s.sold_count, -s.id),
        "PRICE" => (s.average_price_minor.unwrap_or(i64::MAX), s.id),
        _ => (-s.id, 0),
    });
    open.into_iter().map(|s| shop_id(s.id)).collect()
}

async fn every_order_is_whole_while_shops_are_added(app: &TestApp) {
    let shops = assorted();
    insert(app, &shops).await;
    let (client, merchant) = (app.client(), app.as_user(&app.merchant().await));
    for sort in ["NEWEST", "SCORE", "SOLD", "PRICE"] {
        let field = format!("shops(sort: {sort})");
        let edges = walk_with(&client, (&field, "node { id }"), 7, async || {
            create_shop(&merchant).await;
        })
        .await;
        let seen: Vec<String> = edges
            .iter()
            .map(|e| e["node"]["id"].as_str().unwrap().to_owned())
            .collect();
        let unique: HashSet<&String> = seen.iter().collect();
        assert_eq!(unique.len(), seen.len(), "{sort}: none twice");
        let wanted = expected(&shops, sort);
        let old: Vec<String> = seen.into_iter().filter(|id| wanted.contains(id)).collect();
        assert_eq!(old, wanted, "{sort}: none left out, each in its place");
    }
    let of_type = format!(
        "shops(sort: PRICE filter: {{ typeId: \"{}\" }})",
        type_id(2)
    );
    let second: Vec<shop::Model> = shops.into_iter().filter(|s| s.type_id == 2).collect();
    assert_eq!(ids(&client, &of_type, 7).await, expected(&second, "PRICE"));
}

async fn names_are_found_as_they_are_written_whatever_the_case(app: &TestApp) {
    let mut shops: Vec<shop::Model> = Vec::new();
    for (id, name) in (1_000..).zip(NAMES) {
        shops.push(shop::Model {
            name: name.to_owned(),
            type_id: 3,
            ..row(id, LAKE)
        });
    }
    insert(app, &shops).await;
    let client = app.client();
    for part in SEARCHES {
        let query = "query($filter: ShopFilterInput!) { shops(filter: $filter) { edges { node { name } } } }";
        let filter = json!({ "filter": { "name": part, "typeId": type_id(3) } });
        let found = client.gql(query, filter).await;
        let names: Vec<&str> = found
            .list("shops.edges")
            .iter()
            .map(|e| e["node"]["name"].as_str().unwrap())
            .collect();
        let holds = |name: &&&str| name.to_lowercase().contains(&part.to_lowercase());
        let by_rust: HashSet<&str> = NAMES.iter().filter(holds).copied().collect();
        assert_eq!(names.len(), by_rust.len(), "{part:?} is in {names:?}");
        assert_eq!(
            names.into_iter().collect::<HashSet<_>>(),
            by_rust,
            "{part:?}"
        );
    }
    let by_name = format!(
        "shops(filter: {{ name: \"QUÁN\" typeId: \"{}\" }})",
        type_id(3)
    );
    assert_eq!(
        ids(&client, &by_name, 1).await,
        [1_010, 1_003, 1_002].map(shop_id),
        "in pages too"
    );
}

async fn lists_are_right_on(store: Store) {
    let app = TestApp::build().on(store).start().await;
    add_type(app.db(), 2, "tea").await;
    add_type(app.db(), 3, "named").await;
    every_order_is_whole_while_shops_are_added(&app).await;
    names_are_found_as_they_are_written_whatever_the_case(&app).await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_and_names_are_right_on_mariadb() {
    lists_are_right_on(Store::MariaDb).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_and_names_are_right_on_postgres() {
    lists_are_right_on(Store::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_and_names_are_right_on_sqlite() {
    lists_are_right_on(Store::Sqlite).await;
}

async fn assert_bad_cursor(client: &Client, field: &str, after: &Value) {
    let query =
        format!("query($after: String) {{ {field} after: $after) {{ edges {{ cursor }} }} }}");
    let answer = client.gql(&query, json!({ "after": after })).await;
    answer.expect_code("BAD_CURSOR");
    assert!(
        answer.body["data"].is_null(),
        "never page 1: {}",
        answer.body
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cursor_is_good_in_its_own_list_alone() {
    let app = TestApp::build().on(Store::Sqlite).start().await;
    let shops: Vec<shop::Model> = (1..=9).map(|id| row(id, LAKE)).collect();
    insert(&app, &shops).await;
    let client = app.client();
    let (here, kind) = (near(LAKE, 500), type_id(1));
    let lists = [
        "shops(first: 3".to_owned(),
        "shops(first: 3 sort: SCORE".to_owned(),
        "shops(first: 3 sort: PRICE".to_owned(),
        "shops(first: 3 filter: { name: \"shop\" }".to_owned(),
        "shops(first: 3 filter: { name: \"Shop\" }".to_owned(),
        format!("shops(first: 3 filter: {{ typeId: \"{kind}\" }}"),
        format!("shopsNearby(first: 3 {here}"),
        format!("shopsNearby(first: 3 {here} typeId: \"{kind}\""),
        format!("shopsNearby(first: 3 {}", near(LAKE, 501)),
        format!(
            "shopsNearby(first: 3 {}",
            near((21.0287, 105.852_400_1), 500)
        ),
        "flashSales(first: 3".to_owned(),
        format!("flashSales(first: 3 shopId: \"{}\"", shop_id(1)),
    ];
    for own in lists.iter().filter(|list| !list.starts_with("flash")) {
        let query = format!("{{ list: {own}) {{ edges {{ cursor }} }} }}");
        let cursor = client
            .gql(&query, Value::Null)
            .await
            .at("list.edges.2.cursor")
            .clone();
        for list in &lists {
            if list != own {
                assert_bad_cursor(&client, list, &cursor).await;
            }
        }
        // Another page size is the same list.
        let field = format!("{})", own.replace("first: 3", ""));
        let rest = page(&client, &field, "node { id }", 50, &cursor).await;
        assert_eq!(rest["edges"].as_array().unwrap().len(), 6, "{own}");
        for garbled in garble(cursor.as_str().unwrap()) {
            assert_bad_cursor(&client, own, &json!(garbled)).await;
        }
    }
    app.finish().await;
}

fn garble(cursor: &str) -> Vec<String> {
    let changed = |at: usize| {
        let mut bytes = cursor.as_bytes().to_vec();
        bytes[at] = if bytes[at] == b'x' { b'y' } else { b'x' };
        String::from_utf8(bytes).unwrap()
    };
    vec![
        changed(0),
        changed(cursor.len() - 2),
        cursor[..cursor.len() - 1].to_owned(),
        format!("{cursor}="),
        format!(" {cursor}"),
        cursor.repeat(2),
        String::new(),
        "0".to_owned(),
        "🍜".to_owned(),
        "A".repeat(5_000),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_that_makes_no_sense_is_refused_by_the_arguments_name() {
    let app = TestApp::build().on(Store::Postgres).start().await;
    let client = app.client();
    let query = "query($filter: ShopFilterInput, $first: Int) { shops(filter: $filter, first: $first) { edges { cursor } } }";
    let cases = [
        (json!({ "first": 0 }), "first"),
        (json!({ "first": -1 }), "first"),
        (json!({ "first": 51 }), "first"),
        (json!({ "filter": { "name": "" } }), "filter.name"),
        (
            json!({ "filter": { "name": "x".repeat(101) } }),
            "filter.name",
        ),
        (json!({ "filter": { "name": "a\0b" } }), "filter.name"),
        (json!({ "filter": { "typeId": "" } }), "filter.typeId"),
        (
            json!({ "filter": { "typeId": shop_id(1) } }),
            "filter.typeId",
        ),
    ];
    for (variables, argument) in cases {
        let refused = client.gql(query, variables.clone()).await;
        let error = refused.expect_code("BAD_INPUT");
        assert_eq!(error["extensions"]["argument"], argument, "{variables}");
    }
    let empty = client
        .gql(
            query,
            json!({ "filter": { "typeId": type_id(99), "name": "🍜".repeat(100) } }),
        )
        .await;
    assert!(empty.list("shops.edges").is_empty());
    assert!(walk(&client, ("shops", "node { id }"), 50).await.is_empty());
    app.finish().await;
}
