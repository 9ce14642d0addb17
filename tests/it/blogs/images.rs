//! Pictures of notes: at most nine of the author's own, in their order.

use serde_json::{Value, json};

use super::{global, publish, read, update};
use crate::support::app::TestApp;
use crate::support::people::upload_picture;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_note_takes_up_to_nine_pictures_of_its_author_in_their_order() {
    let app = TestApp::start().await;
    let (user, other) = (app.user().await, app.user().await);
    let author = app.as_user(&user);
    let mut own = Vec::new();
    for _ in 0..10 {
        own.push(upload_picture(&app, &user).await);
    }
    own.reverse();
    let foreign = upload_picture(&app, &other).await;
    let with = |images: Value| json!({ "title": "x", "content": "x", "imageIds": images });
    for images in [
        json!(own),
        json!([own[0], own[1], own[0]]),
        json!([own[0], foreign]),
        json!([global("Image", 77)]),
        json!(["77"]),
    ] {
        let answer = publish(&author, with(images.clone())).await;
        let error = answer.expect_code("BAD_INPUT");
        assert_eq!(
            error["extensions"]["argument"], "input.imageIds",
            "{images}"
        );
    }
    let answer = publish(&author, with(json!(own[..9]))).await;
    let id = answer.text("publishBlog.blog.id");
    let told = |images: &[&String]| {
        let images = images.iter().map(|id| json!({ "id": id, "width": 1 }));
        json!({ "images": images.collect::<Vec<_>>() })
    };
    let images = "images { id width }";
    let nine: Vec<&String> = own[..9].iter().collect();
    assert_eq!(read(&app.client(), id, images).await, told(&nine));

    let refused = update(&author, json!({ "blogId": id, "imageIds": [foreign] })).await;
    refused.expect_code("BAD_INPUT");
    let change = json!({ "blogId": id, "imageIds": [own[9], own[0], own[1]] });
    update(&author, change).await.data();
    let three = [&own[9], &own[0], &own[1]];
    assert_eq!(read(&app.client(), id, images).await, told(&three));
    // A picture that is deleted is left out.
    let drop = "mutation($id: ID!) { deleteImage(input: { imageId: $id }) { imageId } }";
    author.gql(drop, json!({ "id": own[0] })).await.data();
    let two = [&own[9], &own[1]];
    assert_eq!(read(&app.client(), id, images).await, told(&two));
    app.finish().await;
}
