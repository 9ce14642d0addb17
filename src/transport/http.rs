//! GraphQL over HTTP: POST for everything, GET for queries. WebSocket upgrades of the same path are handed on.

use std::sync::Arc;
use std::time::Duration;

use async_graphql::parser::types::OperationType;
use async_graphql::{Response as GraphqlResponse, Value};
use axum::Extension;
use axum::body::Body as HttpBody;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use schema::context::RequestMeta;

use super::App;
use super::caller::Credentials;
use super::envelope::Envelope;
use super::operation::{self, Body, Prepared};
use super::{trouble, websocket};

/// Bytes of a POST body; the longest query of ours is far below.
const LARGEST_BODY: usize = 64 * 1024;
/// Bytes above the limit that are still read, so that an honest mistake gets its answer.
const LARGEST_SURPLUS: usize = 1024 * 1024;
/// A body that trickles in slower than this only holds a connection.
const BODY_LIMIT: Duration = Duration::from_secs(10);
const JSON: &str = "application/json";
const GRAPHQL_RESPONSE: &str = "application/graphql-response+json";

/// How the client wants its answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MediaType {
    /// The status says whether the operation ran.
    GraphqlResponse,
    /// For clients from before that: a well-formed request is always 200.
    Json,
}

/// A query in the address, or an upgrade to a WebSocket.
pub(super) async fn get(
    State(app): State<Arc<App>>,
    Extension(meta): Extension<RequestMeta>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
    RawQuery(query_string): RawQuery,
    headers: HeaderMap,
) -> Response {
    match upgrade {
        Ok(upgrade) => return websocket::upgrade(app, meta, &headers, upgrade),
        Err(rejection) if headers.contains_key(header::SEC_WEBSOCKET_KEY) => {
            return rejection.into_response();
        }
        Err(_) => {}
    }
    let Some(media_type) = negotiate(&headers) else {
        return not_acceptable();
    };
    let prepared = match Envelope::from_query_string(&query_string.unwrap_or_default()) {
        Ok(request) => operation::prepare(request),
        Err(problem) => return malformed(media_type, &problem),
    };
    match prepared {
        Ok(prepared) if prepared.kind != OperationType::Query => {
            let mut response = answer(
                media_type,
                &trouble::refusal("BAD_INPUT", "GET is for queries; send this with POST"),
            );
            *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
            response
                .headers_mut()
                .insert(header::ALLOW, HeaderValue::from_static("POST"));
            response
        }
        prepared => execute(&app, meta, &headers, media_type, prepared).await,
    }
}

/// Any operation in a JSON body.
pub(super) async fn post(
    State(app): State<Arc<App>>,
    Extension(meta): Extension<RequestMeta>,
    headers: HeaderMap,
    body: HttpBody,
) -> Response {
    let Some(media_type) = negotiate(&headers) else {
        return not_acceptable();
    };
    if !has_json_body(&headers) {
        let text = "the content type must be application/json, in UTF-8";
        return plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, text);
    }
    let body = match read(body, LARGEST_BODY).await {
        Ok(body) => body,
        Err(response) => return response,
    };
    match Envelope::from_json(&body) {
        Ok(request) => {
            execute(
                &app,
                meta,
                &headers,
                media_type,
                operation::prepare(request),
            )
            .await
        }
        Err(problem) => malformed(media_type, &problem),
    }
}

/// Reads a body of at most `limit` bytes.
pub(super) async fn read(body: HttpBody, limit: usize) -> Result<Vec<u8>, Response> {
    match tokio::time::timeout(BODY_LIMIT, collect(body, limit)).await {
        Ok(Ok(Some(bytes))) => Ok(bytes),
        Ok(Ok(None)) => Err(plain(
            StatusCode::PAYLOAD_TOO_LARGE,
            &format!("the body must not be larger than {limit} bytes"),
        )),
        Ok(Err(_)) => Err(plain(
            StatusCode::BAD_REQUEST,
            "the body did not arrive as a whole",
        )),
        Err(_) => Err(plain(
            StatusCode::REQUEST_TIMEOUT,
            "the body did not arrive in time",
        )),
    }
}

/// `None`: larger than `limit`. Some of what is too much is read and thrown away, because a client that is still
/// writing when the connection closes never sees the answer.
async fn collect(body: HttpBody, limit: usize) -> Result<Option<Vec<u8>>, axum::Error> {
    let mut chunks = body.into_data_stream();
    let (mut bytes, mut surplus) = (Vec::new(), 0);
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk?;
        if surplus == 0 && bytes.len() + chunk.len() <= limit {
            bytes.extend_from_slice(&chunk);
        } else {
            surplus += chunk.len();
        }
        if surplus > LARGEST_SURPLUS {
            break;
        }
    }
    Ok((surplus == 0).then_some(bytes))
}

/// An answer of one line for people.
pub(super) fn plain(status: StatusCode, text: &str) -> Response {
    (
        status,
        [(header::CONTENT_TYPE, "text/plain; charset=utf-8")],
        format!("{text}\n"),
    )
        .into_response()
}

async fn execute(
    app: &Arc<App>,
    meta: RequestMeta,
    headers: &HeaderMap,
    media_type: MediaType,
    prepared: Result<Prepared, Box<GraphqlResponse>>,
) -> Response {
    let response = match prepared {
        Ok(prepared) => {
            operation::run_for(
                app,
                prepared.request,
                meta,
                Credentials::of_headers(headers),
            )
            .await
        }
        Err(refused) => *refused,
    };
    answer(media_type, &response)
}

fn answer(media_type: MediaType, result: &GraphqlResponse) -> Response {
    let body = match serde_json::to_vec(&Body::of(result)) {
        Ok(body) => body,
        Err(e) => {
            tracing::error!(error = %e, "an answer cannot be written as JSON");
            return StatusCode::INTERNAL_SERVER_ERROR.into_response();
        }
    };
    let content_type = match media_type {
        MediaType::GraphqlResponse => "application/graphql-response+json; charset=utf-8",
        MediaType::Json => "application/json; charset=utf-8",
    };
    let mut response = (status(media_type, result), body).into_response();
    response.headers_mut().extend(result.http_headers.clone());
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

fn status(media_type: MediaType, result: &GraphqlResponse) -> StatusCode {
    if media_type == MediaType::Json || result.errors.is_empty() {
        return StatusCode::OK;
    }
    if result.data != Value::Null {
        // "Partial success" of the GraphQL-over-HTTP text; the registry of the `http` crate has no name for it.
        return StatusCode::from_u16(294).unwrap_or(StatusCode::OK);
    }
    match trouble::code(result) {
        Some("UNAUTHENTICATED") => StatusCode::UNAUTHORIZED,
        Some("RATE_LIMITED") => StatusCode::TOO_MANY_REQUESTS,
        Some("TRY_LATER" | "UNAVAILABLE") => StatusCode::SERVICE_UNAVAILABLE,
        Some("INTERNAL") => StatusCode::INTERNAL_SERVER_ERROR,
        _ if operation::is_request_error(result) => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}

/// What cannot be read is 400 for every client.
fn malformed(media_type: MediaType, problem: &str) -> Response {
    let mut response = answer(media_type, &trouble::refusal("BAD_INPUT", problem));
    *response.status_mut() = StatusCode::BAD_REQUEST;
    response
}

fn not_acceptable() -> Response {
    plain(
        StatusCode::NOT_ACCEPTABLE,
        "answers are application/graphql-response+json or application/json, in UTF-8",
    )
}

/// The better one of what the client takes; no wish is JSON. `None`: it takes neither.
fn negotiate(headers: &HeaderMap) -> Option<MediaType> {
    let mut wishes = headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .peekable();
    if wishes.peek().is_none() {
        return Some(MediaType::Json);
    }
    let mut best: Option<(MediaType, f32)> = None;
    for (media_type, quality) in wishes.filter_map(wish) {
        let better = best.is_none_or(|(held, held_quality)| {
            quality > held_quality
                || (quality == held_quality
                    && held == MediaType::Json
                    && media_type == MediaType::GraphqlResponse)
        });
        if quality > 0.0 && better {
            best = Some((media_type, quality));
        }
    }
    best.map(|(media_type, _)| media_type)
}

/// One entry of `Accept` that we can serve, and how much it is wanted.
fn wish(entry: &str) -> Option<(MediaType, f32)> {
    let mut parts = entry.split(';').map(str::trim);
    let media_type = match parts.next()?.to_ascii_lowercase().as_str() {
        GRAPHQL_RESPONSE => MediaType::GraphqlResponse,
        JSON | "application/*" | "*/*" => MediaType::Json,
        _ => return None,
    };
    let mut quality = 1.0;
    for (name, value) in parts.filter_map(|part| part.split_once('=')) {
        match name.trim().to_ascii_lowercase().as_str() {
            "q" => quality = value.trim().parse().unwrap_or(0.0),
            "charset" if !is_utf8(value) => return None,
            _ => {}
        }
    }
    Some((media_type, quality))
}

fn has_json_body(headers: &HeaderMap) -> bool {
    let content_type = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    content_type.is_some_and(|content_type| {
        let mut parts = content_type.split(';').map(str::trim);
        let json = parts
            .next()
            .is_some_and(|media_type| media_type.eq_ignore_ascii_case(JSON));
        json && parts
            .filter_map(|part| part.split_once('='))
            .all(|(name, value)| !name.trim().eq_ignore_ascii_case("charset") || is_utf8(value))
    })
}

fn is_utf8(charset: &str) -> bool {
    let charset = charset.trim().trim_matches('"');
    charset.eq_ignore_ascii_case("utf-8") || charset.eq_ignore_ascii_case("utf8")
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, HeaderValue, header};

    use super::{MediaType, has_json_body, negotiate};

    fn with(name: header::HeaderName, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_static(value))])
    }

    #[test]
    fn the_client_gets_the_media_type_it_wants_most() {
        let wanted = |accept| negotiate(&with(header::ACCEPT, accept));
        assert!(negotiate(&HeaderMap::new()) == Some(MediaType::Json));
        assert!(wanted("*/*") == Some(MediaType::Json));
        assert!(
            wanted("application/json, application/graphql-response+json")
                == Some(MediaType::GraphqlResponse)
        );
        assert!(
            wanted("application/graphql-response+json;q=0.5, application/json")
                == Some(MediaType::Json)
        );
        assert!(
            wanted(
                "application/graphql-response+json; charset=utf-8, application/json; charset=utf-8"
            ) == Some(MediaType::GraphqlResponse)
        );
        for nothing in [
            "text/html",
            "application/json;q=0",
            "application/json; charset=latin1",
        ] {
            assert!(wanted(nothing).is_none(), "{nothing}");
        }
    }

    #[test]
    fn only_json_in_utf8_is_a_body() {
        for good in [
            "application/json",
            "Application/JSON; charset=UTF-8",
            "application/json;charset=\"utf-8\"",
        ] {
            assert!(has_json_body(&with(header::CONTENT_TYPE, good)), "{good}");
        }
        for bad in [
            "text/plain",
            "application/json; charset=latin1",
            "application/graphql",
            "multipart/form-data; boundary=x",
        ] {
            assert!(!has_json_body(&with(header::CONTENT_TYPE, bad)), "{bad}");
        }
        assert!(!has_json_body(&HeaderMap::new()));
    }
}
