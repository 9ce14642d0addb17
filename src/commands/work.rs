//! `work`: the workers alone, until a signal.

use super::Opened;
use super::serve::Signals;
use crate::config::Config;
use crate::workers::Workers;

/// What `work` can be told: nothing.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {}

pub(crate) async fn run(config: Config, _args: Args) -> anyhow::Result<()> {
    let mut signals = Signals::listen()?;
    let opened = Opened::connect(&config).await?;
    let workers = Workers::all(&opened.services);
    tracing::info!("the workers run");
    signals.wait().await;
    workers.stop().await;
    opened.close().await;
    Ok(())
}
