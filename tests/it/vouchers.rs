//! Vouchers and the lists of sales in every corner; the plain refusals and whose drafts are whose are in `offers`.

use std::collections::HashSet;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use entity::{sale, voucher};
use sea_orm::{EntityTrait, PaginatorTrait};
use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::client::{Answer, Client};
use crate::support::people::TestUser;
use crate::support::sale::{
    SaleBuilder, cancel, create_shop, order as read_order, publish, seckill,
};
use crate::support::stores::Store;
use crate::support::wait::eventually;

const LIMIT: Duration = Duration::from_secs(20);
const CREATE: &str =
    "mutation($input: CreateVoucherInput!) { createVoucher(input: $input) { voucher { id } } }";

fn at(wait: TimeDelta) -> String {
    let moment: DateTime<Utc> = Utc::now() + wait;
    moment.to_rfc3339()
}

fn in_minutes(minutes: i64) -> Value {
    json!(at(TimeDelta::minutes(minutes)))
}

fn offer(shop: &str) -> Value {
    json!({ "shopId": shop, "kind": "ORDINARY", "title": "Egg coffee", "payPrice": "12.50", "value": "20.00", "currencyCode": "USD" })
}

fn sale_offer(shop: &str) -> Value {
    let mut offer = offer(shop);
    offer["kind"] = json!("SECKILL");
    offer["sale"] = json!({ "startsAt": in_minutes(5), "endsAt": in_minutes(10), "total": 5, "perUserLimit": 3, "maxAttempts": 4 });
    offer
}

async fn create(merchant: &Client, input: &Value) -> Answer {
    merchant.gql(CREATE, json!({ "input": input })).await
}

async fn made(merchant: &Client, input: &Value) -> String {
    create(merchant, input)
        .await
        .text("createVoucher.voucher.id")
        .to_owned()
}

async fn change(merchant: &Client, mutation: &str, voucher: &str) {
    let query = format!(
        "mutation($v: ID!) {{ {mutation}(input: {{ voucherId: $v }}) {{ sale {{ state }} }} }}"
    );
    merchant.gql(&query, json!({ "v": voucher })).await.data();
}

/// Ids of a list of vouchers, from pages of this size; `path` leads to the list's connection.
async fn listed(client: &Client, field: &str, path: &str, first: usize) -> Vec<String> {
    let (mut found, mut after) = (Vec::new(), Value::Null);
    loop {
        let query = format!("query($first: Int, $after: String) {{ {field} }}")
            .replace("PAGE", "first: $first, after: $after")
            .replace(
                "LIST",
                "edges { node { id } } pageInfo { hasNextPage endCursor }",
            );
        let answer = client
            .gql(&query, json!({ "first": first, "after": after }))
            .await;
        let list = answer.at(path);
        let edges = list["edges"].as_array().unwrap();
        found.extend(
            edges
                .iter()
                .map(|e| e["node"]["id"].as_str().unwrap().to_owned()),
        );
        if list["pageInfo"]["hasNextPage"] == false {
            return found;
        }
        assert_eq!(edges.len(), first);
        after = list["pageInfo"]["endCursor"].clone();
    }
}

async fn sales(client: &Client, arguments: &str, first: usize) -> Vec<String> {
    let field = format!("flashSales({arguments} PAGE) {{ LIST }}");
    listed(client, &field, "flashSales", first).await
}

async fn of_shop(client: &Client, shop: &str, first: usize) -> Vec<String> {
    let field = format!("shop(id: \"{shop}\") {{ vouchers(PAGE) {{ LIST }} }}");
    listed(client, &field, "shop.vouchers", first).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_names_the_argument_and_writes_nothing() {
    let app = TestApp::build().on(Store::Sqlite).start().await;
    let merchant = app.as_user(&app.merchant().await);
    let shop = create_shop(&merchant).await;
    let other_id = schema::scalars::global_id("Voucher", 1).to_string();
    let past = json!({ "startsAt": in_minutes(-20), "endsAt": in_minutes(-10), "total": 5 });
    let mut cases = vec![
        ("/sale", past, "sale.endsAt"),
        ("/sale/startsAt", in_minutes(11), "sale.endsAt"),
        ("/sale/perUserLimit", json!(5), "sale.maxAttempts"),
        ("/sale/maxAttempts", json!(2), "sale.maxAttempts"),
        ("/sale/maxAttempts", json!(101), "sale.maxAttempts"),
        ("/sale/total", json!(-1), "sale.total"),
        ("/sale/total", json!(i32::MAX), "sale.total"),
        ("/sale/perUserLimit", json!(-1), "sale.perUserLimit"),
        ("/shopId", json!(other_id), "shopId"),
        ("/value", json!("20.001"), "value"),
        ("/value", json!("10000000000.01"), "value"),
        ("/currencyCode", json!("VND"), "payPrice"),
        ("/title", json!(" \u{3000} "), "title"),
    ];
    for amount in [
        "",
        " 1",
        "1.",
        ".5",
        "+1",
        "1,5",
        "0x1",
        "１",
        "1_0",
        "NaN",
        "99999999999999999999",
    ] {
        cases.push(("/payPrice", json!(amount), "payPrice"));
    }
    for text in ["a\0b", "a\u{202e}b", "\u{2067}"] {
        for (pointer, field) in [
            ("/title", "title"),
            ("/subTitle", "subTitle"),
            ("/rules", "rules"),
        ] {
            cases.push((pointer, json!(text), field));
        }
    }
    cases.push(("/subTitle", json!("x".repeat(256)), "subTitle"));
    for (pointer, value, argument) in &cases {
        let mut input = sale_offer(&shop);
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        input.pointer_mut(parent).unwrap()[field] = value.clone();
        let refused = create(&merchant, &input).await;
        let named = &refused.expect_code("BAD_INPUT")["extensions"]["argument"];
        assert_eq!(
            named,
            &json!(format!("input.{argument}")),
            "{pointer}: {value}"
        );
    }
    for currency in ["XXX", "usd", "", "US", "USDT"] {
        let mut input = sale_offer(&shop);
        input["currencyCode"] = json!(currency);
        let refused = create(&merchant, &input).await;
        let error = refused.expect_code("BAD_INPUT");
        assert_eq!(
            error["extensions"]["argument"], "input.currencyCode",
            "{error}"
        );
    }
    let mut unknown = sale_offer(&shop);
    unknown["shopId"] = json!(schema::scalars::global_id("Shop", 9).to_string());
    create(&merchant, &unknown).await.expect_code("NOT_FOUND");
    create(&app.as_user(&app.user().await), &sale_offer(&shop))
        .await
        .expect_code("FORBIDDEN");
    create(&app.client(), &sale_offer(&shop))
        .await
        .expect_code("UNAUTHENTICATED");
    let rows = voucher::Entity::find().count(app.db()).await.unwrap()
        + sale::Entity::find().count(app.db()).await.unwrap();
    assert_eq!(rows, 0);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_largest_and_the_smallest_that_is_allowed_is_taken() {
    let app = TestApp::build().on(Store::Sqlite).start().await;
    let merchant = app.as_user(&app.merchant().await);
    let shop = create_shop(&merchant).await;
    let sizes = [
        (1, 1, 1),
        (1_000_000, 10, 10),
        (1_000_000, 10, 100),
        (1, 10, 100),
    ];
    let seen = "query($v: ID!) { voucher(id: $v) { title subTitle rules sale { total stock perUserLimit maxAttempts } } }";
    for (total, limit, attempts) in sizes {
        let mut input = sale_offer(&shop);
        input["sale"]["total"] = json!(total);
        input["sale"]["perUserLimit"] = json!(limit);
        input["sale"]["maxAttempts"] = json!(attempts);
        let (title, sub_title, rules) = ("🍜".repeat(128), "☕".repeat(255), "👩‍👩‍👧\n".repeat(333));
        input["title"] = json!(title);
        input["subTitle"] = json!(sub_title);
        input["rules"] = json!(rules);
        let id = made(&merchant, &input).await;
        let sale = json!({ "total": total, "stock": total, "perUserLimit": limit, "maxAttempts": attempts });
        let expected =
            json!({ "title": title, "subTitle": sub_title, "rules": rules, "sale": sale });
        assert_eq!(
            merchant.gql(seen, json!({ "v": id })).await.at("voucher"),
            &expected
        );
    }
    app.finish().await;
}

async fn money_is_exact_on(store: Store) {
    let app = TestApp::build().on(store).start().await;
    let merchant = app.as_user(&app.merchant().await);
    let shop = create_shop(&merchant).await;
    let cases = [
        ("USD", "12.50", "12.50", 1_250),
        ("USD", "12.5", "12.50", 1_250),
        ("USD", "3", "3.00", 300),
        ("EUR", "0.07", "0.07", 7),
        ("CNY", "0", "0.00", 0),
        ("VND", "199000", "199000", 199_000),
        ("JPY", "1", "1", 1),
        ("KWD", "1.005", "1.005", 1_005),
        ("USD", "10000000000.00", "10000000000.00", 1_000_000_000_000),
    ];
    for (currency, sent, shown, minor) in cases {
        let mut input = offer(&shop);
        for (field, value) in [
            ("currencyCode", currency),
            ("payPrice", sent),
            ("value", sent),
        ] {
            input[field] = json!(value);
        }
        let id = made(&merchant, &input).await;
        let query = "query($v: ID!) { voucher(id: $v) { kind sale { total } payPrice { amount currencyCode } value { amount currencyCode } } }";
        let money = json!({ "amount": shown, "currencyCode": currency });
        let expected =
            json!({ "kind": "ORDINARY", "sale": null, "payPrice": money, "value": money });
        assert_eq!(
            app.gql(query, json!({ "v": id })).await.at("voucher"),
            &expected
        );
        let number = schema::scalars::parse_id(&id.into(), "Voucher", "id").unwrap();
        let row = voucher::Entity::find_by_id(number)
            .one(app.db())
            .await
            .unwrap()
            .unwrap();
        assert_eq!(
            (row.price_minor, row.value_minor, row.currency.as_str()),
            (minor, minor, currency)
        );
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn money_keeps_every_digit_of_its_currency() {
    for store in [Store::MariaDb, Store::Postgres, Store::Sqlite] {
        money_is_exact_on(store).await;
    }
}

/// A merchant's sales, one or two in each state that a merchant can bring about.
struct Market {
    merchant: TestUser,
    shop: String,
    draft: String,
    announced: [String; 2],
    running: String,
    paused: [String; 2],
    ended: [String; 2],
}

impl Market {
    async fn open(app: &TestApp) -> Self {
        let merchant = app.merchant().await;
        let client = app.as_user(&merchant);
        let shop = create_shop(&client).await;
        let sale = async |wait: i64| {
            let builder = SaleBuilder::by(&app.client(), &merchant).at_shop(&shop);
            let wait = Duration::from_secs(u64::try_from(wait).unwrap());
            builder.opens_in(wait).create().await.voucher
        };
        let announced = [sale(900).await, sale(600).await];
        let paused = [sale(700).await, sale(0).await];
        let ended = [sale(800).await, sale(0).await];
        let running = SaleBuilder::by(&app.client(), &merchant)
            .at_shop(&shop)
            .create()
            .await
            .voucher;
        let draft = SaleBuilder::by(&app.client(), &merchant)
            .at_shop(&shop)
            .draft()
            .create()
            .await
            .voucher;
        for voucher in &paused {
            change(&client, "pauseVoucher", voucher).await;
        }
        for voucher in &ended {
            change(&client, "endVoucher", voucher).await;
        }
        Self {
            merchant,
            shop,
            draft,
            announced,
            running,
            paused,
            ended,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sales_are_listed_by_state_and_shop_the_first_to_begin_first() {
    let app = TestApp::start().await;
    let (market, other) = (Market::open(&app).await, Market::open(&app).await);
    let client = app.client();
    let shop = format!("shopId: \"{}\"", market.shop);
    let [later, sooner] = market.announced.clone();
    assert_eq!(
        sales(&client, &format!("{shop} state: ANNOUNCED"), 1).await,
        [sooner, later]
    );
    assert_eq!(
        sales(&client, &format!("{shop} state: RUNNING"), 5).await,
        std::slice::from_ref(&market.running)
    );
    let [waiting, running] = market.paused.clone();
    assert_eq!(
        sales(&client, &format!("{shop} state: PAUSED"), 1).await,
        [running, waiting]
    );
    let ended: HashSet<String> = sales(&client, &format!("{shop} state: ENDED"), 1)
        .await
        .into_iter()
        .collect();
    assert_eq!(ended, HashSet::from(market.ended.clone()));
    assert_eq!(
        sales(&client, &format!("{shop} state: SETTLED"), 5).await,
        [""; 0]
    );

    // All that is published, by when it begins; a page of two and one of fifty are the same list.
    let all = sales(&client, &shop, 2).await;
    assert_eq!(all.len(), 7);
    assert!(!all.contains(&market.draft));
    assert_eq!(all, sales(&client, &shop, 50).await);
    let everybodys = sales(&client, "", 3).await;
    assert_eq!(everybodys.len(), 14);
    let both: HashSet<&String> = everybodys.iter().collect();
    assert!(both.len() == 14 && both.contains(&other.running));
    let begins = client
        .gql(
            "{ flashSales(first: 50) { edges { node { sale { startsAt } } } } }",
            Value::Null,
        )
        .await;
    let begins: Vec<DateTime<Utc>> = begins
        .list("flashSales.edges")
        .iter()
        .map(|e| {
            e["node"]["sale"]["startsAt"]
                .as_str()
                .unwrap()
                .parse()
                .unwrap()
        })
        .collect();
    assert!(begins.is_sorted(), "{begins:?}");

    let merchant = app.as_user(&market.merchant);
    assert_eq!(
        sales(&merchant, &format!("{shop} state: DRAFT"), 1).await,
        std::slice::from_ref(&market.draft)
    );
    let buyer = app.as_user(&app.user().await);
    let foreign = format!("query {{ flashSales({shop} state: DRAFT) {{ edges {{ cursor }} }} }}");
    buyer
        .gql(&foreign, Value::Null)
        .await
        .expect_code("FORBIDDEN");
    let unknown = schema::scalars::global_id("Shop", 9).to_string();
    assert_eq!(
        sales(&client, &format!("shopId: \"{unknown}\""), 5).await,
        [""; 0]
    );

    let cursor = client
        .gql(
            &format!("{{ flashSales({shop} first: 1) {{ edges {{ cursor }} }} }}"),
            Value::Null,
        )
        .await;
    let cursor = cursor.text("flashSales.edges.0.cursor").to_owned();
    let elsewhere = [
        "first: 1".to_owned(),
        format!("{shop} state: RUNNING"),
        format!("shopId: \"{}\"", other.shop),
    ];
    for list in elsewhere {
        let query =
            format!("{{ flashSales({list} after: \"{cursor}\") {{ edges {{ cursor }} }} }}");
        client
            .gql(&query, Value::Null)
            .await
            .expect_code("BAD_CURSOR");
    }
    for (argument, sent) in [
        ("first", "first: 0"),
        ("first", "first: 51"),
        ("shopId", "shopId: \"x\""),
    ] {
        let refused = client
            .gql(
                &format!("{{ flashSales({sent}) {{ edges {{ cursor }} }} }}"),
                Value::Null,
            )
            .await;
        assert_eq!(
            refused.expect_code("BAD_INPUT")["extensions"]["argument"],
            argument
        );
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shop_offers_what_it_made_last_first_and_a_draft_once_it_is_published() {
    let app = TestApp::build().on(Store::Sqlite).start().await;
    let merchant = app.as_user(&app.merchant().await);
    let (shop, other) = (create_shop(&merchant).await, create_shop(&merchant).await);
    let mut made_here = Vec::new();
    for _ in 0..7 {
        made_here.push(made(&merchant, &offer(&shop)).await);
    }
    let draft = made(&merchant, &sale_offer(&shop)).await;
    made(&merchant, &offer(&other)).await;
    made_here.reverse();
    let client = app.client();
    assert_eq!(of_shop(&client, &shop, 3).await, made_here);
    assert_eq!(
        of_shop(&merchant, &shop, 50).await,
        made_here,
        "not to its merchant either"
    );
    publish(&merchant, &draft).await.data();
    made_here.insert(0, draft);
    assert_eq!(of_shop(&client, &shop, 2).await, made_here);

    let first =
        format!("{{ shop(id: \"{shop}\") {{ vouchers(first: 1) {{ edges {{ cursor }} }} }} }}");
    let cursor = client
        .gql(&first, Value::Null)
        .await
        .text("shop.vouchers.edges.0.cursor")
        .to_owned();
    let foreign = format!(
        "{{ shop(id: \"{other}\") {{ vouchers(after: \"{cursor}\") {{ edges {{ cursor }} }} }} }}"
    );
    client
        .gql(&foreign, Value::Null)
        .await
        .expect_code("BAD_CURSOR");
    for bad in [0, 51] {
        let query = format!(
            "{{ shop(id: \"{shop}\") {{ vouchers(first: {bad}) {{ edges {{ cursor }} }} }} }}"
        );
        let refused = client.gql(&query, Value::Null).await;
        assert_eq!(
            refused.expect_code("BAD_INPUT")["extensions"]["argument"],
            "first"
        );
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_viewer_sees_his_order_of_a_voucher_the_one_that_holds_a_unit_first() {
    let app = TestApp::build()
        .config(|c| c.clicks_per_second = 100)
        .start()
        .await;
    let sale = app
        .sale()
        .await
        .stock(5)
        .limit(2)
        .attempts(5)
        .create()
        .await;
    let other_sale = app.sale().await.create().await;
    let buyer = app.as_user(&app.user().await);
    let seen = async |client: &Client, voucher: &str| {
        let query = "query($v: ID!) { voucher(id: $v) { viewerOrder { id status } } }";
        client
            .gql(query, json!({ "v": voucher }))
            .await
            .at("voucher.viewerOrder")
            .clone()
    };
    assert_eq!(seen(&buyer, &sale.voucher).await, Value::Null);
    let first = seckill(&buyer, &sale.voucher, "r1").await.accepted();
    // At once, whether its row is written already or not.
    assert_eq!(seen(&buyer, &sale.voucher).await["id"], first.as_str());
    eventually(LIMIT, "the row", async || {
        read_order(&buyer, &first).await["status"] == "UNPAID"
    })
    .await;
    cancel(&buyer, &first).await.data();
    let closed = json!({ "id": first, "status": "CLOSED" });
    assert_eq!(seen(&buyer, &sale.voucher).await, closed);

    let second = eventually(LIMIT, "the unit to come back", async || {
        let click = seckill(&buyer, &sale.voucher, "r2").await;
        click.is_accepted().then(|| click.accepted())
    })
    .await;
    assert_eq!(seen(&buyer, &sale.voucher).await["id"], second.as_str());
    eventually(LIMIT, "the row", async || {
        read_order(&buyer, &second).await["status"] == "UNPAID"
    })
    .await;
    let third = seckill(&buyer, &sale.voucher, "r3").await.accepted();
    eventually(LIMIT, "the row", async || {
        read_order(&buyer, &third).await["status"] == "UNPAID"
    })
    .await;
    cancel(&buyer, &third).await.data();
    let live = json!({ "id": second, "status": "UNPAID" });
    assert_eq!(
        seen(&buyer, &sale.voucher).await,
        live,
        "not the newer one that is closed"
    );

    for (client, voucher) in [
        (&app.client(), &sale.voucher),
        (&app.as_user(&sale.merchant), &sale.voucher),
        (&buyer, &other_sale.voucher),
    ] {
        assert_eq!(seen(client, voucher).await, Value::Null);
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_voucher_that_does_not_exist_is_null_and_an_id_that_is_none_is_refused() {
    let app = TestApp::build().on(Store::Sqlite).start().await;
    let query = "query($id: ID!) { voucher(id: $id) { id } }";
    let unknown = schema::scalars::global_id("Voucher", 1).to_string();
    assert_eq!(
        app.gql(query, json!({ "id": unknown })).await.data(),
        &json!({ "voucher": null })
    );
    let shop = schema::scalars::global_id("Shop", 1).to_string();
    for malformed in ["", "1", "🍜", &shop] {
        let refused = app.gql(query, json!({ "id": malformed })).await;
        assert_eq!(
            refused.expect_code("BAD_INPUT")["extensions"]["argument"],
            "id"
        );
    }
    app.finish().await;
}
