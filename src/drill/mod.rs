//! A whole sale against a running server: buyers who click twice, ask again and hang up, then the proof that nothing
//! was lost. Sessions and the merchant are made through the stores; everything else goes over HTTP, as for anybody.

mod buyer;
mod oracle;
mod report;
mod stage;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use domain::Services;
use domain::users::UserId;
use domain::vouchers::VoucherId;
use tokio_util::sync::CancellationToken;

use buyer::{Buyer, Counter};
pub use report::{DrillReport, Latency};

/// How often I5 is looked at while the sale runs.
const SAMPLE_EVERY: Duration = Duration::from_millis(100);
/// Broken samples that are kept; the first few tell.
const VIOLATIONS_KEPT: usize = 20;
/// The most users a drill makes.
const USERS_MAX: u32 = 200_000;

/// What is drilled.
#[derive(Clone)]
pub struct DrillOptions {
    /// Scheme, host and port of the servers, one or more; buyers go to them in turn.
    pub urls: Vec<String>,
    /// Buyers, 1 to 200,000; each clicks at least once.
    pub users: u32,
    /// Units, at least 1.
    pub stock: u32,
    /// Buyers at the same time, at least 1.
    pub clients: u32,
    /// Told how far it is.
    pub progress: Arc<dyn Fn(Progress) + Send + Sync>,
}

/// How far a drill is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Users, the merchant and the sale are made.
    Preparing,
    /// The sale runs.
    Selling,
    /// One more buyer has done all his clicks.
    BuyerDone,
    /// All have; the rows are waited for.
    Settling,
    /// The stores are checked.
    Checking,
}

/// One answer to one click; or none.
#[derive(Clone, Debug)]
pub(crate) struct Click {
    user: UserId,
    request: String,
    said: Said,
    /// `None` when no answer came.
    latency: Option<Duration>,
}

/// What a click was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// The unit is his, by this order ID.
    Accepted(String),
    /// He has this order already.
    Already(String),
    /// This order's ID will tell.
    Pending(String),
    /// No, and why: the result's type or the error's code.
    Refused(String),
    /// Nothing: he hung up, or the server did.
    Unknown,
}

/// Where buyers click.
pub(crate) struct Venue {
    counters: Vec<Counter>,
    voucher_id: VoucherId,
    voucher: String,
}

/// Runs one sale to its end and checks it. Returns a report also when the sale is broken; see `DrillReport::is_clean`.
///
/// `services` must be on the same stores and deployment as the servers; they need not run any worker.
///
/// # Errors
/// When the sale cannot be prepared or the stores cannot be asked.
pub async fn run(services: &Services, options: DrillOptions) -> anyhow::Result<DrillReport> {
    ensure!(
        !options.urls.is_empty(),
        "a drill needs the address of a server"
    );
    ensure!(
        (1..=USERS_MAX).contains(&options.users),
        "a drill has 1 to {USERS_MAX} users"
    );
    ensure!(
        options.stock >= 1 && options.clients >= 1,
        "a drill needs a unit and a client at least"
    );
    (options.progress)(Progress::Preparing);
    let (venue, buyers) = stage::prepare(services, &options).await?;
    let (venue, buyers) = (Arc::new(venue), Arc::new(buyers));

    (options.progress)(Progress::Selling);
    let sampling = CancellationToken::new();
    let samples = tokio::spawn(sample(services.clone(), venue.voucher_id, sampling.clone()));
    let began = Instant::now();
    let history = sell(&venue, &buyers, &options).await?;
    let took = began.elapsed();

    (options.progress)(Progress::Settling);
    let settled = oracle::wait_until_quiet(services, &venue, &history).await;
    sampling.cancel();
    let samples = samples.await.context("sample the books")?;

    (options.progress)(Progress::Checking);
    let checks = oracle::check(services, &venue, &buyers, &history, &samples).await?;
    let rows = services
        .orders
        .rows_of_sale(venue.voucher_id)
        .await
        .context("read the sale's orders")?;
    Ok(DrillReport::new(
        &options,
        &history,
        took,
        &rows,
        report::Findings {
            settled,
            checks,
            samples: samples.seen,
        },
    ))
}

/// Lets all buyers click, `clients` at a time.
async fn sell(
    venue: &Arc<Venue>,
    buyers: &Arc<Vec<Buyer>>,
    options: &DrillOptions,
) -> anyhow::Result<Vec<Click>> {
    let next = Arc::new(AtomicUsize::new(0));
    let clients = (0..options.clients).map(|_| {
        let (venue, buyers, next) = (Arc::clone(venue), Arc::clone(buyers), Arc::clone(&next));
        let progress = Arc::clone(&options.progress);
        tokio::spawn(async move {
            let mut clicks = Vec::new();
            while let Some(buyer) = buyers.get(next.fetch_add(1, Ordering::Relaxed)) {
                clicks.extend(buyer.visit(&venue).await);
                progress(Progress::BuyerDone);
            }
            clicks
        })
    });
    let mut history = Vec::new();
    for client in clients.collect::<Vec<_>>() {
        history.extend(client.await.context("run a client")?);
    }
    Ok(history)
}

/// What was seen of I5 while the sale ran.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    seen: u64,
    violations: Vec<String>,
}

async fn sample(services: Services, voucher: VoucherId, stop: CancellationToken) -> Samples {
    let mut samples = Samples::default();
    let mut tick = tokio::time::interval(SAMPLE_EVERY);
    loop {
        tokio::select! {
            () = stop.cancelled() => return samples,
            _ = tick.tick() => {}
        }
        // A Redis that is away, or a sale that is being recovered, shows nothing to judge.
        let Ok(books) = services.orders.books(voucher).await else {
            continue;
        };
        if books.not_ready() {
            continue;
        }
        samples.seen += 1;
        if !books.adds_up() && samples.violations.len() < VIOLATIONS_KEPT {
            samples.violations.push(format!(
                "stock {:?} + orders {} is not total {:?}, or buyers {} are not the orders",
                books.stock, books.orders, books.total, books.buyers
            ));
        }
    }
}
