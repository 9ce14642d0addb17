//! The program as its users start it: a process, its environment, its output. It ends with the test, whatever happens.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use super::client::Client;
use super::stores::unique;
use super::wait::eventually;

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_lifemate");
/// How often the memory of a command is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How long a command may run that is expected to end by itself.
const COMMAND_LIMIT: Duration = Duration::from_secs(300);

/// A port of 127.0.0.1 that nobody listens on. Below the range that the kernel takes ports for outgoing connections
/// from, so that it stays free until it is used.
pub(crate) fn free_port() -> u16 {
    (0..1000)
        .map(|_| 10_000 + 2 * (rand::random::<u16>() % 2_500))
        .find(|port| {
            [0, 1]
                .iter()
                .all(|next| std::net::TcpListener::bind(("127.0.0.1", port + next)).is_ok())
        })
        .expect("a free port")
}

/// Any process of a test; killed when it is dropped.
pub(crate) struct Guarded {
    child: Child,
}

impl Guarded {
    /// Starts a command with its output going to files.
    pub(crate) fn spawn(command: &mut Command, stdout: &Path, stderr: &Path) -> Self {
        let to = |path: &Path| {
            Stdio::from(
                File::options()
                    .create(true)
                    .append(true)
                    .open(path)
                    .unwrap(),
            )
        };
        command
            .stdin(Stdio::null())
            .stdout(to(stdout))
            .stderr(to(stderr));
        let child = command
            .spawn()
            .unwrap_or_else(|e| panic!("start {command:?}: {e}"));
        Self { child }
    }

    /// Sends a signal by its name.
    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill")
            .args([&format!("-{name}"), &self.child.id().to_string()])
            .status()
            .unwrap();
        assert!(status.success(), "kill -{name} {}", self.child.id());
    }

    /// Kills without warning, and waits until it is gone.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Whether it runs still.
    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits for it to end by itself.
    pub(crate) async fn ended(&mut self, limit: Duration) -> ExitStatus {
        eventually(limit, "the end of a process", async || {
            self.child.try_wait().unwrap()
        })
        .await
    }

    /// The process's id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        self.kill();
    }
}

/// One `lifemate` process.
pub(crate) struct Process {
    guarded: Guarded,
    port: u16,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Process {
    /// Starts `lifemate` with these arguments on a free port; `env` comes on top of an environment that holds no
    /// `LIFEMATE_*`. Its output goes to files in `logs`.
    pub(crate) fn spawn(args: &[&str], env: &[(String, String)], logs: &Path) -> Self {
        Self::spawn_at(free_port(), args, env, logs)
    }

    /// The same on a given port, for one that comes back.
    pub(crate) fn spawn_at(
        port: u16,
        args: &[&str],
        env: &[(String, String)],
        logs: &Path,
    ) -> Self {
        let name = format!(
            "{}-{port}-{}",
            args.first().unwrap_or(&"lifemate"),
            unique()
        );
        let (stdout, stderr) = (
            logs.join(format!("{name}.out")),
            logs.join(format!("{name}.err")),
        );
        let mut command = lifemate(args, env);
        command.env("LIFEMATE_HTTP_ADDR", format!("127.0.0.1:{port}"));
        let guarded = Guarded::spawn(&mut command, &stdout, &stderr);
        Self {
            guarded,
            port,
            stdout,
            stderr,
        }
    }

    /// The port that it was given.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The process's id.
    pub(crate) fn id(&self) -> u32 {
        self.guarded.id()
    }

    /// A client of it that is signed in nowhere.
    pub(crate) fn client(&self) -> Client {
        Client::to(format!("127.0.0.1:{}", self.port))
    }

    /// Waits until it says that it is ready; panics with its output when it ends, or never is.
    pub(crate) async fn wait_ready(&mut self, limit: Duration) {
        let url = format!("http://127.0.0.1:{}/health/ready", self.port);
        let http = reqwest::Client::builder()
            .timeout(Duration::from_secs(5))
            .no_proxy()
            .build()
            .unwrap();
        let what = format!("a ready node; its log is {}", self.stderr.display());
        let outcome = eventually(limit, &what, async || {
            if !self.guarded.is_running() {
                return Some(Err(format!("it ended:\n{}\n{}", self.output(), self.log())));
            }
            let answer = http.get(&url).send().await.ok()?;
            answer.status().is_success().then_some(Ok(()))
        });
        outcome.await.unwrap_or_else(|e| panic!("{e}"));
    }

    /// What it wrote to standard output so far.
    pub(crate) fn output(&self) -> String {
        read(&self.stdout)
    }

    /// What it wrote to standard error so far: its log.
    pub(crate) fn log(&self) -> String {
        read(&self.stderr)
    }

    /// The newest login code that it printed for a phone, given as it prints it.
    pub(crate) async fn login_code(&self, phone: &str, limit: Duration) -> String {
        let prefix = format!("login code for {phone}: ");
        eventually(limit, "a login code on standard output", async || {
            let output = self.output();
            output
                .lines()
                .rev()
                .find_map(|line| Some(line.split_once(&prefix)?.1.trim().to_owned()))
        })
        .await
    }

    /// kill -9.
    pub(crate) fn kill9(&mut self) {
        self.guarded.kill();
    }

    /// Asks it to stop, and waits for that.
    pub(crate) async fn term(&mut self, limit: Duration) -> ExitStatus {
        self.guarded.signal("TERM");
        self.guarded.ended(limit).await
    }

    /// Stops its clock: it holds its connections and answers nothing.
    pub(crate) fn freeze(&self) {
        self.guarded.signal("STOP");
    }

    /// Lets it go on.
    pub(crate) fn thaw(&self) {
        self.guarded.signal("CONT");
    }

    /// Asserts that nothing in it panicked.
    #[track_caller]
    pub(crate) fn assert_no_panic(&self) {
        let log = self.log();
        let line = log.lines().find(|line| line.contains("panicked at"));
        assert_eq!(line, None, "a panic in {}", self.stderr.display());
    }
}

/// What a command that ended said.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// The most memory that it held, as last seen before its end.
    pub(crate) peak_kib: u64,
}

/// Runs a command of the program to its end.
pub(crate) async fn run(args: &[&str], env: &[(String, String)]) -> Output {
    to_the_end(lifemate(args, env)).await
}

/// Runs one test of this binary in a process of its own, so that its memory can be told from the others'.
pub(crate) async fn run_test(name: &str, env: &[(&str, String)]) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name]);
    command.envs(env.iter().map(|(name, value)| (name, value)));
    to_the_end(command).await
}

async fn to_the_end(command: Command) -> Output {
    let what = format!("{command:?}");
    let mut command = tokio::process::Command::from(command);
    command.stdin(Stdio::null()).kill_on_drop(true);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let id = child.id().unwrap();
    let mut peak_kib = 0;
    let output = child.wait_with_output();
    let watched = async {
        let mut output = std::pin::pin!(output);
        loop {
            tokio::select! {
                output = &mut output => return output.unwrap(),
                () = tokio::time::sleep(LOOK_EVERY) => peak_kib = peak_kib_of(id).unwrap_or(peak_kib),
            }
        }
    };
    let ended = tokio::time::timeout(COMMAND_LIMIT, watched).await;
    let output = ended.unwrap_or_else(|_| panic!("{what} does not end"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Output {
        status: output.status,
        stdout: text(&output.stdout),
        stderr: text(&output.stderr),
        peak_kib,
    }
}

/// The most memory that a process ever held; `None` when it is gone.
fn peak_kib_of(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

fn lifemate(args: &[&str], env: &[(String, String)]) -> Command {
    let mut command = Command::new(PROGRAM);
    for (name, _) in
        std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("LIFEMATE_"))
    {
        command.env_remove(name);
    }
    command
        .args(args)
        .envs(env.iter().map(|(name, value)| (name, value)));
    // Not in the project's folder: a lifemate.toml there is the developer's, not the test's.
    command.current_dir(std::env::temp_dir());
    command
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
}
