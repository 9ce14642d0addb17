//! `verify`: whether the stores agree, one line an invariant; exit code 1 when one is broken. What is checked is
//! `domain::orders::reconcile`.

use std::process::ExitCode;

use anyhow::Context;
use domain::orders::reconcile::Check;

use super::Opened;
use crate::config::Config;

/// What `verify` can be told: nothing.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {}

pub(crate) async fn run(config: Config, _args: Args) -> anyhow::Result<ExitCode> {
    let opened = Opened::connect(&config).await?;
    let checks = opened
        .services
        .orders
        .verify()
        .await
        .context("ask the stores");
    opened.close().await;
    let checks = checks?;
    print(&checks);
    Ok(if checks.iter().any(Check::is_failed) {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

#[expect(clippy::print_stdout, reason = "the output of the command")]
fn print(checks: &[Check]) {
    for check in checks {
        println!("{check}");
    }
}
