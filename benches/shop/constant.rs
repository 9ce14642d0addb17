//! Our own server, configured as `lifemate serve --no-workers` is, over a schema that answers `shop` from a constant: what
//! the cached query could cost at best. `make bench` loads both in one run.

mod query;

use lifemate::config::Config;
use lifemate::server::{Server, Work};
use tokio::signal::unix::{SignalKind, signal};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut stop = signal(SignalKind::terminate())?;
    let config = Config::load(None)?;
    let over_a_constant = |services, limits| schema::finish(query::builder(), services, limits);
    let server = Server::start_over(config, Work::Elsewhere, over_a_constant).await?;
    stop.recv().await;
    server.stop().await;
    Ok(())
}
