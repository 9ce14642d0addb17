//! Logs to standard error and the metrics of the process. What is measured is with those who do the work.

use std::io::IsTerminal;
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, anyhow};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::{Config, LogFormat};

/// From a Redis round trip on the same machine to an operation's time limit.
const SECONDS: [f64; 14] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];
/// From a quick look at a Redis on the same machine to the limit of a load.
const READ_SECONDS: [f64; 13] = [
    0.0001, 0.0002, 0.0003, 0.0005, 0.00075, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1.0, 3.0,
];
/// Rows or requests that went together.
const COUNTS: [f64; 10] = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0];
/// Histogram samples wait in memory until this runs; longer costs memory, shorter costs time.
const UPKEEP: Duration = Duration::from_secs(5);

/// The process has one recorder, also when tests start several servers in it.
static METRICS: OnceLock<Result<PrometheusHandle, String>> = OnceLock::new();

/// Starts to write logs as configured.
pub(crate) fn start_logs(config: &Config) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&config.log).context("read the log filter")?;
    let registry = tracing_subscriber::registry().with(filter);
    let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    match config.log_format {
        LogFormat::Text => registry
            .with(layer.with_ansi(std::io::stderr().is_terminal()))
            .try_init(),
        LogFormat::Json => registry.with(layer.json().flatten_event(true)).try_init(),
    }
    .context("start to write logs")
}

/// What `/metrics` shows; made at the first call.
pub(crate) fn metrics() -> anyhow::Result<PrometheusHandle> {
    METRICS
        .get_or_init(|| install().map_err(|e| format!("{e:#}")))
        .clone()
        .map_err(|e| anyhow!("{e}"))
}

/// Keeps the recorder small until `stop`.
pub(crate) async fn keep_up(metrics: PrometheusHandle, stop: CancellationToken) {
    while stop
        .run_until_cancelled(tokio::time::sleep(UPKEEP))
        .await
        .is_some()
    {
        metrics.run_upkeep();
    }
}

fn install() -> anyhow::Result<PrometheusHandle> {
    let builder = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS)?
        .set_buckets_for_metric(
            Matcher::Full("lifemate_cache_read_seconds".to_owned()),
            &READ_SECONDS,
        )?
        .set_buckets_for_metric(Matcher::Suffix("_size".to_owned()), &COUNTS)?
        .set_buckets_for_metric(Matcher::Suffix("_rows".to_owned()), &COUNTS)?;
    let handle = builder
        .install_recorder()
        .context("install the metrics recorder")?;
    crate::transport::describe_metrics();
    Ok(handle)
}
