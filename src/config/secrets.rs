//! Where secrets come from when none is set in development. Production has to be given its own.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::Context;
use domain::settings::Secret;
use rand::RngCore;

use super::Config;
use super::layers::read_toml;

/// Public, so worth nothing: several development nodes on the same stores agree on it without being told.
pub(super) const PLACEHOLDER_ID_SECRET: &str = "lifemate-development-placeholder-id-secret";
/// As [`PLACEHOLDER_ID_SECRET`], for payment callbacks.
pub(super) const PLACEHOLDER_WEBHOOK_SECRET: &str =
    "lifemate-development-placeholder-webhook-secret";
/// Random secrets of one data folder, so that IDs survive a restart.
const FILE: &str = "secrets.toml";

/// The secrets in use.
pub(super) struct Secrets {
    pub(super) id: Secret,
    /// The newest first.
    pub(super) webhook: Vec<Secret>,
}

/// The configured secrets; missing ones come from the data folder, or are placeholders where stores are shared.
pub(super) fn resolve(config: &Config) -> anyhow::Result<Secrets> {
    let (id, webhook) = match (&config.id_secret, &config.webhook_secret) {
        (Some(id), Some(webhook)) => (id.clone(), webhook.clone()),
        (id, webhook) => {
            let (own_id, own_webhook) = fallback(config)?;
            (
                id.clone().unwrap_or(own_id),
                webhook.clone().unwrap_or(own_webhook),
            )
        }
    };
    let webhook = [Some(webhook), config.webhook_secret_previous.clone()]
        .into_iter()
        .flatten()
        .collect();
    Ok(Secrets { id, webhook })
}

fn fallback(config: &Config) -> anyhow::Result<(Secret, Secret)> {
    if config.database_url.is_some() || config.redis_url.is_some() {
        return Ok((
            Secret::new(PLACEHOLDER_ID_SECRET),
            Secret::new(PLACEHOLDER_WEBHOOK_SECRET),
        ));
    }
    let file = config.data_dir.join(FILE);
    if !file.exists() {
        write_new(&config.data_dir, &file)
            .with_context(|| format!("write new secrets to {}", file.display()))?;
    }
    let text = fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
    let values = read_toml(&text)?;
    let value = |name: &str| {
        values
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| Secret::new(value.clone()))
    };
    let both = value("id_secret").zip(value("webhook_secret"));
    both.with_context(|| {
        format!(
            "{} lacks id_secret or webhook_secret; delete it to have it made anew",
            file.display()
        )
    })
}

/// Appears as a whole or not at all; whoever comes second keeps the first one's.
fn write_new(folder: &Path, file: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder)?;
    let draft = folder.join(format!("{FILE}.{}", hex::encode(random::<8>())));
    let text = format!(
        "# Made at the first start and private to this folder. Deleting it makes old order IDs and cursors invalid.\n\
         id_secret = \"{}\"\nwebhook_secret = \"{}\"\n",
        hex::encode(random::<32>()),
        hex::encode(random::<32>())
    );
    let mut out = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&draft)?;
    out.write_all(text.as_bytes())?;
    out.sync_all()?;
    let linked = fs::hard_link(&draft, file);
    fs::remove_file(&draft)?;
    match linked {
        Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => Err(e.into()),
        _ => Ok(()),
    }
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    rand::rng().fill_bytes(&mut bytes);
    bytes
}
