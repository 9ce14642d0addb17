//! `statistics`: computes the figures of a day again.

use std::ops::ControlFlow;

use anyhow::Context;
use chrono::NaiveDate;
use indicatif::ProgressBar;

use super::Opened;
use crate::config::Config;

/// What to compute.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// A day that is over, as YYYY-MM-DD, in the zone of `time_zone`
    day: NaiveDate,
}

pub(crate) async fn run(config: Config, args: Args) -> anyhow::Result<()> {
    let opened = Opened::connect(&config).await?;
    let bar = ProgressBar::new(0);
    let computed = opened.services.statistics.compute(args.day, |done, total| {
        bar.set_length(total);
        bar.set_position(done);
        ControlFlow::Continue(())
    });
    let computed = computed
        .await
        .with_context(|| format!("compute {}", args.day));
    bar.finish_and_clear();
    opened.close().await;
    let figures = computed?;
    say(&format!(
        "{}: dau {}, wau {}, mau {}, uv {}, orders {}, paid {}",
        figures.day,
        figures.dau,
        figures.wau,
        figures.mau,
        figures.uv,
        figures.orders,
        figures.paid_orders
    ));
    Ok(())
}

#[expect(
    clippy::print_stdout,
    reason = "the figures are what the command is for"
)]
fn say(line: &str) {
    println!("{line}");
}
