//! The background tasks of a process as one thing: start them, and stop them within a time. What they do is the
//! business of `domain`.

use std::time::Duration;

use domain::Services;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Finish the batch in hand, commit, flush the producer.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

/// Running background tasks.
pub(crate) struct Workers {
    /// In the order of stopping.
    tasks: Vec<Task>,
}

struct Task {
    name: &'static str,
    stop: CancellationToken,
    running: JoinHandle<()>,
}

impl Workers {
    /// Only what every process runs: it hears other nodes, follows the clock and writes what it failed to send.
    pub(crate) fn node(services: &Services) -> Self {
        let (services, stop) = (services.clone(), CancellationToken::new());
        let token = stop.clone();
        let running = tokio::spawn(async move { services.run_node(token).await });
        Self {
            tasks: vec![Task {
                name: "node",
                stop,
                running,
            }],
        }
    }

    /// That, and what any process may do for all: the writer, the sweeper, the closer, and those of other concepts.
    pub(crate) fn all(services: &Services) -> Self {
        let mut all = Self::node(services);
        let (services, stop) = (services.clone(), CancellationToken::new());
        let token = stop.clone();
        let running = tokio::spawn(async move { services.run_workers(token).await });
        all.tasks.insert(
            0,
            Task {
                name: "workers",
                stop,
                running,
            },
        );
        all
    }

    /// Lets them finish what they have in hand; those who do not are left behind.
    pub(crate) async fn stop(self) {
        for Task {
            name,
            stop,
            running,
        } in self.tasks
        {
            stop.cancel();
            match timeout(STOP_PATIENCE, running).await {
                Ok(Ok(())) => tracing::debug!(task = name, "a background task has stopped"),
                Ok(Err(e)) => {
                    tracing::error!(task = name, error = %e, "a background task ended early")
                }
                Err(_) => tracing::error!(
                    task = name,
                    waited_secs = STOP_PATIENCE.as_secs(),
                    "a background task did not stop in time; what it had in hand stays in the outbox"
                ),
            }
        }
    }
}
