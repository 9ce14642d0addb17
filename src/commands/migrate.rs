//! `migrate`: the database's tables, up to date or back. The steps are the package `migration`.

use anyhow::Context;
use domain::infra::db::Db;
use migration::{Migrator, MigratorTrait};

use crate::config::Config;
use crate::embedded::Stores;

/// What `migrate` can be told.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    direction: Direction,
}

#[derive(clap::Subcommand, Debug)]
enum Direction {
    /// Apply the steps that are missing
    Up {
        /// Only this many
        #[arg(long)]
        steps: Option<u32>,
    },
    /// Take steps back; what their tables hold is lost
    Down {
        /// How many
        #[arg(long, default_value_t = 1)]
        steps: u32,
    },
    /// List the steps and whether they are applied
    Status,
}

pub(crate) async fn run(config: Config, args: Args) -> anyhow::Result<()> {
    let stores = Stores::database(&config).await?;
    let db = Db::connect(&stores.urls().database, config.database_max_connections)
        .await
        .context("connect to database_url")?;
    let outcome = apply(&db, args.direction).await;
    db.close().await;
    stores.stop().await;
    outcome
}

async fn apply(db: &Db, direction: Direction) -> anyhow::Result<()> {
    match direction {
        Direction::Up { steps } => Migrator::up(db.conn(), steps).await.context("migrate up")?,
        Direction::Down { steps } => Migrator::down(db.conn(), Some(steps))
            .await
            .context("migrate down")?,
        Direction::Status => {}
    }
    let pending = Migrator::get_pending_migrations(db.conn())
        .await
        .context("look at the database's tables")?;
    let pending: Vec<&str> = pending.iter().map(|step| step.name()).collect();
    for step in Migrator::migrations() {
        say(
            if pending.contains(&step.name()) {
                "pending"
            } else {
                "applied"
            },
            step.name(),
        );
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the output of the command")]
fn say(state: &str, step: &str) {
    println!("{state} {step}");
}
