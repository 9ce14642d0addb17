//! Pictures in a bucket, against a server that speaks as much of S3 as is needed here and checks no signature: it only
//! looks whether requests have one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use domain::settings::Secret;
use parking_lot::Mutex;
use serde_json::json;

use super::{PNG, file, known, upload};
use crate::support::app::TestApp;

const BUCKET: &str = "pictures";

/// What lies in the bucket: path → content type and bytes.
#[derive(Clone, Default)]
struct Bucket {
    objects: Arc<Mutex<BTreeMap<String, (String, Bytes)>>>,
    is_away: Arc<AtomicBool>,
}

impl Bucket {
    async fn start(&self) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(answer).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        url
    }

    fn count(&self) -> usize {
        self.objects.lock().len()
    }
}

async fn answer(
    State(bucket): State<Bucket>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let signed = headers.get("authorization").is_some_and(|v| {
        v.to_str()
            .unwrap()
            .starts_with("AWS4-HMAC-SHA256 Credential=the-key/")
    }) || uri.query().is_some_and(|q| q.contains("X-Amz-Signature="));
    if !signed {
        return StatusCode::FORBIDDEN.into_response();
    }
    if bucket.is_away.load(Ordering::Relaxed) {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    let path = uri.path().to_owned();
    assert!(path.starts_with(&format!("/{BUCKET}")), "{path}");
    match method {
        Method::PUT => {
            let kind = headers["content-type"].to_str().unwrap().to_owned();
            bucket.objects.lock().insert(path, (kind, body));
            [("etag", "\"a\"")].into_response()
        }
        Method::GET => match bucket.objects.lock().get(&path) {
            Some((kind, bytes)) => {
                ([("content-type", kind.clone())], bytes.clone()).into_response()
            }
            None => StatusCode::NOT_FOUND.into_response(),
        },
        // Many at once: `<Delete><Object><Key>…</Key></Object></Delete>`.
        Method::POST => {
            let text = String::from_utf8(body.to_vec()).unwrap();
            let mut gone = String::new();
            for rest in text.split("<Key>").skip(1) {
                let key = rest.split("</Key>").next().unwrap();
                bucket.objects.lock().remove(&format!("/{BUCKET}/{key}"));
                gone += &format!("<Deleted><Key>{key}</Key></Deleted>");
            }
            format!("<?xml version=\"1.0\"?><DeleteResult>{gone}</DeleteResult>").into_response()
        }
        Method::DELETE => {
            bucket.objects.lock().remove(&path);
            StatusCode::NO_CONTENT.into_response()
        }
        _ => StatusCode::METHOD_NOT_ALLOWED.into_response(),
    }
}

async fn app_on(bucket: &Bucket, public_url: Option<&'static str>) -> TestApp {
    let endpoint = bucket.start().await;
    let change = move |c: &mut lifemate::config::Config| {
        c.s3_endpoint = Some(endpoint);
        c.s3_bucket = Some(BUCKET.to_owned());
        c.s3_access_key = Some("the-key".to_owned());
        c.s3_secret_key = Some(Secret::new("the-secret-of-the-bucket"));
        c.s3_public_url = public_url.map(str::to_owned);
    };
    TestApp::build().config(change).start().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_picture_in_a_bucket_is_fetched_from_there_by_a_signed_address() {
    let bucket = Bucket::default();
    let app = app_on(&bucket, None).await;
    let client = app.as_user(&app.user().await);
    let answer = upload(&client, &file(6, 4, PNG)).await;
    let url = answer.image()["url"].as_str().unwrap();
    assert!(
        url.contains("X-Amz-Signature=") && url.contains("X-Amz-Expires=3600"),
        "{url}"
    );
    assert!(!url.contains("the-secret"));
    let fetched = reqwest::get(url).await.unwrap();
    assert_eq!(fetched.headers()["content-type"], "image/png");
    let drawn = image::load_from_memory(&fetched.bytes().await.unwrap()).unwrap();
    assert_eq!((drawn.width(), drawn.height()), (6, 4));

    // An avatar keeps an address that does not expire: this server's, which says where the picture is now.
    let avatar = "mutation($id: ID!) { updateProfile(input: { avatarImageId: $id }) { user { avatarUrl } } }";
    let id = json!({ "id": answer.id() });
    let set = client.gql(avatar, id.clone()).await;
    let lasting = set.text("updateProfile.user.avatarUrl");
    assert!(
        lasting.starts_with(&format!("{}/uploads/", client.base_url())),
        "{lasting}"
    );
    let plain = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .unwrap();
    let sent_on = plain.get(lasting).send().await.unwrap();
    assert_eq!(sent_on.status(), 302);
    assert!(
        sent_on.headers()["location"]
            .to_str()
            .unwrap()
            .contains("X-Amz-Signature=")
    );
    assert_eq!(reqwest::get(lasting).await.unwrap().status(), 200);

    let delete = "mutation($id: ID!) { deleteImage(input: { imageId: $id }) { imageId } }";
    client.gql(delete, id).await.data();
    assert_eq!(bucket.count(), 0);
    assert_eq!(plain.get(lasting).send().await.unwrap().status(), 404);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_that_everybody_may_read_has_plain_addresses() {
    let bucket = Bucket::default();
    let app = app_on(&bucket, Some("https://pictures.example/")).await;
    let client = app.as_user(&app.user().await);
    let answer = upload(&client, &file(6, 4, PNG)).await;
    let url = answer.image()["url"].as_str().unwrap();
    let path = url
        .strip_prefix("https://pictures.example/images/")
        .unwrap();
    assert!(!path.contains('?'));
    assert!(
        bucket
            .objects
            .lock()
            .contains_key(&format!("/{BUCKET}/images/{path}"))
    );
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_that_is_away_is_told_and_leaves_nothing_for_ever() {
    let bucket = Bucket::default();
    let app = app_on(&bucket, None).await;
    let client = app.as_user(&app.user().await);
    let kept = upload(&client, &file(6, 4, PNG)).await;
    bucket.is_away.store(true, Ordering::Relaxed);
    let refused = upload(&client, &file(6, 4, PNG)).await;
    assert_eq!((refused.status, refused.code()), (503, "UNAVAILABLE"));
    // What is deleted is gone at once, and its object when the bucket is back.
    let delete = "mutation($id: ID!) { deleteImage(input: { imageId: $id }) { imageId } }";
    client.gql(delete, json!({ "id": kept.id() })).await.data();
    bucket.is_away.store(false, Ordering::Relaxed);
    assert_eq!(bucket.count(), 1);
    app.shift_clocks(std::time::Duration::from_secs(2 * 3_600));
    app.services().uploads.sweep().await.unwrap();
    assert_eq!((known(&app).await, bucket.count()), (0, 0));
    app.finish().await;
}
