//! Pictures on the wire: `POST /uploads` takes one from somebody who is signed in, `GET /uploads/{key}` hands one out
//! to everybody. What a picture is, and where it lies, is `domain::uploads`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_graphql::Response as GraphqlResponse;
use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use domain::rate_limits::{self, Caller, Dimension, OnTrouble, Rule, Shape};
use domain::uploads::{Error, Image, Refusal, Served};
use domain::users::Session;
use parking_lot::Mutex;
use schema::context::RequestMeta;
use serde_json::json;

use super::App;
use super::caller::Credentials;
use super::form::{self, Unusable};
use super::operation::{self, Body as ErrorBody};
use super::trouble;

/// Headers one of which an upload must have, not empty. A form of a stranger's page cannot set any.
pub(super) const PREFLIGHT: [&str; 5] = [
    "x-upload",
    "x-requested-with",
    "apollo-require-preflight",
    "graphql-require-preflight",
    "graphql-preflight",
];
/// A burst is a note's pictures, twice; each costs a decoder's time.
const UPLOADS: Rule = Rule {
    name: "uploads",
    shape: Shape::Bucket {
        capacity: 20,
        per_second: 1,
    },
    dimension: Dimension::User,
    on_trouble: OnTrouble::Closed,
    message: "too many uploads; slow down",
};
/// Uploads that a user may have under way at this node. Each holds up to 8 MiB for as long as its sender likes.
const MOST_OF_A_USER: usize = 3;
/// Uploads under way at this node: 256 MiB of forms at most.
const MOST_AT_ONCE: usize = 32;
/// An answer is waited for this long; the work goes on.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// A signed address is good for an hour; a redirect to one may be kept for less.
const REDIRECT_AGE: &str = "private, max-age=600";
/// A picture never changes under its key.
const FOR_EVER: &str = "public, max-age=31536000, immutable";
/// Nothing that is handed out here may run, whatever a browser takes it for.
const POLICY: &str = "default-src 'none'; sandbox";

/// Uploads under way at this node.
#[derive(Clone, Default)]
pub(super) struct UnderWay {
    by_user: Arc<Mutex<HashMap<i64, usize>>>,
}

impl UnderWay {
    /// A place for one more of a user's uploads; `None` when there is none.
    fn enter(&self, user: i64) -> Option<Place> {
        let mut by_user = self.by_user.lock();
        let all: usize = by_user.values().sum();
        let own = by_user.entry(user).or_default();
        let fits = *own < MOST_OF_A_USER && all < MOST_AT_ONCE;
        *own += usize::from(fits);
        let is_idle = *own == 0;
        if is_idle {
            by_user.remove(&user);
        }
        fits.then(|| Place {
            of: self.clone(),
            user,
        })
    }
}

/// The place of one upload, given back when it ends.
struct Place {
    of: UnderWay,
    user: i64,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut by_user = self.of.by_user.lock();
        if let Some(own) = by_user.get_mut(&self.user) {
            *own -= 1;
            if *own == 0 {
                by_user.remove(&self.user);
            }
        }
    }
}

/// Takes one picture; 200 only when it is stored.
pub(super) async fn add(
    State(app): State<Arc<App>>,
    Extension(meta): Extension<RequestMeta>,
    request: Request,
) -> Response {
    match take(&app, &meta, request).await {
        Ok(response) | Err(response) => response,
    }
}

async fn take(app: &Arc<App>, meta: &RequestMeta, request: Request) -> Result<Response, Response> {
    let (asking, asked, headers) = (Arc::clone(app), meta.clone(), request.headers().clone());
    let admitted = app
        .tasks
        .spawn(async move { admit(&asking, &asked, &headers).await });
    let session = admitted.await.map_err(|_| panicked(meta))??;
    if !form::is_form(request.headers()) {
        let message = "the content type must be multipart/form-data";
        return Err(told(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
    }
    let Some(place) = app.uploads.enter(session.user_id.0) else {
        let message = "too many uploads at the same time";
        return Err(told(StatusCode::TOO_MANY_REQUESTS, message));
    };
    let file = form::read_file(request)
        .await
        .map_err(|Unusable { status, message }| told(status, &message))?;
    let services = app.services.clone();
    // A client that hangs up does not leave half a picture behind.
    let work = app.tasks.spawn(async move {
        let image = services.uploads.add(&session, file).await?;
        let url = services.uploads.url(&image).await?;
        drop(place);
        Ok((image, url))
    });
    match tokio::time::timeout(ANSWER_LIMIT, work).await {
        Ok(Ok(Ok((image, url)))) => Ok(stored(&image, &url)),
        Ok(Ok(Err(error))) => Err(failed(meta, &error)),
        Ok(Err(_)) => Err(panicked(meta)),
        Err(_) => Err(refused(
            StatusCode::SERVICE_UNAVAILABLE,
            &trouble::try_later(),
        )),
    }
}

/// Who uploads, if he may now. Asked before anything of the body is read.
async fn admit(app: &App, meta: &RequestMeta, headers: &HeaderMap) -> Result<Session, Response> {
    let is_meant = |name: &str| headers.get(name).is_some_and(|value| !value.is_empty());
    if !PREFLIGHT.iter().any(|name| is_meant(name)) {
        let message = "an upload needs a header `X-Upload: 1`";
        return Err(told(StatusCode::FORBIDDEN, message));
    }
    let session = operation::authenticate(app, Credentials::of_headers(headers))
        .await
        .map_err(|response| refused(status_of(&response), &response))?
        .ok_or_else(|| told(StatusCode::UNAUTHORIZED, "sign in first"))?;
    let caller = Caller {
        user: Some(session.user_id.0),
        ip: meta.ip,
        device: meta.device_id.clone(),
    };
    match app.services.rate_limits.check(&UPLOADS, &caller).await {
        Ok(()) => Ok(session),
        Err(error) => {
            let response = trouble::of_domain(&error);
            let mut answer = refused(status_of(&response), &response);
            if let rate_limits::Error::Reached { retry_after, .. } = error {
                let secs = retry_after.as_millis().div_ceil(1000);
                if let Ok(secs) = HeaderValue::from_str(&secs.to_string()) {
                    answer.headers_mut().insert(header::RETRY_AFTER, secs);
                }
            }
            Err(answer)
        }
    }
}

/// Hands a picture out, or says where it is.
pub(super) async fn serve(
    State(app): State<Arc<App>>,
    Extension(meta): Extension<RequestMeta>,
    Path(key): Path<String>,
    headers: HeaderMap,
) -> Response {
    let uploads = app.services.uploads.clone();
    // A question to the database is never dropped half-way, also when the client hangs up.
    let looked_up = app.tasks.spawn(async move { uploads.serve(&key).await });
    let mut response = match looked_up.await {
        Ok(found) => hand_out(found, &meta, &headers),
        Err(_) => panicked(&meta),
    };
    let safe = [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
    ];
    for (name, value) in safe {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

fn hand_out(
    found: Result<Option<Served>, Error>,
    meta: &RequestMeta,
    headers: &HeaderMap,
) -> Response {
    match found {
        Ok(Some(Served::Here { image, bytes })) => {
            let tag = format!("\"{}\"", image.sha256);
            let known = headers.get_all(header::IF_NONE_MATCH).iter();
            let mut known = known
                .filter_map(|value| value.to_str().ok())
                .flat_map(|value| value.split(','));
            if known.any(|value| value.trim().trim_start_matches("W/") == tag) {
                whole(StatusCode::NOT_MODIFIED, &image, &tag, Body::empty())
            } else {
                whole(StatusCode::OK, &image, &tag, Body::from_stream(bytes))
            }
        }
        Ok(Some(Served::Elsewhere { url })) => (
            StatusCode::FOUND,
            [
                (header::LOCATION, url),
                (header::CACHE_CONTROL, REDIRECT_AGE.to_owned()),
            ],
        )
            .into_response(),
        Ok(None) => told(StatusCode::NOT_FOUND, "no such picture"),
        Err(error) => failed(meta, &error),
    }
}

fn whole(status: StatusCode, image: &Image, tag: &str, body: Body) -> Response {
    let mut response = (status, body).into_response();
    let mut headers: Vec<(HeaderName, &str)> =
        vec![(header::CACHE_CONTROL, FOR_EVER), (header::ETAG, tag)];
    let length = image.bytes.to_string();
    if status == StatusCode::OK {
        headers.push((header::CONTENT_TYPE, &image.content_type));
        headers.push((header::CONTENT_LENGTH, &length));
    }
    for (name, value) in headers {
        if let Ok(value) = HeaderValue::from_str(value) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

fn stored(image: &Image, url: &str) -> Response {
    let answer = json!({ "image": {
        "id": schema::uploads::image_id(image),
        "url": url,
        "width": image.width,
        "height": image.height,
    } });
    axum::Json(answer).into_response()
}

/// The panic's own words are on standard error.
fn panicked(meta: &RequestMeta) -> Response {
    tracing::error!(request.id = meta.request_id, "an upload panicked");
    let status = StatusCode::INTERNAL_SERVER_ERROR;
    refused(status, &trouble::internal(meta))
}

fn failed(meta: &RequestMeta, error: &Error) -> Response {
    let Error::Refused(refusal) = error else {
        let response = trouble::shape(trouble::of_domain(error), meta);
        return refused(status_of(&response), &response);
    };
    let status = match refusal {
        Refusal::Empty => StatusCode::BAD_REQUEST,
        Refusal::TooLarge | Refusal::TooManyPixels => StatusCode::PAYLOAD_TOO_LARGE,
        Refusal::UnknownKind => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        Refusal::Broken => StatusCode::UNPROCESSABLE_ENTITY,
    };
    told(status, &refusal.to_string())
}

/// A refusal in a word of our own; the code follows from the status.
fn told(status: StatusCode, message: &str) -> Response {
    let code = match status {
        StatusCode::UNAUTHORIZED => "UNAUTHENTICATED",
        StatusCode::FORBIDDEN => "FORBIDDEN",
        StatusCode::NOT_FOUND => "NOT_FOUND",
        StatusCode::REQUEST_TIMEOUT => "TOO_SLOW",
        StatusCode::PAYLOAD_TOO_LARGE => "TOO_LARGE",
        StatusCode::UNSUPPORTED_MEDIA_TYPE => "UNSUPPORTED_TYPE",
        StatusCode::UNPROCESSABLE_ENTITY => "BROKEN_IMAGE",
        StatusCode::TOO_MANY_REQUESTS => "RATE_LIMITED",
        _ => "BAD_INPUT",
    };
    refused(status, &trouble::refusal(code, message))
}

/// Errors look here as they do in GraphQL.
fn refused(status: StatusCode, response: &GraphqlResponse) -> Response {
    (status, axum::Json(ErrorBody::of(response))).into_response()
}

fn status_of(response: &GraphqlResponse) -> StatusCode {
    match trouble::code(response) {
        Some("UNAUTHENTICATED") => StatusCode::UNAUTHORIZED,
        Some("FORBIDDEN") => StatusCode::FORBIDDEN,
        Some("NOT_FOUND") => StatusCode::NOT_FOUND,
        Some("RATE_LIMITED") => StatusCode::TOO_MANY_REQUESTS,
        Some("TRY_LATER" | "UNAVAILABLE") => StatusCode::SERVICE_UNAVAILABLE,
        Some("BAD_INPUT") => StatusCode::BAD_REQUEST,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
