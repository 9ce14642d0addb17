//! GraphiQL, served by the server itself: nothing is fetched from elsewhere. The files come from `build.rs`.

use std::io::Read;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use flate2::read::GzDecoder;

use super::App;
use super::http::plain;

/// A file of the page, as it is sent.
struct Asset {
    name: &'static str,
    content_type: &'static str,
    /// Gzipped.
    body: &'static [u8],
    /// The beginning of the SHA-256 of what is inside.
    version: &'static str,
}

include!(concat!(env!("OUT_DIR"), "/graphiql_assets.rs"));

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; \
    connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const MISSING: &str = "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>LifeMate</title>\n\
    <h1>GraphiQL is not in this build</h1>\n<p>npm was not there, or could not fetch the files, when the program was built. \
    Install npm, touch <code>web/package-lock.json</code> and build again.</p>\n\
    <p>Everything else works: the API is at <code>/graphql</code>.</p>\n</html>\n";

/// The page itself.
pub(super) async fn page(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    let mut response = match ASSETS.iter().find(|asset| asset.name == "index.html") {
        Some(asset) if COMPLETE => send(asset, &headers),
        _ => (
            StatusCode::NOT_IMPLEMENTED,
            [(header::CONTENT_TYPE, "text/html; charset=utf-8")],
            MISSING,
        )
            .into_response(),
    };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, policy(&app));
    headers.insert(
        header::REFERRER_POLICY,
        HeaderValue::from_static("no-referrer"),
    );
    response
}

/// What the page loads.
pub(super) async fn file(Path(name): Path<String>, headers: HeaderMap) -> Response {
    match ASSETS.iter().find(|asset| asset.name == name) {
        Some(asset) => send(asset, &headers),
        None => plain(StatusCode::NOT_FOUND, "no such file"),
    }
}

/// Browsers that do not count a WebSocket of the same host as 'self' need it named.
fn policy(app: &App) -> HeaderValue {
    let socket = app.public_url().replacen("http", "ws", 1);
    let named = POLICY.replace(
        "connect-src 'self'",
        &format!("connect-src 'self' {socket}"),
    );
    HeaderValue::from_str(&named).unwrap_or(HeaderValue::from_static(POLICY))
}

fn send(asset: &Asset, headers: &HeaderMap) -> Response {
    let tag = format!("\"{}\"", asset.version);
    let known = headers
        .get(header::IF_NONE_MATCH)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|known| known.contains(&tag));
    let mut response = if known {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let mut sent = body(asset, headers);
        let kind = HeaderValue::from_static(asset.content_type);
        sent.headers_mut().insert(header::CONTENT_TYPE, kind);
        sent
    };
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
        .headers_mut()
        .insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response.headers_mut().insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    response
}

/// The file as it is kept, or unpacked for a client that does not take gzip: a person with a plain command-line tool.
fn body(asset: &Asset, headers: &HeaderMap) -> Response {
    let accepted = headers
        .get(header::ACCEPT_ENCODING)
        .and_then(|value| value.to_str().ok());
    if accepted.is_some_and(|value| value.contains("gzip")) {
        return ([(header::CONTENT_ENCODING, "gzip")], asset.body).into_response();
    }
    let mut plain_body = Vec::new();
    match GzDecoder::new(asset.body).read_to_end(&mut plain_body) {
        Ok(_) => plain_body.into_response(),
        Err(_) => plain(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the file cannot be unpacked",
        ),
    }
}
