//! Stores of a test's own, for tests that break them. They end with the test, whatever happens.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use deadpool_redis::redis;

use super::process::{Guarded, free_port};
use super::stores::Folder;
use super::wait::eventually;

/// A Redis that may be killed: as durable as the product demands.
pub(crate) struct PrivateRedis {
    process: Guarded,
    port: u16,
    folder: Folder,
}

impl PrivateRedis {
    /// Starts an empty one, and waits until it answers.
    pub(crate) async fn start() -> Self {
        let (port, folder) = (free_port(), Folder::make("redis"));
        let process = spawn_redis(port, &folder);
        let started = Self {
            process,
            port,
            folder,
        };
        started.answers().await;
        started
    }

    /// Its address.
    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// A connection of the test's own.
    pub(crate) async fn connection(&self) -> redis::aio::MultiplexedConnection {
        redis::Client::open(self.url())
            .unwrap()
            .get_multiplexed_async_connection()
            .await
            .unwrap()
    }

    /// kill -9: acknowledged writes are in its file.
    pub(crate) fn kill9(&mut self) {
        self.process.kill();
    }

    /// Starts it again at the same address, on its own file, and waits until it answers.
    pub(crate) async fn start_again(&mut self) {
        self.process = spawn_redis(self.port, &self.folder);
        self.answers().await;
    }

    /// kill -9 and a start at once.
    pub(crate) async fn crash(&mut self) {
        self.kill9();
        self.start_again().await;
    }

    /// Removes what a dead one left, so that the next start is an empty one.
    pub(crate) fn lose_everything(&self) {
        std::fs::remove_dir_all(self.folder.path().join("appendonlydir")).unwrap();
    }

    /// Lets it hang: connections stay, no answer comes.
    pub(crate) fn freeze(&self) {
        self.process.signal("STOP");
    }

    /// Ends that.
    pub(crate) fn thaw(&self) {
        self.process.signal("CONT");
    }

    async fn answers(&self) {
        let client = redis::Client::open(self.url()).unwrap();
        eventually(Duration::from_secs(20), "a private Redis", async || {
            let Ok(mut conn) = client.get_multiplexed_async_connection().await else {
                return false;
            };
            redis::cmd("PING")
                .query_async::<String>(&mut conn)
                .await
                .is_ok()
        })
        .await;
    }
}

fn spawn_redis(port: u16, folder: &Folder) -> Guarded {
    let mut command = Command::new("redis-server");
    command.args([
        "--port",
        &port.to_string(),
        "--bind",
        "127.0.0.1",
        "--save",
        "",
    ]);
    command.args([
        "--appendonly",
        "yes",
        "--appendfsync",
        "always",
        "--maxmemory-policy",
        "noeviction",
    ]);
    command.arg("--dir").arg(folder.path());
    let log = folder.path().join("redis.log");
    Guarded::spawn(&mut command, &log, &log)
}

/// A Kafka broker that may be stopped and killed.
pub(crate) struct PrivateKafka {
    port: u16,
    folder: Folder,
}

impl PrivateKafka {
    /// Starts an empty one; a few seconds.
    pub(crate) async fn start() -> Self {
        let started = Self {
            port: free_port(),
            folder: Folder::make("kafka"),
        };
        started.start_again().await;
        started
    }

    /// Its address.
    pub(crate) fn brokers(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// kill -9.
    pub(crate) async fn kill9(&self) {
        self.script("kill", &[]).await;
    }

    /// Starts it at the same address with the topics it had.
    pub(crate) async fn start_again(&self) {
        self.script("start", &[&self.port.to_string()]).await;
    }

    async fn script(&self, action: &str, rest: &[&str]) {
        let mut command = tokio::process::Command::from(kafka_command(action, &self.folder, rest));
        let status = command.status().await.unwrap();
        assert!(
            status.success(),
            "scripts/kafka {action} {}",
            self.folder.path().display()
        );
    }
}

impl Drop for PrivateKafka {
    fn drop(&mut self) {
        let _ = kafka_command("kill", &self.folder, &[]).status();
    }
}

fn kafka_command(action: &str, folder: &Folder, rest: &[&str]) -> Command {
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("scripts/kafka");
    let mut command = Command::new(script);
    command
        .arg(action)
        .arg(folder.path())
        .args(rest)
        .stdout(std::process::Stdio::null());
    command
}
