//! One private `redis-server`: started, watched, restarted when it dies, shut down with its owner. Nothing here knows
//! what is kept in it.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Debian, Ubuntu and most others have the first; some have only the second, which speaks the same.
const PROGRAMS: [&str; 2] = ["redis-server", "valkey-server"];
const MISSING: &str = "redis-server is not installed; run `apt-get install -y redis-server` (or set LIFEMATE_REDIS_URL to a Redis you have)";
/// Held by the Redis process itself as its standard input: free again exactly when that process is gone.
const LOCK: &str = "redis.lock";
const PID: &str = "redis.pid";
const LOG: &str = "redis.log";
/// A large append-only file takes a while to load.
const START_PATIENCE: Duration = Duration::from_secs(60);
/// Shutting down writes and syncs the rest of the append-only file.
const STOP_PATIENCE: Duration = Duration::from_secs(5);
const LEFTOVER_PATIENCE: Duration = Duration::from_secs(15);
const ANSWER_PATIENCE: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(10);
const FIRST_BACK_OFF: Duration = Duration::from_millis(50);
const LONGEST_BACK_OFF: Duration = Duration::from_secs(5);

/// A Redis that is kept running.
#[derive(Debug)]
pub(super) struct RedisChild {
    /// Dropped, it tells the watch to shut the Redis down.
    stop: DropGuard,
    watch: JoinHandle<()>,
}

impl RedisChild {
    /// Starts it in `folder` and returns when it answers on `socket`.
    pub(super) async fn start(folder: &Path, socket: &Path) -> anyhow::Result<Self> {
        fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
        let place = Place {
            folder: folder.to_owned(),
            socket: socket.to_owned(),
        };
        let child = place.start().await?;
        let stop = CancellationToken::new();
        let watch = tokio::spawn(watch(place, child, stop.clone()));
        Ok(Self {
            stop: stop.drop_guard(),
            watch,
        })
    }

    /// Shuts it down; what it acknowledged is on the disk.
    pub(super) async fn stop(self) {
        drop(self.stop);
        if let Err(e) = self.watch.await {
            tracing::error!(error = %e, "the watch over the embedded redis ended early");
        }
    }
}

/// Whether a Redis answers on the socket before the time is over.
pub(super) async fn answers_within(socket: &Path, patience: Duration) -> bool {
    let deadline = Instant::now() + patience;
    loop {
        if ask(socket, "PING")
            .await
            .is_ok_and(|answer| answer == "+PONG")
        {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        sleep(POLL).await;
    }
}

/// Keeps it running until `stop`, then shuts it down.
async fn watch(place: Place, mut child: Child, stop: CancellationToken) {
    let mut back_off = FIRST_BACK_OFF;
    loop {
        let up_since = Instant::now();
        tokio::select! {
            () = stop.cancelled() => return place.shut_down(child).await,
            status = child.wait() => tracing::error!(?status, "the embedded redis died, it is started again"),
        }
        if up_since.elapsed() > LONGEST_BACK_OFF {
            back_off = FIRST_BACK_OFF;
        }
        child = loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = sleep(back_off) => {}
            }
            back_off = (back_off * 2).min(LONGEST_BACK_OFF);
            match place.start().await {
                Ok(child) => break child,
                Err(e) => tracing::error!(
                    error = format!("{e:#}"),
                    "the embedded redis does not start"
                ),
            }
        };
    }
}

struct Place {
    folder: PathBuf,
    socket: PathBuf,
}

impl Place {
    async fn start(&self) -> anyhow::Result<Child> {
        let lock = self.lock().await?;
        let mut child = self.spawn(lock)?;
        let deadline = Instant::now() + START_PATIENCE;
        while Instant::now() < deadline {
            if let Some(status) = child.try_wait().context("look after the embedded redis")? {
                bail!(
                    "the embedded redis ended at once ({status}); its last words: {}",
                    self.last_words()
                );
            }
            if answers_within(&self.socket, Duration::ZERO).await {
                tracing::info!(redis.pid = child.id(), redis.socket = %self.socket.display(), "the embedded redis is up");
                return Ok(child);
            }
            sleep(POLL).await;
        }
        bail!(
            "the embedded redis does not answer on {} after {START_PATIENCE:?}",
            self.socket.display()
        )
    }

    /// The lock that the Redis process will hold. A Redis that a killed server left behind still has it: that one is
    /// shut down first, because two of them would ruin one append-only file.
    async fn lock(&self) -> anyhow::Result<File> {
        let path = self.folder.join(LOCK);
        let file = File::options()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&path);
        let file = file.with_context(|| format!("open {}", path.display()))?;
        let deadline = Instant::now() + LEFTOVER_PATIENCE;
        let mut told = false;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::Error(e)) => {
                    return Err(e).with_context(|| format!("lock {}", path.display()));
                }
                Err(TryLockError::WouldBlock) if Instant::now() >= deadline => bail!(
                    "a redis-server of an earlier run (process {}) still uses {} and does not stop; end that process",
                    fs::read_to_string(self.folder.join(PID))
                        .unwrap_or_default()
                        .trim(),
                    self.folder.display()
                ),
                Err(TryLockError::WouldBlock) => {
                    if !told {
                        tracing::warn!(redis.socket = %self.socket.display(), "an embedded redis of an earlier run is shut down");
                    }
                    told = true;
                    self.ask_to_shut_down().await;
                    sleep(POLL).await;
                }
            }
        }
    }

    fn spawn(&self, lock: File) -> anyhow::Result<Child> {
        for program in PROGRAMS {
            let stdin = lock
                .try_clone()
                .context("hand the lock to the embedded redis")?;
            match self.command(program, stdin).spawn() {
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                started => return started.with_context(|| format!("start {program}")),
            }
        }
        bail!(MISSING)
    }

    fn command(&self, program: &str, stdin: File) -> Command {
        let mut command = Command::new(program);
        command
            .args([
                "--port",
                "0",
                "--daemonize",
                "no",
                "--unixsocketperm",
                "700",
                "--loglevel",
                "notice",
            ])
            // Every acknowledged order is on the disk, and none is ever evicted.
            .args([
                "--appendonly",
                "yes",
                "--appendfsync",
                "always",
                "--save",
                "",
                "--maxmemory-policy",
                "noeviction",
            ])
            .arg("--unixsocket")
            .arg(&self.socket)
            .arg("--dir")
            .arg(&self.folder)
            .arg("--pidfile")
            .arg(self.folder.join(PID))
            .arg("--logfile")
            .arg(self.folder.join(LOG))
            .stdin(Stdio::from(stdin))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // A Ctrl-C in the terminal is for the server, which still needs Redis while it drains.
            .process_group(0)
            .kill_on_drop(true);
        command
    }

    async fn ask_to_shut_down(&self) {
        // A refusal (the first append-only file is being written) is overridden: nothing is lost by it here,
        // because that file is there from the first start on.
        if ask(&self.socket, "SHUTDOWN")
            .await
            .is_ok_and(|answer| answer.starts_with('-'))
        {
            let _ = ask(&self.socket, "SHUTDOWN FORCE").await;
        }
    }

    async fn shut_down(&self, mut child: Child) {
        self.ask_to_shut_down().await;
        if timeout(STOP_PATIENCE, child.wait()).await.is_err() {
            tracing::error!("the embedded redis does not shut down, it is killed");
            if let Err(e) = child.kill().await {
                tracing::error!(error = %e, "the embedded redis cannot be killed");
            }
        }
    }

    /// The end of its log, for an error message.
    fn last_words(&self) -> String {
        let text = fs::read_to_string(self.folder.join(LOG)).unwrap_or_default();
        let lines: Vec<&str> = text.lines().rev().take(3).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join(" | ")
    }
}

/// Sends one inline command and returns the first line of the answer; empty when the other side hung up.
async fn ask(socket: &Path, command: &str) -> io::Result<String> {
    let exchange = async {
        let mut stream = BufReader::new(UnixStream::connect(socket).await?);
        stream
            .write_all(format!("{command}\r\n").as_bytes())
            .await?;
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        Ok(line.trim_end().to_owned())
    };
    timeout(ANSWER_PATIENCE, exchange)
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}
