//! For those who run the server: is it alive, can it work, what does it count.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use domain::Missing;
use serde_json::json;

use super::App;

/// The process answers.
pub(super) async fn live() -> &'static str {
    "alive\n"
}

/// 200 when the node can serve, else 503; the body names what is missing. Kafka is named, but does not make a node
/// unready: the sale goes on without it, and a balancer that took every node out would stop it.
pub(super) async fn ready(State(app): State<Arc<App>>) -> Response {
    if app.closing.is_cancelled() {
        return answer(StatusCode::SERVICE_UNAVAILABLE, &["server"]);
    }
    let services = app.services.clone();
    match app
        .tasks
        .spawn(async move { services.missing().await })
        .await
    {
        Ok(missing) => {
            let unready = missing.iter().any(|missing| *missing != Missing::Kafka);
            let status = if unready {
                StatusCode::SERVICE_UNAVAILABLE
            } else {
                StatusCode::OK
            };
            answer(
                status,
                &missing
                    .iter()
                    .map(|missing| missing.name())
                    .collect::<Vec<_>>(),
            )
        }
        Err(e) => {
            tracing::error!(error = %e, "the readiness check panicked");
            answer(StatusCode::SERVICE_UNAVAILABLE, &["server"])
        }
    }
}

/// The counters in Prometheus' text format.
pub(super) async fn metrics(State(app): State<Arc<App>>) -> Response {
    (
        [(
            header::CONTENT_TYPE,
            "text/plain; version=0.0.4; charset=utf-8",
        )],
        app.metrics.render(),
    )
        .into_response()
}

fn answer(status: StatusCode, missing: &[&str]) -> Response {
    (
        status,
        [(header::CACHE_CONTROL, "no-store")],
        Json(json!({ "ready": status.is_success(), "missing": missing })),
    )
        .into_response()
}
