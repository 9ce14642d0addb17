//! `serve`: the API until a signal, with the workers inside unless told otherwise.

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::seed;
use crate::config::Config;
use crate::server::{Server, Work};

/// What `serve` can be told.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Only the API: `lifemate work` runs elsewhere
    #[arg(long)]
    no_workers: bool,
}

pub(crate) async fn run(config: Config, args: Args) -> anyhow::Result<()> {
    let mut signals = Signals::listen()?;
    let work = if args.no_workers {
        Work::Elsewhere
    } else {
        Work::Inside
    };
    let (embedded, production) = (config.database_url.is_none(), config.is_production());
    let server = Server::start_with(config, work).await?;
    if !production {
        announce(server.url());
    }
    if embedded && !production {
        // A signal does not wait for it: the next start adds what is missing then.
        tokio::select! {
            () = add_demo_data(&server) => signals.wait().await,
            () = signals.wait() => {}
        }
    } else {
        signals.wait().await;
    }
    // A second signal is a person who does not want to wait.
    tokio::select! {
        () = server.stop() => Ok(()),
        () = signals.wait() => anyhow::bail!("stopped before everything in hand was finished"),
    }
}

/// A server without demo data is still a server.
async fn add_demo_data(server: &Server) {
    if let Err(error) = seed::seed_first_start(server.services()).await {
        let error = format!("{error:#}");
        tracing::warn!(
            error,
            "the demo data is not complete; `lifemate seed` adds what is missing"
        );
    }
}

#[expect(
    clippy::print_stdout,
    reason = "what the person who started it wants to know first"
)]
fn announce(url: &str) {
    println!("GraphiQL is at {url}/");
}

/// The signals that ask a process to stop.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// From here on they no longer kill the process.
    pub(super) fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("listen to signals");
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
        })
    }

    /// The next of them.
    pub(super) async fn wait(&mut self) {
        let name = tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        };
        tracing::info!(signal = name, "asked to stop");
    }
}
