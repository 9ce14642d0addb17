//! Reviews: once an order or a user, a score that is the average of what stands, and a shop that shows it at once.

use std::time::Duration;

use entity::{review, shop};
use futures_util::future::join_all;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};
use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::client::{Answer, Client};
use crate::support::sale::{TestSale, create_shop, sandbox_pay, seckill};
use crate::support::stores::Store;
use crate::support::wait::eventually;

const LIMIT: Duration = Duration::from_secs(20);

async fn add(client: &Client, shop: &str, order: Option<&str>, score: i32) -> Answer {
    let query = "mutation($input: AddReviewInput!) { addReview(input: $input) { refusal
        review { id score text isOfOrder author { id } shop { id score commentCount } } } }";
    let input =
        json!({ "shopId": shop, "orderId": order, "score": score, "text": "Good noodles 🍜" });
    client.gql(query, json!({ "input": input })).await
}

/// As `add`, and asks for nothing but the review itself: while others write, the cache may put off who reads the shop.
async fn add_bare(client: &Client, shop: &str, score: i32) -> Answer {
    let query = "mutation($input: AddReviewInput!) { addReview(input: $input) { review { id } } }";
    let input = json!({ "shopId": shop, "score": score, "text": "Good noodles" });
    client.gql(query, json!({ "input": input })).await
}

async fn delete(client: &Client, review: &str) -> Answer {
    let query = "mutation($id: ID!) { deleteReview(input: { reviewId: $id }) { reviewId shop { score commentCount } } }";
    client.gql(query, json!({ "id": review })).await
}

fn id(answer: &Answer) -> String {
    answer.text("addReview.review.id").to_owned()
}

/// The shop's rating as anybody sees it.
async fn rating(client: &Client, shop: &str) -> Value {
    let query = "query($id: ID!) { shop(id: $id) { score commentCount } }";
    client
        .gql(query, json!({ "id": shop }))
        .await
        .at("shop")
        .clone()
}

/// Scores of a shop's reviews as they are listed, page by page.
async fn listed(client: &Client, shop: &str, first: i32) -> Vec<i64> {
    let query = "query($id: ID!, $first: Int, $after: String) { shop(id: $id) { reviews(first: $first, after: $after) {
        edges { node { score } } pageInfo { hasNextPage endCursor } } } }";
    let (mut scores, mut after) = (Vec::new(), Value::Null);
    loop {
        let answer = client
            .gql(query, json!({ "id": shop, "first": first, "after": after }))
            .await;
        let nodes = answer.list("shop.reviews.edges").iter();
        scores.extend(nodes.map(|node| node["node"]["score"].as_i64().unwrap()));
        let page = answer.at("shop.reviews.pageInfo");
        if page["hasNextPage"] == false {
            return scores;
        }
        after = page["endCursor"].clone();
    }
}

/// A redeemed order of the sale.
async fn used_order(app: &TestApp, buyer: &Client, sale: &TestSale) -> String {
    let order = seckill(buyer, &sale.voucher, "r1").await.accepted();
    let query = "query($id: ID!) { viewer { order(id: $id) { redeemCode } } }";
    let code = eventually(LIMIT, "the order's code", async || {
        sandbox_pay(buyer, &order, "SUCCEED").await;
        let seen = buyer.gql(query, json!({ "id": order })).await;
        seen.at("viewer.order.redeemCode")
            .as_str()
            .map(str::to_owned)
    })
    .await;
    let redeem = "mutation($code: String!) { redeemOrder(input: { code: $code }) { result { __typename } } }";
    let merchant = app.as_user(&sale.merchant);
    merchant.gql(redeem, json!({ "code": code })).await.data();
    order
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_reviews_a_shop_once_and_each_redeemed_order_once() {
    let app = TestApp::start().await;
    let sale = app.sale().await.stock(5).create().await;
    let other = app.sale().await.create().await;
    let users = app.users(2).await;
    let (one, two) = (app.as_user(&users[0]), app.as_user(&users[1]));
    assert_eq!(
        rating(&one, &sale.shop).await,
        json!({ "score": null, "commentCount": 0 })
    );

    let first = add(&one, &sale.shop, None, 5).await;
    let review = first.at("addReview.review");
    assert_eq!(
        (
            &review["score"],
            &review["isOfOrder"],
            &review["shop"]["id"]
        ),
        (&json!(5), &json!(false), &json!(sale.shop))
    );
    assert_eq!(
        rating(&one, &sale.shop).await,
        json!({ "score": 5.0, "commentCount": 1 })
    );
    let again = add(&one, &sale.shop, None, 1).await;
    assert_eq!(
        again.at("addReview"),
        &json!({ "refusal": "ALREADY_REVIEWED", "review": null })
    );

    let order = used_order(&app, &one, &sale).await;
    add(&two, &sale.shop, Some(&order), 1)
        .await
        .expect_code("NOT_FOUND");
    let elsewhere = add(&one, &other.shop, Some(&order), 1).await;
    assert_eq!(
        elsewhere.expect_code("BAD_INPUT")["extensions"]["argument"],
        "input.orderId"
    );
    let of_order = add(&one, &sale.shop, Some(&order), 2).await;
    assert_eq!(of_order.at("addReview.review.isOfOrder"), &json!(true));
    let again = add(&one, &sale.shop, Some(&order), 2).await;
    assert_eq!(again.text("addReview.refusal"), "ALREADY_REVIEWED");
    let shown = "query($id: ID!) { viewer { order(id: $id) { review { id } } } }";
    let seen = one.gql(shown, json!({ "id": order })).await;
    assert_eq!(seen.text("viewer.order.review.id"), id(&of_order));
    let unused = seckill(&two, &sale.voucher, "r1").await.accepted();
    let early = add(&two, &sale.shop, Some(&unused), 1).await;
    assert_eq!(early.text("addReview.refusal"), "ORDER_NOT_USED");

    let merchant = app.as_user(&sale.merchant);
    add(&merchant, &sale.shop, None, 5)
        .await
        .expect_code("FORBIDDEN");
    for score in [0, 6] {
        let refused = add(&two, &sale.shop, None, score).await;
        assert_eq!(
            refused.expect_code("BAD_INPUT")["extensions"]["argument"],
            "input.score"
        );
    }
    let long = json!({ "shopId": sale.shop, "score": 5, "text": "x".repeat(2_001) });
    let query = "mutation($input: AddReviewInput!) { addReview(input: $input) { refusal } }";
    let refused = two.gql(query, json!({ "input": long })).await;
    assert_eq!(
        refused.expect_code("BAD_INPUT")["extensions"]["argument"],
        "input.text"
    );
    let foreign =
        json!({ "shopId": sale.shop, "score": 5, "text": "x", "imageIds": ["SW1hZ2U6MQ"] });
    let refused = two.gql(query, json!({ "input": foreign })).await;
    assert_eq!(
        refused.expect_code("BAD_INPUT")["extensions"]["argument"],
        "input.imageIds"
    );

    assert_eq!(
        rating(&one, &sale.shop).await,
        json!({ "score": 3.5, "commentCount": 2 })
    );
    assert_eq!(listed(&one, &sale.shop, 1).await, [2, 5], "newest first");
    let node = "query($id: ID!) { node(id: $id) { __typename id } }";
    let found = app.gql(node, json!({ "id": id(&first) })).await;
    assert_eq!(found.text("node.__typename"), "Review");
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_review_leaves_the_rating_and_only_its_author_may_write_anew() {
    let mut app = TestApp::start().await;
    let second = app.second_node().await;
    let shop = create_shop(&app.as_user(&app.merchant().await)).await;
    let users = app.users(2).await;
    let (one, two) = (app.as_user(&users[0]), app.as_user(&users[1]));
    let (good, bad) = (
        add(&one, &shop, None, 5).await,
        add(&two, &shop, None, 2).await,
    );
    delete(&two, &id(&good)).await.expect_code("FORBIDDEN");
    app.gql(
        "mutation($id: ID!) { deleteReview(input: { reviewId: $id }) { reviewId } }",
        json!({ "id": id(&good) }),
    )
    .await
    .expect_code("UNAUTHENTICATED");
    let gone = delete(&one, &id(&good)).await;
    assert_eq!(
        gone.at("deleteReview.shop"),
        &json!({ "score": 2.0, "commentCount": 1 })
    );
    delete(&one, &id(&good)).await.expect_code("NOT_FOUND");
    eventually(LIMIT, "the rating at the other node", async || {
        rating(&second, &shop).await == json!({ "score": 2.0, "commentCount": 1 })
    })
    .await;
    assert_eq!(
        add(&one, &shop, None, 4).await.at("addReview.refusal"),
        &Value::Null
    );
    assert_eq!(listed(&one, &shop, 10).await, [4, 2]);

    let admin = app.as_user(&app.admin().await);
    delete(&admin, &id(&bad)).await.data();
    let again = add(&two, &shop, None, 1).await;
    assert_eq!(again.text("addReview.refusal"), "ALREADY_REVIEWED");
    assert_eq!(
        rating(&one, &shop).await,
        json!({ "score": 4.0, "commentCount": 1 })
    );
    app.finish().await;
}

/// A hundred guests at once: the rating is the average of the rows, and the list by score knows it.
async fn a_hundred_at_once(store: Store) {
    let app = TestApp::build()
        .on(store)
        .config(|c| c.rate_limits = false)
        .start()
        .await;
    let merchant = app.as_user(&app.merchant().await);
    let (shop, rival) = (create_shop(&merchant).await, create_shop(&merchant).await);
    let guests: Vec<_> = app
        .users(100)
        .await
        .iter()
        .map(|user| app.as_user(user))
        .collect();
    let shop_ref = &shop;
    let reviews = guests.iter().enumerate().map(|(n, guest)| async move {
        let score = 1 + i32::try_from(n % 5).unwrap();
        let mine = add_bare(guest, shop_ref, score).await;
        // Some think again at once.
        if n % 10 == 0 {
            let query =
                "mutation($id: ID!) { deleteReview(input: { reviewId: $id }) { reviewId } }";
            let answer = guest.gql(query, json!({ "id": id(&mine) })).await;
            answer.data();
        }
    });
    join_all(reviews).await;
    let rows = review::Entity::find()
        .filter(review::Column::DeletedAt.is_null())
        .all(app.db())
        .await
        .unwrap();
    assert_eq!(rows.len(), 90);
    let sum: i32 = rows.iter().map(|row| row.score).sum();
    let row = shop::Entity::find()
        .filter(shop::Column::CommentCount.eq(90))
        .one(app.db())
        .await
        .unwrap()
        .unwrap();
    let average = f64::from(sum) / 90.0;
    assert!(
        (f64::from(row.score_tenths) / 10.0 - average).abs() <= 0.05,
        "{} of {average}",
        row.score_tenths
    );

    let best = async || {
        let query = "{ shops(sort: SCORE, first: 1) { edges { node { id } } } }";
        let answer = merchant.gql(query, Value::Null).await;
        answer.text("shops.edges.0.node.id").to_owned()
    };
    assert_eq!(best().await, shop);
    add(&guests[0], &rival, None, 5).await.data();
    assert_eq!(
        best().await,
        rival,
        "a better one is the first right afterwards"
    );
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_reviews_at_once_on_mariadb() {
    a_hundred_at_once(Store::MariaDb).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_reviews_at_once_on_postgres() {
    a_hundred_at_once(Store::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_reviews_at_once_on_sqlite() {
    a_hundred_at_once(Store::Sqlite).await;
}
