//! The command line: one file a command. What a command does to the product is `domain`; here are its arguments,
//! its output and its stores.

pub(crate) mod admin;
pub(crate) mod config;
pub(crate) mod drill;
pub(crate) mod import;
pub(crate) mod index;
pub(crate) mod migrate;
pub(crate) mod schema;
pub(crate) mod seed;
pub(crate) mod serve;
pub(crate) mod statistics;
pub(crate) mod verify;
pub(crate) mod work;

use std::path::PathBuf;
use std::process::ExitCode;

use domain::Services;

use crate::config::Config;
use crate::embedded::Stores;
use crate::telemetry;

/// The server behind a local-life app.
#[derive(clap::Parser, Debug)]
#[command(name = "lifemate", version, about)]
pub struct Cli {
    /// Configuration file; default: lifemate.toml in the working directory, if there is one
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    /// Serve the API, with the workers inside
    Serve(serve::Args),
    /// Run the workers alone: writer, sweeper, closer, give-back
    Work(work::Args),
    /// Bring the database's tables up to date, or back
    Migrate(migrate::Args),
    /// Import real places
    Import(import::Args),
    /// Build an index anew from the database
    Index(index::Args),
    /// Fill an empty database with demo data
    Seed(seed::Args),
    /// Roles and sessions
    Admin(admin::Args),
    /// Compute the figures of a day again
    Statistics(statistics::Args),
    /// Check that nothing was lost
    Verify(verify::Args),
    /// Drive a whole sale against a running server
    Drill(drill::Args),
    /// Print the GraphQL schema
    Schema(schema::Args),
    /// Print the configuration in force, secrets masked
    Config(config::Args),
}

/// Runs what the command line says.
///
/// # Errors
/// Whatever keeps the command from doing its work, to be shown to a person.
pub async fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    if let Command::Schema(args) = cli.command {
        return schema::run(args).map(done);
    }
    let config = Config::load(cli.config.as_deref())?;
    if let Command::Config(args) = cli.command {
        return config::run(config, args).map(done);
    }
    telemetry::start_logs(&config)?;
    match cli.command {
        Command::Serve(args) => serve::run(config, args).await.map(done),
        Command::Work(args) => work::run(config, args).await.map(done),
        Command::Migrate(args) => migrate::run(config, args).await.map(done),
        Command::Import(args) => import::run(config, args).await.map(done),
        Command::Index(args) => index::run(config, args).await.map(done),
        Command::Seed(args) => seed::run(config, args).await.map(done),
        Command::Admin(args) => admin::run(config, args).await.map(done),
        Command::Statistics(args) => statistics::run(config, args).await.map(done),
        Command::Verify(args) => verify::run(config, args).await,
        Command::Drill(args) => drill::run(config, args).await,
        Command::Schema(_) | Command::Config(_) => Ok(ExitCode::SUCCESS),
    }
}

fn done((): ()) -> ExitCode {
    ExitCode::SUCCESS
}

/// The services of a command that is not the server: on the configured stores, or on the embedded ones whether
/// their server runs or not.
pub(crate) struct Opened {
    pub(crate) services: Services,
    stores: Stores,
}

impl Opened {
    /// Connects; starts the embedded Redis for the time of the command when no server keeps it running.
    pub(crate) async fn connect(config: &Config) -> anyhow::Result<Self> {
        let stores = Stores::attach(config).await?;
        let addr = crate::server::resolve(&config.http_addr).await?;
        let services = crate::server::connect(config, &stores, addr).await?;
        Ok(Self { services, stores })
    }

    /// Closes the connections; stops what `connect` started.
    pub(crate) async fn close(self) {
        self.services.close().await;
        self.stores.stop().await;
    }
}
