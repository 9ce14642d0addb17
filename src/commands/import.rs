//! `import`: real places from a file into the shops.

use std::fs::File;
use std::path::PathBuf;

use anyhow::Context;
use indicatif::ProgressBar;

use super::Opened;
use crate::config::Config;

/// What to import.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand, Debug)]
enum What {
    /// Shops from an OpenStreetMap export: Overpass JSON, or GeoJSON points
    Shops {
        /// The export
        file: PathBuf,
    },
}

pub(crate) async fn run(config: Config, args: Args) -> anyhow::Result<()> {
    let What::Shops { file } = args.what;
    let export = File::open(&file).with_context(|| format!("open {}", file.display()))?;
    let opened = Opened::connect(&config).await?;
    let bar = ProgressBar::new(0);
    let imported = opened.services.shops.import(export, |done, total| {
        bar.set_length(total);
        bar.set_position(done);
    });
    let report = imported
        .await
        .with_context(|| format!("import {}", file.display()));
    bar.finish_and_clear();
    opened.close().await;
    say(&report?.to_string());
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the report is what the command is for")]
fn say(line: &str) {
    println!("{line}");
}
