//! What every request gets: an id, a trace, a caller's address, a count. Nothing here looks into bodies.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{ConnectInfo, MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};
use schema::context::RequestMeta;
use uuid::Uuid;

use super::App;
use super::caller::{client_address, device_id};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");
/// Characters; ids of proxies are shorter, and longer ones would only fill logs.
const LONGEST_REQUEST_ID: usize = 64;

/// Explains the metrics of the transport.
pub(crate) fn describe() {
    describe_counter!(
        "lifemate_http_requests_total",
        "Requests by path and status"
    );
    describe_histogram!(
        "lifemate_http_request_seconds",
        Unit::Seconds,
        "From the headers of a request to the headers of its answer, by path"
    );
    describe_gauge!("lifemate_sockets", "Open WebSockets");
    describe_gauge!(
        "lifemate_subscriptions",
        "Operations that run on WebSockets"
    );
}

/// Gives the request its `RequestMeta`, and the answer its ids.
pub(super) async fn observe(
    State(app): State<Arc<App>>,
    mut request: Request,
    next: Next,
) -> Response {
    let started = Instant::now();
    let path = request
        .extensions()
        .get::<MatchedPath>()
        .map_or_else(|| "unknown".to_owned(), |path| path.as_str().to_owned());
    let meta = meta(&app, &request);
    let ids = (
        header(&meta.request_id),
        header(&format!("00-{}-{}-01", meta.trace_id, span_id())),
    );
    request.extensions_mut().insert(meta);
    let mut response = next.run(request).await;
    if let (Some(request_id), Some(trace_parent)) = ids {
        response.headers_mut().insert(REQUEST_ID, request_id);
        response.headers_mut().insert(TRACE_PARENT, trace_parent);
    }
    let status = response.status().as_u16().to_string();
    metrics::histogram!("lifemate_http_request_seconds", "path" => path.clone())
        .record(started.elapsed().as_secs_f64());
    metrics::counter!("lifemate_http_requests_total", "path" => path, "status" => status)
        .increment(1);
    response
}

fn meta(app: &App, request: &Request) -> RequestMeta {
    let peer = request
        .extensions()
        .get::<ConnectInfo<SocketAddr>>()
        .map(|info| info.0.ip());
    let headers = request.headers();
    RequestMeta {
        ip: client_address(peer, headers, &app.trusted_proxies),
        device_id: device_id(headers),
        request_id: request_id(headers),
        trace_id: trace_id(headers),
    }
}

/// The caller's own id where it can stand in a log line, else a new one.
fn request_id(headers: &HeaderMap) -> String {
    let given = headers
        .get(REQUEST_ID)
        .and_then(|value| value.to_str().ok());
    let fits = |id: &&str| {
        let plain =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':');
        !id.is_empty() && id.len() <= LONGEST_REQUEST_ID && id.bytes().all(plain)
    };
    given
        .filter(fits)
        .map_or_else(|| Uuid::now_v7().simple().to_string(), str::to_owned)
}

/// The trace id of a W3C `traceparent`, else a new one: always 32 hexadecimal digits.
fn trace_id(headers: &HeaderMap) -> String {
    let given = headers
        .get(TRACE_PARENT)
        .and_then(|value| value.to_str().ok())
        .and_then(parse_trace_parent);
    given.map_or_else(|| Uuid::new_v4().simple().to_string(), str::to_owned)
}

fn parse_trace_parent(text: &str) -> Option<&str> {
    let hex = |part: &str, len: usize| {
        part.len() == len
            && part
                .bytes()
                .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    };
    let zero = |part: &str| part.bytes().all(|b| b == b'0');
    let mut parts = text.split('-');
    let (version, trace, span, flags) =
        (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    // Later versions may append parts; version 00 must not.
    let rest_fits = version != "00" || parts.next().is_none();
    let shape =
        hex(version, 2) && version != "ff" && hex(trace, 32) && hex(span, 16) && hex(flags, 2);
    (shape && rest_fits && !zero(trace) && !zero(span)).then_some(trace)
}

fn span_id() -> String {
    format!("{:016x}", rand::random::<u64>().max(1))
}

fn header(text: &str) -> Option<HeaderValue> {
    HeaderValue::from_str(text).ok()
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, HeaderValue};

    use super::{parse_trace_parent, request_id};

    #[test]
    fn a_good_traceparent_is_taken_and_a_bad_one_is_not() {
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        let good = format!("00-{trace}-00f067aa0ba902b7-01");
        assert_eq!(parse_trace_parent(&good), Some(trace));
        assert_eq!(
            parse_trace_parent(&format!("01-{trace}-00f067aa0ba902b7-01-more")),
            Some(trace)
        );
        for bad in [
            "",
            "00",
            &good.to_uppercase(),
            &format!("{good}-more"),
            &good.replace(trace, &"0".repeat(32)),
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ] {
            assert_eq!(parse_trace_parent(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_request_id_that_could_forge_a_log_line_is_replaced() {
        let with = |value: &'static str| {
            HeaderMap::from_iter([(super::REQUEST_ID, HeaderValue::from_static(value))])
        };
        assert_eq!(request_id(&with("req-1:a.b_c")), "req-1:a.b_c");
        assert_ne!(request_id(&with("a b")), "a b");
        assert_eq!(request_id(&HeaderMap::new()).len(), 32);
    }
}
