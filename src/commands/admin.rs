//! `admin`: what an operator does to accounts.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use domain::users::{Phone, Role};

use super::Opened;
use crate::config::Config;

/// What to do.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand, Debug)]
enum What {
    /// Give a user a role; a phone that has no account yet gets one
    Grant {
        /// The user's phone number
        phone: String,
        /// user, merchant or admin
        #[arg(value_enum, ignore_case = true)]
        role: RoleName,
    },
    /// Register users and write their sessions, one JSON object a line (development profile only)
    Sessions {
        /// How many
        #[arg(long)]
        count: u32,
        /// Where to
        #[arg(long)]
        out: PathBuf,
    },
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum RoleName {
    User,
    Merchant,
    Admin,
}

pub(crate) async fn run(config: Config, args: Args) -> anyhow::Result<()> {
    match args.what {
        What::Grant { phone, role } => grant(&config, &phone, role).await,
        What::Sessions { count, out } => sessions(&config, count, out).await,
    }
}

async fn grant(config: &Config, phone: &str, role: RoleName) -> anyhow::Result<()> {
    let phone = Phone::parse(phone)?;
    let role = match role {
        RoleName::User => Role::User,
        RoleName::Merchant => Role::Merchant,
        RoleName::Admin => Role::Admin,
    };
    let opened = Opened::connect(config).await?;
    let granted = opened.services.users.grant(&phone, role).await;
    opened.close().await;
    let user = granted.context("grant the role")?;
    say(&format!(
        "{} is {role:?} now (user {})",
        phone.masked(),
        schema::scalars::global_id("User", user.id).as_str()
    ));
    Ok(())
}

async fn sessions(config: &Config, count: u32, out: PathBuf) -> anyhow::Result<()> {
    ensure!(
        !config.is_production(),
        "sessions are minted in the development profile only (profile)"
    );
    // First of all: a file that cannot be written should cost no users.
    let file = private_file(&out).with_context(|| format!("create {}", out.display()))?;
    let opened = Opened::connect(config).await?;
    let minted = opened.services.users.mint_sessions(count).await;
    opened.close().await;
    let minted = minted.context("mint sessions")?;
    let mut lines = BufWriter::new(file);
    for session in &minted {
        let user_id = schema::scalars::global_id("User", session.user_id.0);
        let line = serde_json::json!({ "userId": user_id.as_str(), "phone": session.phone, "token": session.token });
        writeln!(lines, "{line}").with_context(|| format!("write {}", out.display()))?;
    }
    lines
        .flush()
        .with_context(|| format!("write {}", out.display()))?;
    say(&format!("{} sessions in {}", minted.len(), out.display()));
    Ok(())
}

/// Tokens are keys: for the operator's eyes only.
fn private_file(path: &Path) -> std::io::Result<File> {
    let mut options = File::options();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(path)
}

#[expect(clippy::print_stdout, reason = "the answer is what the command is for")]
fn say(line: &str) {
    println!("{line}");
}
