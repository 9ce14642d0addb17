//! `index`: builds what is derived from the database anew. The old index serves until the new one is whole.

use anyhow::Context;

use super::Opened;
use crate::config::Config;

/// What to build.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand, Debug)]
enum What {
    /// Where the open shops are
    Shops,
}

pub(crate) async fn run(config: Config, args: Args) -> anyhow::Result<()> {
    let What::Shops = args.what;
    let opened = Opened::connect(&config).await?;
    let indexed = opened.services.shops.rebuild_geo_index().await;
    opened.close().await;
    say(&format!("indexed {}", indexed.context("index the shops")?));
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the report is what the command is for")]
fn say(line: &str) {
    println!("{line}");
}
