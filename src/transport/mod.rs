//! The product on the wire: GraphQL over HTTP and WebSocket, pictures, callbacks, health, GraphiQL. Thin: what an operation
//! means is `schema`.

mod answers;
mod caller;
pub(crate) mod connections;
mod envelope;
mod form;
mod graphiql;
mod health;
mod http;
mod nesting;
mod observe;
mod operation;
mod origin;
mod precheck;
mod sandbox;
mod socket;
mod trouble;
mod uploads;
mod webhooks;
mod websocket;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware;
use axum::routing::{get, post};
use domain::Services;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::{Config, Network};
use origin::Origins;
use uploads::UnderWay;
use websocket::Sockets;

pub(crate) use answers::Answers;
pub(crate) use observe::describe as describe_metrics;

/// Everything that handlers share.
pub(crate) struct App {
    answers: Answers,
    services: Services,
    public_url: String,
    production: bool,
    origins: Origins,
    trusted_proxies: Vec<Network>,
    metrics: PrometheusHandle,
    sockets: Sockets,
    uploads: UnderWay,
    /// Operations in hand, whether somebody still waits for them or not, and sockets.
    tasks: TaskTracker,
    /// Cancelled: sockets close.
    closing: CancellationToken,
}

impl App {
    /// What handlers share, for a server that listens on `addr`.
    pub(crate) fn new(
        config: &Config,
        (services, answers): (Services, Answers),
        addr: SocketAddr,
        metrics: PrometheusHandle,
    ) -> Self {
        let public_url = config.public_url(addr);
        Self {
            answers,
            services,
            production: config.is_production(),
            origins: Origins::new(&public_url, &config.allowed_origins),
            public_url,
            trusted_proxies: config.trusted_proxies.clone(),
            metrics,
            sockets: Sockets::default(),
            uploads: UnderWay::default(),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
        }
    }

    /// How people reach this server, no slash at the end.
    pub(crate) fn public_url(&self) -> &str {
        &self.public_url
    }

    /// Tells every socket that the server goes.
    pub(crate) fn close_sockets(&self) {
        self.closing.cancel();
    }

    /// Waits for operations in hand and for sockets, but no longer than this.
    pub(crate) async fn drain(&self, patience: Duration) {
        self.tasks.close();
        if tokio::time::timeout(patience, self.tasks.wait())
            .await
            .is_err()
        {
            tracing::warn!(tasks = self.tasks.len(), "stopping with operations in hand");
        }
    }
}

/// Every path of the server.
pub(crate) fn router(app: Arc<App>) -> Router {
    let graphql = get(http::get).post(http::post).layer(app.origins.cors());
    let add_upload = post(uploads::add).layer(app.origins.cors());
    let uploaded = get(uploads::serve).layer(app.origins.cors());
    let mut router = Router::new()
        .route("/graphql", graphql)
        .route("/uploads", add_upload)
        .route("/uploads/{key}", uploaded)
        .route("/webhooks/payments/{provider}", post(webhooks::payment))
        .route("/metrics", get(health::metrics))
        .route("/health/live", get(health::live))
        .route("/health/ready", get(health::ready));
    if !app.production {
        router = router
            .route("/", get(graphiql::page))
            .route("/graphiql/{file}", get(graphiql::file))
            .route(
                "/sandbox/payments/{token}",
                get(sandbox::page).post(sandbox::act),
            );
    }
    router
        .layer(middleware::from_fn_with_state(
            Arc::clone(&app),
            observe::observe,
        ))
        // Each handler has a limit of its own, and its own answer to what is beyond it.
        .layer(DefaultBodyLimit::disable())
        .with_state(app)
}
