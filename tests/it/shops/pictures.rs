//! Pictures of shops: at most nine, in their order, of those who run them; and those of a merchant before stay.

use serde_json::{Value, json};

use super::owners::{CREATE, UPDATE, of_shop, run, with};
use crate::support::app::TestApp;
use crate::support::client::Client;
use crate::support::people::upload_picture;
use crate::support::stores::Store;

async fn shown(client: &Client, shop: &str) -> Vec<String> {
    let query = "query($id: ID!) { shop(id: $id) { images { id url width } } }";
    let answer = client.gql(query, json!({ "id": shop })).await;
    let images = answer.list("shop.images").iter();
    images
        .map(|image| {
            assert_eq!(image["width"], 1);
            image["id"].as_str().unwrap().to_owned()
        })
        .collect()
}

fn pictured(shop: &str, ids: &[&String]) -> Value {
    let mut input = of_shop(shop);
    input["imageIds"] = json!(ids);
    input
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shop_shows_up_to_nine_pictures_of_those_who_run_it_in_their_order() {
    let mut app = TestApp::build().on(Store::Sqlite).start().await;
    app.second_node().await;
    let (user, other) = (app.merchant().await, app.merchant().await);
    let merchant = app.as_user(&user);
    let mut own = Vec::new();
    for _ in 0..10 {
        own.push(upload_picture(&app, &user).await);
    }
    own.reverse();
    let foreign = upload_picture(&app, &other).await;
    for images in [
        json!(own),
        json!([own[0], own[0]]),
        json!([own[0], foreign]),
        json!(["77"]),
    ] {
        let refused = run(&merchant, CREATE, with("imageIds", images.clone())).await;
        let argument = &refused.expect_code("BAD_INPUT")["extensions"]["argument"];
        assert_eq!(argument, "input.imageIds", "{images}");
    }
    // A refusal has taken nothing into use: nobody else may know of it.
    let node = "query($id: ID!) { node(id: $id) { id } }";
    let unused = app.client().gql(node, json!({ "id": own[0] })).await;
    assert_eq!(unused.at("node"), &Value::Null);

    let made = run(&merchant, CREATE, with("imageIds", json!(own[..9]))).await;
    let shop = made.text("createShop.shop.id").to_owned();
    assert_eq!(shown(&app.client(), &shop).await, own[..9]);
    // Left out, they stay; named, they are those and no others.
    run(&merchant, UPDATE, of_shop(&shop)).await.data();
    assert_eq!(shown(&app.client(), &shop).await, own[..9]);
    let three = [&own[9], &own[0], &own[1]];
    run(&merchant, UPDATE, pictured(&shop, &three)).await.data();
    assert_eq!(shown(&app.client(), &shop).await, three.map(String::clone));

    // An administrator keeps what the merchant shows, and adds no stranger's.
    let admin = app.as_user(&app.admin().await);
    let kept = [&own[1], &own[9]];
    run(&admin, UPDATE, pictured(&shop, &kept)).await.data();
    for refused in [[&own[1], &own[0]], [&own[1], &foreign]] {
        let answer = run(&admin, UPDATE, pictured(&shop, &refused)).await;
        answer.expect_code("BAD_INPUT");
    }
    assert_eq!(shown(&app.client(), &shop).await, kept.map(String::clone));
    // One that its owner deletes is left out; none is none.
    let delete = "mutation($id: ID!) { deleteImage(input: { imageId: $id }) { imageId } }";
    merchant.gql(delete, json!({ "id": own[1] })).await.data();
    assert_eq!(shown(&app.client(), &shop).await, [own[9].clone()]);
    run(&merchant, UPDATE, pictured(&shop, &[])).await.data();
    assert!(shown(&app.client(), &shop).await.is_empty());
    app.finish().await;
}
