//! One Redis: shared multiplexed connections that come back by themselves, scripts outside the sale path, and
//! events between nodes. The sale's own scripts and what they mean are in `orders`.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use deadpool_redis::redis::aio::{ConnectionLike, MultiplexedConnection};
use deadpool_redis::redis::{
    AsyncConnectionConfig, Client, Cmd, FromRedisValue, IntoConnectionInfo, Pipeline, RedisError,
    ServerErrorKind, cmd,
};
use deadpool_redis::{Manager, Pool, PoolError, Runtime};
use parking_lot::RwLock;
use tokio::sync::{Mutex, broadcast};
use tokio::time::Instant;

use super::events::{Events, PushEvent};
use super::lua::{Script, Scripts};

/// One command may take this long. The sale repeats a timed-out call with the same ids, so too short costs little.
const RESPONSE_TIMEOUT: Duration = Duration::from_millis(1_500);
const CONNECT_TIMEOUT: Duration = Duration::from_millis(1_000);
/// How often the shared connection is asked whether it lives.
const HEARTBEAT: Duration = Duration::from_millis(500);
/// A shared connection that has left so many heartbeats in a row unanswered is given up: its other end may be gone without
/// a word, and the kernel would wait for a quarter of an hour.
const UNANSWERED_HEARTBEATS: u32 = 3;
/// Connections in the pool. Requests share them, so this is not a bound on requests.
const POOL_SIZE: usize = 4;

/// Why Redis may not sell.
#[derive(Debug, thiserror::Error)]
pub enum UnfitRedis {
    /// A setting would lose or evict orders.
    #[error("redis setting {setting} is {found:?}, a sale needs {wanted:?}")]
    Setting {
        /// The setting's name.
        setting: &'static str,
        /// What it is.
        found: String,
        /// What it must be.
        wanted: &'static str,
    },
    /// Redis cannot be asked.
    #[error("redis does not tell its settings: {0}")]
    Redis(#[from] RedisError),
}

/// The shared connection as it was when asked for: one TCP connection, never replaced in the caller's hands.
#[derive(Clone)]
pub struct Line {
    /// Tells whether the shared connection was replaced meanwhile.
    number: u64,
    /// The connection.
    pub conn: MultiplexedConnection,
}

struct Inner {
    deployment: String,
    client: Client,
    pool: Pool,
    scripts: Scripts,
    shared: RwLock<Option<Line>>,
    /// Held by whoever connects; the last failure, for those who waited meanwhile.
    connecting: Mutex<Option<FailedConnect>>,
    connections: AtomicU64,
    events: Events,
}

struct FailedConnect {
    at: Instant,
    error: RedisError,
}

/// One Redis of one deployment. Cheap to clone.
#[derive(Clone)]
pub struct Redis {
    inner: Arc<Inner>,
}

impl std::fmt::Debug for Redis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redis")
            .field("deployment", &self.inner.deployment)
            .finish_non_exhaustive()
    }
}

impl Redis {
    /// Prepares the connections; nothing is sent yet.
    ///
    /// # Errors
    /// When `url` is none of `redis://`, `rediss://`, `redis+unix://`.
    pub fn new(url: &str, deployment: &str) -> Result<Self, RedisError> {
        let info = url.into_connection_info()?;
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(Some(RESPONSE_TIMEOUT))
            .set_connection_timeout(Some(CONNECT_TIMEOUT));
        let manager = Manager::new_with_config(info.clone(), config)?;
        let pool = Pool::builder(manager)
            .max_size(POOL_SIZE)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(CONNECT_TIMEOUT))
            .create_timeout(Some(CONNECT_TIMEOUT))
            .recycle_timeout(Some(RESPONSE_TIMEOUT))
            .build()
            .map_err(|e| RedisError::from(std::io::Error::other(e.to_string())))?;
        let inner = Inner {
            deployment: deployment.to_owned(),
            client: Client::open(info)?,
            pool,
            scripts: Scripts::new(deployment),
            shared: RwLock::new(None),
            connecting: Mutex::new(None),
            connections: AtomicU64::new(0),
            events: Events::default(),
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// Whether this is a clone of the other.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// The deployment's name, the prefix of every key.
    pub fn deployment(&self) -> &str {
        &self.inner.deployment
    }

    /// The key `<deployment>:<rest>`.
    pub fn key(&self, rest: impl Display) -> String {
        format!("{}:{rest}", self.inner.deployment)
    }

    /// The scripts of this deployment.
    pub fn scripts(&self) -> &Scripts {
        &self.inner.scripts
    }

    /// A connection of the caller's own, for calls that must not share one.
    ///
    /// # Errors
    /// When Redis cannot be reached.
    pub async fn dedicated(&self) -> Result<MultiplexedConnection, RedisError> {
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(Some(RESPONSE_TIMEOUT))
            .set_connection_timeout(Some(CONNECT_TIMEOUT));
        self.inner
            .client
            .get_multiplexed_async_connection_with_config(&config)
            .await
    }

    /// Sends one command on the shared connection.
    ///
    /// # Errors
    /// Redis' own, no answer in 1.5 s, or no connection.
    pub async fn query<T: FromRedisValue>(&self, cmd: &Cmd) -> Result<T, RedisError> {
        let mut line = self.line().await?;
        let result = cmd.query_async(&mut line.conn).await;
        result.inspect_err(|e| self.failed(&line, e))
    }

    /// Sends a pipeline on the shared connection.
    ///
    /// # Errors
    /// As `query`.
    pub async fn query_pipe<T: FromRedisValue>(&self, pipe: &Pipeline) -> Result<T, RedisError> {
        let mut line = self.line().await?;
        let result = pipe.query_async(&mut line.conn).await;
        result.inspect_err(|e| self.failed(&line, e))
    }

    /// Runs a script outside the sale path: by its hash, and by its text where Redis has forgotten it.
    ///
    /// # Errors
    /// As `query`.
    pub async fn run<T: FromRedisValue>(
        &self,
        script: &Script,
        keys: &[String],
        args: &[String],
    ) -> Result<T, RedisError> {
        let call = |name: &str, body: &str| {
            let mut call = cmd(name);
            call.arg(body).arg(keys.len()).arg(keys).arg(args);
            call
        };
        match self.query(&call("EVALSHA", &script.sha)).await {
            Err(e)
                if e.kind()
                    == deadpool_redis::redis::ErrorKind::Server(ServerErrorKind::NoScript) =>
            {
                self.query(&call("EVAL", &script.text)).await
            }
            result => result,
        }
    }

    /// Tells all nodes of this deployment. At most once: who must not miss it reads the state too.
    ///
    /// # Errors
    /// As `query`.
    pub async fn publish(&self, channel: &str, payload: &str) -> Result<(), RedisError> {
        let channel = self.key(format!("events:{channel}"));
        self.query::<i64>(cmd("PUBLISH").arg(channel).arg(payload))
            .await
            .map(|_| ())
    }

    /// Hears what nodes publish on a channel from now on, and `Resync` whenever something may have been missed.
    pub fn subscribe(&self, channel: &'static str) -> broadcast::Receiver<PushEvent> {
        self.inner.events.subscribe(channel)
    }

    /// Asks again and again whether the shared connection lives, until `stop`: a dead one is then replaced before a
    /// request falls on it.
    pub async fn keep_alive(&self, stop: tokio_util::sync::CancellationToken) {
        let mut unanswered = 0;
        while !stop.is_cancelled() {
            unanswered = self.heartbeat(unanswered).await;
            tokio::select! {
                () = tokio::time::sleep(HEARTBEAT) => {}
                () = stop.cancelled() => {}
            }
        }
    }

    /// Answers how many heartbeats in a row were not answered by now.
    async fn heartbeat(&self, unanswered: u32) -> u32 {
        let Ok(mut line) = self.line().await else {
            return 0;
        };
        let pong = cmd("PING").query_async::<String>(&mut line.conn).await;
        let Err(error) = pong else { return 0 };
        if is_broken(&error) || unanswered + 1 >= UNANSWERED_HEARTBEATS {
            self.give_up(&line);
            return 0;
        }
        unanswered + 1
    }

    /// Starts hearing other nodes, until `stop`.
    pub fn listen(&self, stop: tokio_util::sync::CancellationToken) {
        let prefix = self.key("events:");
        self.inner
            .events
            .listen(self.inner.client.clone(), prefix, stop);
    }

    /// Whether Redis answers.
    pub async fn is_up(&self) -> bool {
        self.query::<String>(&cmd("PING")).await.is_ok()
    }

    /// Whether this Redis may hold a sale: append-only file at `always`, nothing evicted.
    ///
    /// # Errors
    /// Names the setting that is wrong.
    pub async fn require_fit_to_sell(&self) -> Result<(), UnfitRedis> {
        let wanted = [
            ("appendonly", "yes"),
            ("appendfsync", "always"),
            ("maxmemory-policy", "noeviction"),
        ];
        for (setting, wanted) in wanted {
            let (_, found): (String, String) =
                self.query(cmd("CONFIG").arg("GET").arg(setting)).await?;
            if found != wanted {
                return Err(UnfitRedis::Setting {
                    setting,
                    found,
                    wanted,
                });
            }
        }
        Ok(())
    }

    /// Forgets the shared connection if it is the one that failed, so that the next call makes another.
    pub fn failed(&self, line: &Line, error: &RedisError) {
        if is_broken(error) {
            self.give_up(line);
        }
    }

    fn give_up(&self, line: &Line) {
        let mut shared = self.inner.shared.write();
        if shared.as_ref().is_some_and(|s| s.number == line.number) {
            *shared = None;
        }
    }

    /// The shared connection, made if there is none.
    ///
    /// # Errors
    /// When Redis cannot be reached.
    pub async fn line(&self) -> Result<Line, RedisError> {
        if let Some(line) = self.inner.shared.read().clone() {
            return Ok(line);
        }
        let asked_at = Instant::now();
        let mut last_failure = self.inner.connecting.lock().await;
        if let Some(line) = self.inner.shared.read().clone() {
            return Ok(line);
        }
        // Whoever has waited for an attempt does not wait for one of its own: a thousand would stand in a row.
        if let Some(failed) = last_failure.as_ref().filter(|f| f.at >= asked_at) {
            return Err(failed.error.clone());
        }
        let pooled = match self.inner.pool.get().await.map_err(pool_error) {
            Ok(pooled) => pooled,
            Err(error) => {
                *last_failure = Some(FailedConnect {
                    at: Instant::now(),
                    error: error.clone(),
                });
                return Err(error);
            }
        };
        let number = self.inner.connections.fetch_add(1, Ordering::Relaxed);
        let line = Line {
            number,
            conn: (*pooled).clone(),
        };
        *self.inner.shared.write() = Some(line.clone());
        Ok(line)
    }
}

/// Whether a connection that gave this error is of no more use.
fn is_broken(error: &RedisError) -> bool {
    error.is_connection_dropped()
        || error.is_unrecoverable_error()
        || (error.is_io_error() && !error.is_timeout())
}

fn pool_error(error: PoolError) -> RedisError {
    match error {
        PoolError::Backend(e) => e,
        other => RedisError::from(std::io::Error::new(
            std::io::ErrorKind::TimedOut,
            other.to_string(),
        )),
    }
}

/// Sends a command on a connection of the caller's choice.
///
/// # Errors
/// Redis' own.
pub async fn query_on<T: FromRedisValue, C: ConnectionLike>(
    conn: &mut C,
    cmd: &Cmd,
) -> Result<T, RedisError> {
    let value = conn.req_packed_command(cmd).await?;
    T::from_redis_value(value.extract_error()?).map_err(RedisError::from)
}
