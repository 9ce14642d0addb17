//! Which web pages may call: the server's own and those that the operator named.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use reqwest::Url;
use tower_http::cors::{AllowOrigin, CorsLayer};

use super::uploads::PREFLIGHT;

/// How long a browser may remember a preflight's answer.
const PREFLIGHT_AGE: Duration = Duration::from_secs(600);

/// The origins that are let in.
pub(super) struct Origins {
    allowed: Vec<String>,
    own: String,
}

impl Origins {
    /// The public address's origin and the operator's list.
    pub(super) fn new(public_url: &str, allowed: &[String]) -> Self {
        let own = Url::parse(public_url)
            .map(|url| url.origin().ascii_serialization())
            .unwrap_or_default();
        Self {
            allowed: allowed.to_vec(),
            own,
        }
    }

    /// Whether a WebSocket may be opened. Browsers always say where a page came from, other clients need not.
    pub(super) fn admit(&self, headers: &HeaderMap) -> bool {
        let Some(origin) = headers.get(header::ORIGIN) else {
            return true;
        };
        let Ok(origin) = origin.to_str() else {
            return false;
        };
        // The page that this server gave out, by whatever name the browser knows the server.
        let host = headers
            .get(header::HOST)
            .and_then(|host| host.to_str().ok());
        let same_host = host.is_some_and(|host| {
            origin
                .split_once("://")
                .is_some_and(|(_, rest)| rest.eq_ignore_ascii_case(host))
        });
        same_host || origin == self.own || self.allowed.iter().any(|allowed| allowed == origin)
    }

    /// Lets pages of other origins call over HTTP; tokens are never cookies, so none are allowed.
    pub(super) fn cors(&self) -> CorsLayer {
        let origins = self
            .allowed
            .iter()
            .filter_map(|origin| HeaderValue::from_str(origin).ok());
        let name = HeaderName::from_static;
        CorsLayer::new()
            .allow_origin(AllowOrigin::list(origins))
            .allow_methods([Method::GET, Method::POST])
            .allow_headers(
                PREFLIGHT
                    .map(name)
                    .into_iter()
                    .chain([
                        header::AUTHORIZATION,
                        header::CONTENT_TYPE,
                        header::ACCEPT,
                        name("x-device-id"),
                        name("x-request-id"),
                        name("traceparent"),
                    ])
                    .collect::<Vec<_>>(),
            )
            .expose_headers([
                name("x-request-id"),
                name("traceparent"),
                header::RETRY_AFTER,
                name("ratelimit"),
                name("ratelimit-policy"),
            ])
            .max_age(PREFLIGHT_AGE)
    }
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, HeaderValue, header};

    use super::Origins;

    #[test]
    fn pages_of_strangers_open_no_socket() {
        let origins = Origins::new(
            "https://api.example.org",
            &["https://app.example.org".to_owned()],
        );
        let from = |origin: &'static str| {
            HeaderMap::from_iter([
                (header::ORIGIN, HeaderValue::from_static(origin)),
                (header::HOST, HeaderValue::from_static("localhost:8000")),
            ])
        };
        assert!(origins.admit(&HeaderMap::new()));
        for origin in [
            "https://api.example.org",
            "https://app.example.org",
            "http://localhost:8000",
        ] {
            assert!(origins.admit(&from(origin)), "{origin}");
        }
        for origin in [
            "https://evil.example",
            "null",
            "https://app.example.org.evil.example",
            "http://localhost:80001",
        ] {
            assert!(!origins.admit(&from(origin)), "{origin}");
        }
    }
}
