//! The server: stores, services, workers and transport, started and stopped in the right order. What they do is
//! elsewhere.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use async_graphql::{ObjectType, Schema, SubscriptionType};
use domain::Services;
use domain::infra::db::Db;
use migration::{Migrator, MigratorTrait};
use schema::limits::Limits;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::embedded::Stores;
use crate::telemetry;
use crate::transport::{self, Answers, App, connections};
use crate::workers::Workers;

/// Answers in hand may take this long once a stop was asked for; with the workers' and the stores' own limits a
/// stop stays below 15 s.
const DRAIN_PATIENCE: Duration = Duration::from_secs(6);

/// The pool that looks at the tables at start, and is closed then.
const CONNECTIONS_FOR_TABLES: u32 = 2;

/// Whether this process also does the background work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// The API and the workers.
    Inside,
    /// The API alone.
    Elsewhere,
}

/// A running server.
pub struct Server {
    addr: SocketAddr,
    app: Arc<App>,
    services: Services,
    accepting: CancellationToken,
    listening: JoinHandle<()>,
    workers: Workers,
    stores: Stores,
}

impl Server {
    /// Starts everything, workers inside. Listens before it returns; is ready when the stores are.
    ///
    /// # Errors
    /// When the configuration cannot be used, the address is taken, a store is away or its tables are not up to date.
    pub async fn start(config: Config) -> anyhow::Result<Self> {
        Self::start_with(config, Work::Inside).await
    }

    /// [`Server::start`] with or without the workers.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub async fn start_with(config: Config, work: Work) -> anyhow::Result<Self> {
        Self::start_over(config, work, schema::build).await
    }

    /// [`Server::start_with`] over another schema: the same transport, stores and settings, for comparison.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub async fn start_over<Q, M, S>(
        config: Config,
        work: Work,
        schema: impl FnOnce(Services, Limits) -> Schema<Q, M, S>,
    ) -> anyhow::Result<Self>
    where
        Q: ObjectType + 'static,
        M: ObjectType + 'static,
        S: SubscriptionType + 'static,
    {
        config.check()?;
        let metrics = telemetry::metrics()?;
        let listener = bind(&config.http_addr).await?;
        let addr = listener
            .local_addr()
            .context("ask for the address in use")?;
        let stores = Stores::own(&config).await?;
        if config.is_production() && config.is_embedded() {
            tracing::warn!(data.dir = %config.data_dir.display(), "production runs on embedded stores: one node, one disk");
        }
        let services = connect(&config, &stores, addr).await?;
        let workers = if work == Work::Inside {
            Workers::all(&services)
        } else {
            Workers::node(&services)
        };
        let limits = Limits {
            production: config.is_production(),
            ..Limits::default()
        };
        let answers = Answers::of(schema(services.clone(), limits));
        let app = App::new(&config, (services.clone(), answers), addr, metrics.clone());
        let app = Arc::new(app);
        let accepting = CancellationToken::new();
        tokio::spawn(telemetry::keep_up(metrics, accepting.clone()));
        let listening = tokio::spawn(connections::serve(
            listener,
            transport::router(Arc::clone(&app)),
            accepting.clone(),
        ));
        tracing::info!(http.addr = %addr, http.url = app.public_url(), workers = ?work, "the server listens");
        Ok(Self {
            addr,
            app,
            services,
            accepting,
            listening,
            workers,
            stores,
        })
    }

    /// The address that it really listens on.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The rules of the product, on this server's stores.
    pub fn services(&self) -> &Services {
        &self.services
    }

    /// Where a person opens it, no slash at the end.
    pub fn url(&self) -> &str {
        self.app.public_url()
    }

    /// Stops: no new connections, answers in hand and sockets first, then the workers, then the stores; within 15 s.
    pub async fn stop(self) {
        self.accepting.cancel();
        self.app.close_sockets();
        self.app.drain(DRAIN_PATIENCE).await;
        // Connections that are still open carry no operation any more.
        let listening = self.listening.abort_handle();
        if tokio::time::timeout(Duration::from_secs(1), self.listening)
            .await
            .is_err()
        {
            listening.abort();
        }
        self.workers.stop().await;
        self.services.close().await;
        self.stores.stop().await;
        tracing::info!("the server has stopped");
    }
}

/// The first address that a `host:port` stands for.
pub(crate) async fn resolve(addr: &str) -> anyhow::Result<SocketAddr> {
    let mut found = tokio::net::lookup_host(addr)
        .await
        .with_context(|| format!("resolve http_addr {addr}"))?;
    found
        .next()
        .with_context(|| format!("http_addr {addr} stands for no address"))
}

async fn bind(addr: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind(addr)
        .await
        .with_context(|| format!("listen on {addr} (http_addr)"))
}

/// The services on the stores. Embedded tables are brought up to date; others must be, by whoever runs the database.
pub(crate) async fn connect(
    config: &Config,
    stores: &Stores,
    addr: SocketAddr,
) -> anyhow::Result<Services> {
    let settings = config.settings(stores.urls(), addr)?;
    let db = Db::connect(&settings.database_url, CONNECTIONS_FOR_TABLES)
        .await
        .context("connect to the database (database_url)")?;
    let tables = if config.database_url.is_none() {
        Migrator::up(db.conn(), None)
            .await
            .context("bring the embedded tables up to date")
    } else {
        require_tables(&db).await
    };
    db.close().await;
    tables?;
    Services::connect(&settings)
        .await
        .context("connect to the stores")
}

async fn require_tables(db: &Db) -> anyhow::Result<()> {
    let pending = Migrator::get_pending_migrations(db.conn())
        .await
        .context("look at the database's tables")?;
    if pending.is_empty() {
        return Ok(());
    }
    bail!(
        "the database lacks {} migrations: run `lifemate migrate up` first",
        pending.len()
    )
}
