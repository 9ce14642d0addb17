//! `drill`: a whole sale against a running server, with a summary and the invariants; exit code 1 when one is broken.
//! The sale itself is `crate::drill`.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::bail;
use indicatif::{ProgressBar, ProgressStyle};

use super::Opened;
use crate::config::Config;
use crate::drill::{self, DrillOptions, DrillReport, Progress};

/// What `drill` can be told.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand, Debug)]
enum What {
    /// A flash sale: buyers click at once, double-click, ask again, hang up
    Sale(Sale),
}

#[derive(clap::Args, Debug)]
struct Sale {
    /// A server's address; several times: buyers go to them in turn. Default: where this configuration listens
    #[arg(long = "url", value_name = "URL")]
    urls: Vec<String>,
    /// Buyers; each clicks at least once
    #[arg(long, default_value_t = 5_000)]
    users: u32,
    /// Units for sale
    #[arg(long, default_value_t = 1_000)]
    stock: u32,
    /// Buyers at the same time
    #[arg(long, default_value_t = 200)]
    clients: u32,
}

pub(crate) async fn run(config: Config, args: Args) -> anyhow::Result<ExitCode> {
    let What::Sale(sale) = args.what;
    if config.is_production() {
        bail!("a drill makes users with sessions, which the production profile does not allow");
    }
    let urls = if sale.urls.is_empty() {
        vec![format!("http://{}", config.http_addr)]
    } else {
        sale.urls
    };
    let bar = bar(sale.users)?;
    let shown = bar.clone();
    let progress = Arc::new(move |progress| show(&shown, progress));
    let options = DrillOptions {
        urls,
        users: sale.users,
        stock: sale.stock,
        clients: sale.clients,
        progress,
    };
    let opened = Opened::connect(&config).await?;
    let report = drill::run(&opened.services, options).await;
    opened.close().await;
    bar.finish_and_clear();
    let report = report?;
    print(&report);
    Ok(if report.is_clean() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Drawn on standard error, and only for a person.
fn bar(users: u32) -> anyhow::Result<ProgressBar> {
    let style = ProgressStyle::with_template("{msg:10} {bar:40} {pos}/{len} buyers {elapsed}")?;
    Ok(ProgressBar::new(u64::from(users)).with_style(style))
}

fn show(bar: &ProgressBar, progress: Progress) {
    match progress {
        Progress::Preparing => bar.set_message("preparing"),
        Progress::Selling => bar.set_message("selling"),
        Progress::BuyerDone => bar.inc(1),
        Progress::Settling => bar.set_message("settling"),
        Progress::Checking => bar.set_message("checking"),
    }
}

#[expect(clippy::print_stdout, reason = "the output of the command")]
fn print(report: &DrillReport) {
    print!("{report}");
}
