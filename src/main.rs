//! Reads the command line and runs it. Everything else is in the library.

// The compiler lays out the futures of the schema's roots one in another, a level for each concept that has a part in them.
#![recursion_limit = "512"]

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
