//! The stores of a server that was given none: SQLite and a private Redis in the data folder, one server a folder.
//! What is kept in them is `domain`.

mod redis_child;

use std::fs::{self, File, TryLockError};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::time::{Instant, sleep};

use crate::config::{Config, StoreUrls};
use redis_child::RedisChild;

/// Held by the server (or the one command) that uses the folder.
const LOCK: &str = "lifemate.lock";
const DATABASE: &str = "lifemate.db";
const REDIS_FOLDER: &str = "redis";
const SOCKET: &str = "redis.sock";
/// Bytes; the kernel takes 107 for a socket's path.
const LONGEST_SOCKET_PATH: usize = 100;
/// How long a server waits for a command that holds the folder for a moment.
const LOCK_PATIENCE: Duration = Duration::from_secs(3);
/// How long a command waits for the Redis of a server that is just starting.
const ATTACH_PATIENCE: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(20);

/// The stores of one process: the configured ones, the embedded ones, or one of each.
#[derive(Debug)]
pub struct Stores {
    urls: StoreUrls,
    embedded: Option<Embedded>,
}

impl Stores {
    /// For a server: whatever is embedded is its own alone.
    ///
    /// # Errors
    /// When another process uses the data folder, or the private Redis does not start.
    pub async fn own(config: &Config) -> anyhow::Result<Self> {
        Self::open(config, Sharing::Own).await
    }

    /// For a command: uses the running server's embedded stores, or starts them for a while.
    ///
    /// # Errors
    /// When the private Redis neither answers nor starts.
    pub async fn attach(config: &Config) -> anyhow::Result<Self> {
        Self::open(config, Sharing::Attach).await
    }

    /// For a command that needs the database alone.
    ///
    /// # Errors
    /// When the data folder cannot be used.
    pub async fn database(config: &Config) -> anyhow::Result<Self> {
        let without_redis = Config {
            redis_url: Some(String::new()),
            ..config.clone()
        };
        Self::open(&without_redis, Sharing::Attach).await
    }

    /// Where the stores are.
    pub fn urls(&self) -> &StoreUrls {
        &self.urls
    }

    /// Stops what this process started; connections to the stores should be closed before.
    pub async fn stop(self) {
        if let Some(embedded) = self.embedded {
            embedded.stop().await;
        }
    }

    async fn open(config: &Config, sharing: Sharing) -> anyhow::Result<Self> {
        if let (Some(database), Some(redis)) = (&config.database_url, &config.redis_url) {
            let urls = StoreUrls {
                database: database.clone(),
                redis: redis.clone(),
            };
            return Ok(Self {
                urls,
                embedded: None,
            });
        }
        let embedded =
            Embedded::open(&config.data_dir, config.redis_url.is_none(), sharing).await?;
        let urls = StoreUrls {
            database: config
                .database_url
                .clone()
                .unwrap_or_else(|| embedded.database_url()),
            redis: config
                .redis_url
                .clone()
                .unwrap_or_else(|| embedded.redis_url()),
        };
        Ok(Self {
            urls,
            embedded: Some(embedded),
        })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sharing {
    Own,
    Attach,
}

/// The stores in one data folder. Dropped without [`Embedded::stop`], the Redis is shut down behind the caller's back,
/// or killed with the runtime; what it acknowledged is on the disk either way.
#[derive(Debug)]
pub struct Embedded {
    folder: PathBuf,
    socket: PathBuf,
    redis: Option<RedisChild>,
    /// `None`: another process has the folder and its Redis is used.
    _lock: Option<File>,
}

impl Embedded {
    /// Takes the folder and starts its Redis; a Redis left over by a killed server is shut down first.
    ///
    /// # Errors
    /// When another process uses the folder, or `redis-server` is missing or does not start.
    pub async fn start(data_dir: &Path) -> anyhow::Result<Self> {
        Self::open(data_dir, true, Sharing::Own).await
    }

    /// Uses the Redis of the server that has the folder, or does as [`Embedded::start`].
    ///
    /// # Errors
    /// When the Redis neither answers nor starts.
    pub async fn attach_or_start(data_dir: &Path) -> anyhow::Result<Self> {
        Self::open(data_dir, true, Sharing::Attach).await
    }

    /// The SQLite file, made when it is first opened.
    pub fn database_url(&self) -> String {
        format!(
            "sqlite://{}?mode=rwc",
            percent_encode(&self.folder.join(DATABASE))
        )
    }

    /// The unix socket of the private Redis.
    pub fn redis_url(&self) -> String {
        format!("redis+unix://{}", percent_encode(&self.socket))
    }

    /// Shuts the Redis down if this process started it, then lets go of the folder.
    pub async fn stop(self) {
        let Some(redis) = self.redis else { return };
        redis.stop().await;
        if let Some(outside) = self.socket.parent().filter(|parent| *parent != self.folder) {
            // Empty now; whoever is left behind in it keeps it.
            let _ = fs::remove_dir(outside);
        }
    }

    async fn open(data_dir: &Path, with_redis: bool, sharing: Sharing) -> anyhow::Result<Self> {
        fs::create_dir_all(data_dir)
            .with_context(|| format!("make the data folder {}", data_dir.display()))?;
        let folder = data_dir
            .canonicalize()
            .with_context(|| format!("find the data folder {}", data_dir.display()))?;
        let lock = match lock(&folder, sharing).await? {
            Some(lock) => lock,
            None => return Self::attach(folder, with_redis).await,
        };
        let socket = socket_path(&folder)?;
        let redis = if with_redis {
            Some(RedisChild::start(&folder.join(REDIS_FOLDER), &socket).await?)
        } else {
            None
        };
        Ok(Self {
            folder,
            socket,
            redis,
            _lock: Some(lock),
        })
    }

    async fn attach(folder: PathBuf, with_redis: bool) -> anyhow::Result<Self> {
        let socket = socket_path(&folder)?;
        if with_redis && !redis_child::answers_within(&socket, ATTACH_PATIENCE).await {
            bail!(
                "{} is in use, but its Redis does not answer on {}",
                folder.display(),
                socket.display()
            );
        }
        Ok(Self {
            folder,
            socket,
            redis: None,
            _lock: None,
        })
    }
}

/// The folder's lock, or `None` where another process has it and that is fine.
async fn lock(folder: &Path, sharing: Sharing) -> anyhow::Result<Option<File>> {
    let path = folder.join(LOCK);
    let file = File::options()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(&path);
    let mut file = file.with_context(|| format!("open {}", path.display()))?;
    let deadline = Instant::now() + LOCK_PATIENCE;
    loop {
        match file.try_lock() {
            Ok(()) => break,
            Err(TryLockError::WouldBlock) if sharing == Sharing::Attach => return Ok(None),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => sleep(POLL).await,
            Err(TryLockError::WouldBlock) => {
                let owner = fs::read_to_string(&path).unwrap_or_default();
                bail!(
                    "the data folder {} is in use by process {}: set another LIFEMATE_DATA_DIR or stop it",
                    folder.display(),
                    owner.trim()
                );
            }
            Err(TryLockError::Error(e)) => {
                return Err(e).with_context(|| format!("lock {}", path.display()));
            }
        }
    }
    file.set_len(0)
        .and_then(|()| writeln!(file, "{}", std::process::id()))
        .with_context(|| format!("write {}", path.display()))?;
    Ok(Some(file))
}

/// In the folder, or in a private folder under the system's temporary one where the path would be too long for a socket.
fn socket_path(folder: &Path) -> anyhow::Result<PathBuf> {
    let inside = folder.join(SOCKET);
    if inside.as_os_str().len() <= LONGEST_SOCKET_PATH {
        return Ok(inside);
    }
    let outside = std::env::temp_dir().join(format!(
        "lifemate-{:016x}",
        fnv1a(folder.as_os_str().as_bytes())
    ));
    match fs::DirBuilder::new().mode(0o700).create(&outside) {
        Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(e)
                .with_context(|| format!("make {} for the socket of Redis", outside.display()));
        }
        _ => {}
    }
    // Somebody else may have made a folder of that name to listen in our place.
    let found =
        fs::symlink_metadata(&outside).with_context(|| format!("look at {}", outside.display()))?;
    let ours = fs::metadata(folder.join(LOCK))
        .with_context(|| format!("look at {LOCK} in {}", folder.display()))?;
    if !found.is_dir() || found.uid() != ours.uid() || found.mode() & 0o077 != 0 {
        bail!(
            "{} is not a private folder of this user; remove it or use a LIFEMATE_DATA_DIR with a shorter path",
            outside.display()
        );
    }
    Ok(outside.join(SOCKET))
}

/// FNV-1a, 64 bits: the same in every version of this program, and collisions only matter among one user's folders.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// For the path part of a URL.
fn percent_encode(path: &Path) -> String {
    let plain =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'-' | b'_' | b'.' | b'~');
    let bytes = path.as_os_str().as_bytes().iter();
    bytes
        .map(|byte| {
            if plain(*byte) {
                char::from(*byte).to_string()
            } else {
                format!("%{byte:02X}")
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{fnv1a, percent_encode, socket_path};

    #[test]
    fn odd_letters_of_a_path_are_encoded() {
        assert_eq!(
            percent_encode(Path::new("/data/my life#1?.d/é")),
            "/data/my%20life%231%3F.d/%C3%A9"
        );
    }

    #[test]
    fn the_hash_of_a_folder_never_changes() {
        assert_eq!(fnv1a(b"/var/lib/lifemate"), fnv1a(b"/var/lib/lifemate"));
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
    }

    #[test]
    fn a_short_path_keeps_the_socket_in_the_folder() {
        assert_eq!(
            socket_path(Path::new("/data")).unwrap(),
            Path::new("/data/redis.sock")
        );
    }
}
