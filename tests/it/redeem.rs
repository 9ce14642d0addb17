//! After paying: an order is redeemed in its shop by its code, or given back by its buyer; never both.

use std::time::Duration;

use entity::{order as orders, refund, sale, shop, sold_change};
use futures_util::future::join_all;
use sea_orm::{EntityTrait, PaginatorTrait};
use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::client::{Answer, Client};
use crate::support::sale::{TestSale, order as read_order, sandbox_pay, seckill};
use crate::support::stores::Store;
use crate::support::subscription::Subscription;
use crate::support::wait::eventually;

const LIMIT: Duration = Duration::from_secs(20);

async fn code_of(buyer: &Client, order: &str) -> Value {
    let query = "query($id: ID!) { viewer { order(id: $id) { redeemCode quantity } } }";
    let answer = buyer.gql(query, json!({ "id": order })).await;
    assert_eq!(answer.int("viewer.order.quantity"), 1);
    answer.at("viewer.order.redeemCode").clone()
}

async fn redeem(merchant: &Client, code: &str) -> Answer {
    let query =
        "mutation($code: String!) { redeemOrder(input: { code: $code }) { result { __typename
        ... on OrderRedeemed { order { id status usedAt redeemCode } }
        ... on AlreadyRedeemed { usedAt } ... on NotRedeemable { status } } } }";
    merchant.gql(query, json!({ "code": code })).await
}

async fn refund(buyer: &Client, order: &str) -> Answer {
    let query = "mutation($id: ID!) { refundOrder(input: { orderId: $id }) { result { __typename
        ... on OrderRefundBegun { order { status } } ... on OrderNotRefundable { order { status } } } } }";
    buyer.gql(query, json!({ "id": order })).await
}

/// A paid order, and its code.
async fn paid(buyer: &Client, sale: &TestSale) -> (String, String) {
    let order = seckill(buyer, &sale.voucher, "r1").await.accepted();
    eventually(LIMIT, "the order's row", async || {
        read_order(buyer, &order).await["status"] == "UNPAID"
    })
    .await;
    assert_eq!(
        code_of(buyer, &order).await,
        Value::Null,
        "not before it is paid"
    );
    sandbox_pay(buyer, &order, "SUCCEED").await.data();
    let code = code_of(buyer, &order).await.as_str().unwrap().to_owned();
    (order, code)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_code_is_redeemed_once_by_its_own_shop_and_the_buyer_hears_of_it() {
    let app = TestApp::start().await;
    let sale = app.sale().await.create().await;
    let merchant = app.as_user(&sale.merchant);
    let user = app.user().await;
    let buyer = app.as_user(&user);
    let (order, code) = paid(&buyer, &sale).await;
    assert_eq!(code.len(), 12);

    let status = "subscription($id: ID!) { orderStatus(orderId: $id) { status redeemCode } }";
    let mut changes = Subscription::open(&buyer, status, json!({ "id": order })).await;
    let first = changes.next(LIMIT).await;
    assert_eq!(
        first["orderStatus"],
        json!({ "status": "PAID", "redeemCode": code })
    );

    let other = app.as_user(&app.merchant().await);
    let unknown = redeem(&merchant, "0000-0000-0000").await;
    let foreign = redeem(&other, &code).await;
    for wrong in [&unknown, &foreign, &redeem(&buyer, &code).await] {
        wrong.expect_code("NOT_FOUND");
    }
    assert_eq!(
        unknown.errors()[0]["message"],
        foreign.errors()[0]["message"]
    );
    redeem(&app.client(), &code)
        .await
        .expect_code("UNAUTHENTICATED");
    assert_eq!(read_order(&buyer, &order).await["status"], "PAID");

    let typed = format!("{} {}", &code[..6], &code[6..]).to_lowercase();
    let done = redeem(&merchant, &typed).await;
    assert_eq!(done.text("redeemOrder.result.__typename"), "OrderRedeemed");
    let used_at = done.text("redeemOrder.result.order.usedAt").to_owned();
    assert_eq!(done.text("redeemOrder.result.order.status"), "USED");
    assert_eq!(done.text("redeemOrder.result.order.id"), order);
    assert_eq!(done.at("redeemOrder.result.order.redeemCode"), &Value::Null);
    assert_eq!(changes.next(LIMIT).await["orderStatus"]["status"], "USED");
    changes.completes(LIMIT).await;

    let again = redeem(&merchant, &code).await;
    assert_eq!(
        again.at("redeemOrder.result"),
        &json!({ "__typename": "AlreadyRedeemed", "usedAt": used_at })
    );
    let late = refund(&buyer, &order).await;
    assert_eq!(
        late.text("refundOrder.result.__typename"),
        "OrderNotRefundable"
    );
    assert_eq!(code_of(&buyer, &order).await, Value::Null);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unused_order_is_given_back_once_and_its_unit_stays_taken() {
    let app = TestApp::start().await;
    let sale = app.sale().await.stock(2).create().await;
    let buyer = app.as_user(&app.user().await);
    let (order, code) = paid(&buyer, &sale).await;
    let stranger = app.as_user(&app.user().await);
    refund(&stranger, &order).await.expect_code("NOT_FOUND");

    // A second payment went back before; what is told from now on is the buyer's own refund.
    sandbox_pay(&buyer, &order, "SUCCEED").await.data();
    eventually(LIMIT, "the second payment's refund", async || {
        read_order(&buyer, &order).await["refund"]["status"] == "DONE"
    })
    .await;
    let answers = join_all((0..5).map(|_| refund(&buyer, &order))).await;
    let begun = answers
        .iter()
        .filter(|a| a.text("refundOrder.result.__typename") == "OrderRefundBegun")
        .count();
    assert_eq!(begun, 1);
    eventually(LIMIT, "the refund", async || {
        let seen = read_order(&buyer, &order).await;
        seen["status"] == "REFUNDED" && seen["refund"]["status"] == "DONE"
    })
    .await;
    assert_eq!(refund::Entity::find().count(app.db()).await.unwrap(), 2);
    let refused = redeem(&app.as_user(&sale.merchant), &code).await;
    assert_eq!(
        refused.at("redeemOrder.result"),
        &json!({ "__typename": "NotRedeemable", "status": "REFUNDED" })
    );
    let books = sale::Entity::find().one(app.db()).await.unwrap().unwrap();
    assert_eq!((books.sold, books.total), (1, 2), "a refund frees no unit");
    assert_eq!(
        seckill(&buyer, &sale.voucher, "r2").await.kind(),
        "AlreadyOrdered"
    );

    let unpaid = seckill(&stranger, &sale.voucher, "r1").await.accepted();
    let early = refund(&stranger, &unpaid).await;
    assert_eq!(
        early.text("refundOrder.result.__typename"),
        "OrderNotRefundable"
    );
    app.finish().await;
}

/// Whoever guesses has few tries; whoever redeems what was sold has as many as he sold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_codes_are_counted_and_right_ones_are_not() {
    let app = TestApp::start().await;
    let sale = app.sale().await.create().await;
    let merchant = app.as_user(&sale.merchant);
    let buyer = app.as_user(&app.user().await);
    let (_, code) = paid(&buyer, &sale).await;
    for _ in 0..25 {
        redeem(&merchant, &code).await.data();
    }
    for n in 0..20 {
        redeem(&merchant, &format!("0000000000{n:02}"))
            .await
            .expect_code("NOT_FOUND");
    }
    let limited = redeem(&merchant, &code).await;
    let error = limited.expect_code("RATE_LIMITED");
    assert!(error["extensions"]["retryAfterMs"].as_i64().unwrap() > 60_000);
    app.finish().await;
}

const PEOPLE: usize = 200;

/// Redeem against refund at the same moment: exactly one of the two happens, to each order. And the shop has sold what
/// was paid and not given back, however many count it.
async fn one_of_both_wins(store: Store) {
    let app = TestApp::build()
        .on(store)
        .config(|c| c.rate_limits = false)
        .start()
        .await;
    let sale = app.sale().await.stock(PEOPLE as u64).create().await;
    let merchant = app.as_user(&sale.merchant);
    let people = app.users(u32::try_from(PEOPLE).unwrap()).await;
    let buyers: Vec<_> = people.iter().map(|user| app.as_user(user)).collect();
    let mut bought = Vec::new();
    for some in buyers.chunks(20) {
        bought.extend(join_all(some.iter().map(|buyer| paid(buyer, &sale))).await);
    }
    let races = buyers
        .iter()
        .zip(&bought)
        .enumerate()
        .map(|(n, (buyer, (order, code)))| {
            let merchant = &merchant;
            async move {
                let used = async { redeem(merchant, code).await };
                let back = async { refund(buyer, order).await };
                // Neither is always the first to be asked.
                let (used, back) = if n % 2 == 0 {
                    tokio::join!(used, back)
                } else {
                    let (back, used) = tokio::join!(back, used);
                    (used, back)
                };
                let won = used.text("redeemOrder.result.__typename") == "OrderRedeemed";
                let lost = back.text("refundOrder.result.__typename") == "OrderNotRefundable";
                assert_eq!(won, lost, "{} {}", used.body, back.body);
                won
            }
        });
    let used = join_all(races).await.iter().filter(|won| **won).count();
    eventually(LIMIT, "all refunds", async || {
        let rows = orders::Entity::find().all(app.db()).await.unwrap();
        let count = |status| rows.iter().filter(|row| row.status == status).count();
        let done = (
            count(orders::OrderStatus::Used),
            count(orders::OrderStatus::Refunded),
        );
        done == (used, PEOPLE - used)
    })
    .await;
    let refunds = refund::Entity::find().count(app.db()).await.unwrap();
    assert_eq!(refunds, (PEOPLE - used) as u64);
    let counters = &app.services().orders;
    eventually(LIMIT, "what the shop has sold", async || {
        join_all((0..4).map(|_| counters.count_sold())).await;
        sold_change::Entity::find().count(app.db()).await.unwrap() == 0
    })
    .await;
    let row = shop::Entity::find().one(app.db()).await.unwrap().unwrap();
    assert_eq!(row.sold_count, i64::try_from(used).unwrap());
    let shown = "query($id: ID!) { shop(id: $id) { soldCount } }";
    let answer = merchant.gql(shown, json!({ "id": sale.shop })).await;
    assert_eq!(answer.int("shop.soldCount"), row.sold_count);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_orders_are_redeemed_or_given_back_on_mariadb() {
    one_of_both_wins(Store::MariaDb).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_orders_are_redeemed_or_given_back_on_postgres() {
    one_of_both_wins(Store::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_orders_are_redeemed_or_given_back_on_sqlite() {
    one_of_both_wins(Store::Sqlite).await;
}
