//! The gateway that login codes are posted to in tests, so that a test can log in as a person does.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use parking_lot::Mutex;
use serde_json::Value;

use super::wait::eventually;

/// A request as the gateway got it.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Delivery {
    /// A text of the JSON body.
    pub(crate) fn text(&self, field: &str) -> Option<String> {
        let body = serde_json::from_slice::<Value>(&self.body).ok()?;
        Some(body.get(field)?.as_str()?.to_owned())
    }
}

/// Takes whatever is posted to it, and keeps it.
pub(crate) struct CodeInbox {
    addr: SocketAddr,
    deliveries: Arc<Mutex<Vec<Delivery>>>,
    server: tokio::task::JoinHandle<()>,
}

impl CodeInbox {
    /// Starts the gateway on a free port.
    pub(crate) async fn start() -> Self {
        let deliveries = Arc::new(Mutex::new(Vec::new()));
        let router = Router::new()
            .route("/codes", post(take))
            .with_state(Arc::clone(&deliveries));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self {
            addr,
            deliveries,
            server,
        }
    }

    /// Where codes are to be posted.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/codes", self.addr)
    }

    /// Everything that came, the oldest first.
    pub(crate) fn deliveries(&self) -> Vec<Delivery> {
        self.deliveries.lock().clone()
    }

    /// The newest code for a phone, as soon as there is one.
    pub(crate) async fn code_for(&self, phone: &str) -> String {
        eventually(Duration::from_secs(5), "a login code", async || {
            self.deliveries()
                .iter()
                .rev()
                .find(|d| d.text("phone").as_deref() == Some(phone))?
                .text("code")
        })
        .await
    }
}

impl Drop for CodeInbox {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn take(
    State(deliveries): State<Arc<Mutex<Vec<Delivery>>>>,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    deliveries.lock().push(Delivery { headers, body });
    StatusCode::NO_CONTENT
}
