//! A sale in its merchant's hands while it runs: its total goes up and down, and in the end its books are closed.

use std::time::Duration;

use deadpool_redis::redis::cmd;
use entity::sale;
use entity::sale::SaleStage;
use entity::stock_entry;
use futures_util::future::join_all;
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};
use serde_json::json;

use crate::support::app::TestApp;
use crate::support::client::{Answer, Client};
use crate::support::sale::{TestSale, order as read_order, sandbox_pay, seckill};
use crate::support::wait::eventually;

const LIMIT: Duration = Duration::from_secs(30);

async fn adjust(merchant: &Client, sale: &TestSale, total: i64) -> Answer {
    let query = "mutation($input: AdjustVoucherStockInput!) { adjustVoucherStock(input: $input) { sale { total stock } } }";
    merchant
        .gql(
            query,
            json!({ "input": { "voucherId": sale.voucher, "total": total } }),
        )
        .await
}

async fn row(app: &TestApp, sale: &TestSale) -> sale::Model {
    sale::Entity::find_by_id(sale.voucher_id.0)
        .one(app.db())
        .await
        .unwrap()
        .unwrap()
}

async fn keys_of(app: &TestApp, sale: &TestSale) -> Vec<String> {
    let pattern = app.redis().key(format!("{{v:{}}}:*", sale.voucher_id));
    app.redis().query(cmd("KEYS").arg(pattern)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_total_goes_up_and_down_and_never_below_what_is_taken() {
    let app = TestApp::start().await;
    let sale = app.sale().await.stock(3).create().await;
    let merchant = app.as_user(&sale.merchant);
    let buyers: Vec<_> = app.users(8).await.iter().map(|u| app.as_user(u)).collect();
    for buyer in &buyers[..3] {
        seckill(buyer, &sale.voucher, "r1").await.accepted();
    }
    assert_eq!(
        seckill(&buyers[3], &sale.voucher, "r1").await.kind(),
        "SoldOut"
    );

    let raised = adjust(&merchant, &sale, 5).await;
    assert_eq!(
        (
            raised.int("adjustVoucherStock.sale.total"),
            raised.int("adjustVoucherStock.sale.stock")
        ),
        (5, 2)
    );
    seckill(&buyers[3], &sale.voucher, "r2").await.accepted();

    let refused = adjust(&merchant, &sale, 3).await;
    assert_eq!(
        refused.expect_code("BAD_INPUT")["extensions"]["argument"],
        "input.total"
    );
    seckill(&buyers[4], &sale.voucher, "r1").await.accepted();
    for total in [0, -1, 1_000_001] {
        adjust(&merchant, &sale, total)
            .await
            .expect_code("BAD_INPUT");
    }
    let lowered = adjust(&merchant, &sale, 5).await;
    assert_eq!(lowered.int("adjustVoucherStock.sale.stock"), 0);
    assert_eq!(
        seckill(&buyers[5], &sale.voucher, "r1").await.kind(),
        "SoldOut"
    );
    adjust(&app.as_user(&app.merchant().await), &sale, 9)
        .await
        .expect_code("FORBIDDEN");

    let entries = stock_entry::Entity::find()
        .filter(stock_entry::Column::VoucherId.eq(sale.voucher_id.0))
        .all(app.db())
        .await
        .unwrap();
    assert_eq!(entries.iter().map(|e| e.total_delta).sum::<i64>(), 5);
    assert_eq!(row(&app, &sale).await.adjust_target, None);
    app.finish().await;
}

/// The total moves up and down under 300 clicks at two nodes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_total_that_moves_under_clicks_is_never_oversold() {
    let mut app = TestApp::start().await;
    let second = app.second_node().await;
    let sale = app.sale().await.stock(50).create().await;
    let merchant = app.as_user(&sale.merchant);
    let users = app.users(300).await;
    let nodes = [app.client(), second];
    let clicks = join_all(users.iter().enumerate().map(|(n, user)| {
        let (node, voucher) = (nodes[n % 2].as_user(user), sale.voucher.clone());
        async move { seckill(&node, &voucher, "r1").await.is_accepted() }
    }));
    let changes = async {
        for total in [80, 60, 120, 1, 90, 100] {
            let answer = adjust(&merchant, &sale, total).await;
            assert!(
                matches!(answer.code(), None | Some("BAD_INPUT" | "TRY_LATER")),
                "{}",
                answer.body
            );
        }
    };
    let (accepted, ()) = tokio::join!(clicks, changes);
    let accepted = accepted.into_iter().filter(|yes| *yes).count();
    eventually(LIMIT, "the last wish", async || {
        row(&app, &sale).await.adjust_target.is_none()
    })
    .await;
    let accepted = i64::try_from(accepted).unwrap();
    eventually(LIMIT, "all rows", async || {
        row(&app, &sale).await.sold == accepted
    })
    .await;
    assert!(accepted <= row(&app, &sale).await.total);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sale_that_is_over_and_quiet_is_settled_and_its_keys_go() {
    let app = TestApp::build()
        .config(|c| c.pay_window_secs = 60)
        .start()
        .await;
    let sale = app.sale().await.stock(3).create().await;
    let merchant = app.as_user(&sale.merchant);
    let buyer = app.as_user(&app.user().await);
    let order = seckill(&buyer, &sale.voucher, "r1").await.accepted();
    eventually(LIMIT, "the row", async || {
        read_order(&buyer, &order).await["status"] == "UNPAID"
    })
    .await;
    let end = "mutation($v: ID!) { endVoucher(input: { voucherId: $v }) { sale { state } } }";
    merchant.gql(end, json!({ "v": sale.voucher })).await.data();
    app.shift_clocks(Duration::from_secs(15));
    let orders = &app.services().orders;
    assert_eq!(
        orders.settle_sales().await.unwrap(),
        0,
        "an order still waits for payment"
    );
    assert_eq!(row(&app, &sale).await.stage, SaleStage::Opened);

    sandbox_pay(&buyer, &order, "SUCCEED").await.data();
    eventually(LIMIT, "an empty outbox", async || {
        read_order(&buyer, &order).await["status"] == "PAID"
            && orders.books(sale.voucher_id).await.unwrap().queued() == 0
    })
    .await;
    assert_eq!(
        orders.settle_sales().await.unwrap(),
        0,
        "by the clock of Redis, which shuts the window, it has only just ended"
    );
    assert_eq!(row(&app, &sale).await.stage, SaleStage::Opened);
    // As if it had ended a while ago; the gauge tells Redis.
    let end_ms = row(&app, &sale).await.end_ms - 20_000;
    sale::Entity::update_many()
        .col_expr(sale::Column::EndMs, Expr::value(end_ms))
        .filter(sale::Column::VoucherId.eq(sale.voucher_id.0))
        .exec(app.db())
        .await
        .unwrap();
    eventually(LIMIT, "the settlement", async || {
        let _ = orders.settle_sales().await;
        row(&app, &sale).await.stage == SaleStage::Settled
    })
    .await;
    assert_eq!(keys_of(&app, &sale).await, Vec::<String>::new());
    let state = "query($v: ID!) { voucher(id: $v) { sale { state stock } } }";
    let seen = app.gql(state, json!({ "v": sale.voucher })).await;
    assert_eq!(
        (
            seen.text("voucher.sale.state"),
            seen.int("voucher.sale.stock")
        ),
        ("SETTLED", 2)
    );
    assert_eq!(
        seckill(&app.as_user(&app.user().await), &sale.voucher, "r1")
            .await
            .kind(),
        "SaleEnded"
    );
    assert_eq!(read_order(&buyer, &order).await["status"], "PAID");

    // Keys that come back, with a Redis that lost its last writes, are deleted; an order in them is written first.
    let outbox = app.redis().key(format!("{{v:{}}}:outbox", sale.voucher_id));
    app.redis()
        .query::<i64>(
            cmd("HSET")
                .arg(outbox)
                .arg("1")
                .arg("x")
                .arg("2")
                .arg(late_payload(&app, &sale).await),
        )
        .await
        .unwrap();
    eventually(LIMIT, "no key", async || {
        let _ = orders.sweep_leftovers().await;
        keys_of(&app, &sale).await.is_empty()
    })
    .await;
    assert_eq!(row(&app, &sale).await.sold, 2, "the late order has its row");
    app.finish().await;
}

/// An order of another buyer that was accepted in the sale, and of which nothing is in the database.
async fn late_payload(app: &TestApp, sale: &TestSale) -> String {
    let epoch = row(app, sale).await.epoch;
    let order = app.services().infra().ids.next().unwrap();
    let buyer = app.user().await.id;
    format!(
        r#"{{"v":1,"order_id":"{order}","user_id":"{buyer}","voucher_id":"{}","slot":1,"price_minor":"990","currency":"CNY","reserved_at":"1","epoch":"{epoch}","request_id":"late","trace_id":"t"}}"#,
        sale.voucher_id
    )
}

/// Two sales of one shop; the window of one closes by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_window_closes_by_itself_and_the_shops_sales_are_listed_by_their_beginning() {
    let app = TestApp::start().await;
    let short = app
        .sale()
        .await
        .ends_in(Duration::from_secs(2))
        .create()
        .await;
    let merchant = app.as_user(&short.merchant);
    let later = crate::support::sale::SaleBuilder::by(&app.client(), &short.merchant)
        .at_shop(&short.shop)
        .opens_in(Duration::from_secs(600))
        .create()
        .await;
    let list = async |state: &str| {
        let query = format!(
            "query($s: ID!) {{ flashSales(shopId: $s, state: {state}) {{ edges {{ node {{ id }} }} }} }}"
        );
        let answer = merchant.gql(&query, json!({ "s": short.shop })).await;
        let edges = answer.list("flashSales.edges");
        edges
            .iter()
            .map(|e| e["node"]["id"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        list("ANNOUNCED").await,
        std::slice::from_ref(&later.voucher)
    );
    let buyers = app.users(40).await;
    let mut clicks = buyers.iter();
    eventually(LIMIT, "the end", async || {
        let buyer = app.as_user(clicks.next()?);
        let click = seckill(&buyer, &short.voucher, "r1").await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        (click.kind() == "SaleEnded").then_some(())
    })
    .await;
    assert_eq!(list("ENDED").await, std::slice::from_ref(&short.voucher));
    assert_eq!(list("RUNNING").await, Vec::<String>::new());
    app.finish().await;
}
