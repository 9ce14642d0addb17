//! `config`: the configuration in force as TOML, secrets masked.

use crate::config::Config;

/// What `config` can be told: nothing.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {}

#[expect(clippy::print_stdout, reason = "the output of the command")]
pub(crate) fn run(config: Config, _args: Args) -> anyhow::Result<()> {
    print!("{}", config.to_toml());
    Ok(())
}
