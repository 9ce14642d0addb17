//! Reads the command line and runs it. Everything else is in the library.

use std::process::ExitCode;

use clap::Parser;
use lifemate::commands::{Cli, run};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> ExitCode {
    match run(Cli::parse()).await {
        Ok(code) => code,
        Err(error) => {
            eprintln_error(&error);
            ExitCode::FAILURE
        }
    }
}

#[expect(
    clippy::print_stderr,
    reason = "the last word of a command that failed, to the person who ran it"
)]
fn eprintln_error(error: &anyhow::Error) {
    eprintln!("lifemate: {error:#}");
}
