//! Callbacks of payment providers. Whether one is believed, and what it changes, is `domain::orders`.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use domain::orders::payment::{Callback, CallbackError};
use schema::context::RequestMeta;

use super::App;
use super::http::{plain, read};

/// Bytes; the domain refuses larger ones, too.
const LARGEST_BODY: usize = 16 * 1024;
const TIMESTAMP: &str = "x-lifemate-timestamp";
const SIGNATURE: &str = "x-lifemate-signature";

/// Takes one callback; 200 only after it is recorded. Runs to its end even if the provider hangs up.
pub(super) async fn payment(
    State(app): State<Arc<App>>,
    Extension(meta): Extension<RequestMeta>,
    Path(provider): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let body = match read(body, LARGEST_BODY).await {
        Ok(body) => body,
        Err(response) => return response,
    };
    // A header that is no text cannot be right either: both come to an empty one, which is "not signed".
    let text = |name: &str| {
        headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
            .to_owned()
    };
    let (timestamp, signature) = (text(TIMESTAMP), text(SIGNATURE));
    let orders = app.services.orders.clone();
    let recording = app.tasks.spawn(async move {
        let callback = Callback {
            timestamp: &timestamp,
            signature: &signature,
            body: &body,
        };
        orders.payment_callback(&provider, callback).await
    });
    match recording.await {
        Ok(Ok(_)) => plain(StatusCode::OK, "recorded"),
        Ok(Err(error)) => refuse(&meta, &error),
        Err(e) => {
            tracing::error!(request.id = meta.request_id, error = %e, "a payment callback panicked");
            plain(StatusCode::INTERNAL_SERVER_ERROR, "not recorded")
        }
    }
}

fn refuse(meta: &RequestMeta, error: &CallbackError) -> Response {
    let status = match error {
        CallbackError::UnknownProvider => StatusCode::NOT_FOUND,
        CallbackError::Unsigned => StatusCode::UNAUTHORIZED,
        CallbackError::Malformed(_) => StatusCode::BAD_REQUEST,
        CallbackError::Unavailable(cause) => {
            tracing::warn!(request.id = meta.request_id, error = %cause, "a payment callback was not recorded; the provider has to send it again");
            return plain(
                StatusCode::SERVICE_UNAVAILABLE,
                "not recorded now; send it again",
            );
        }
    };
    tracing::info!(
        request.id = meta.request_id,
        status = status.as_u16(),
        "a payment callback was refused"
    );
    plain(status, &error.to_string())
}
