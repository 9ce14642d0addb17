//! The stock of a flash sale as people watch it: read from Redis, at most twice a second, once for all who watch.
//! What may be sold is decided in `lua/reserve.lua`, never by these figures.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use deadpool_redis::redis::{RedisError, pipe};
use entity::sale::SaleStage;
use futures_util::{Stream, stream};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::orders::{Error, Orders};
use crate::vouchers::{Sale, SaleState, VoucherId, state};

/// How often a watched sale is read, and how long a viewer waits at least between two changes: two a second.
const READ_EVERY: Duration = Duration::from_millis(500);
/// How long a figure may be repeated to those who only ask.
const FRESH_FOR: Duration = Duration::from_secs(1);
/// Sales remembered for those who only ask; beyond it the stale ones are dropped.
const REMEMBERED: usize = 1_024;

/// A flash sale as buyers see it.
#[derive(Clone, Debug)]
pub struct SaleView {
    /// The sale's row; its pause, end and total are those that Redis goes by.
    pub sale: Sale,
    /// Units left for ordinary buyers. A figure to look at: it may be a second old.
    pub stock: u64,
    /// Where the sale stands.
    pub state: SaleState,
}

impl SaleView {
    /// Whether people would see the same.
    fn looks_like(&self, other: &Self) -> bool {
        let seen = |v: &Self| {
            (
                v.stock,
                v.state,
                v.sale.total,
                v.sale.begin_ms,
                v.sale.end_ms,
                v.sale.paused,
            )
        };
        seen(self) == seen(other)
    }
}

type Latest = Option<SaleView>;
type Remembered = Arc<tokio::sync::Mutex<Option<(Instant, SaleView)>>>;

/// The sales that are watched or asked about on this node.
#[derive(Default)]
pub(crate) struct Stocks {
    pollers: Mutex<HashMap<VoucherId, watch::Sender<Latest>>>,
    asked: Mutex<HashMap<VoucherId, Remembered>>,
}

impl Stocks {
    fn remembered(&self, voucher: VoucherId) -> Remembered {
        let mut asked = self.asked.lock();
        if asked.len() >= REMEMBERED && !asked.contains_key(&voucher) {
            // One that is being read or waited for is held by somebody else too.
            asked.retain(|_, entry| Arc::strong_count(entry) > 1);
        }
        Arc::clone(asked.entry(voucher).or_default())
    }

    /// Lets the next who asks see the sale as it is now.
    pub(crate) fn forget(&self, voucher: VoucherId) {
        self.asked.lock().remove(&voucher);
    }

    /// Ends the watches of a sale that will not change any more.
    fn end(&self, voucher: VoucherId) {
        self.pollers.lock().remove(&voucher);
    }

    /// Ends a poller that nobody watches any more; `false` when somebody came meanwhile.
    fn end_if_left(&self, voucher: VoucherId, sender: &watch::Sender<Latest>) -> bool {
        let mut pollers = self.pollers.lock();
        if sender.receiver_count() > 0 {
            return false;
        }
        pollers.remove(&voucher);
        true
    }
}

/// What Redis says of a sale.
struct Gauge {
    stock: i64,
    total: i64,
    begin_ms: i64,
    end_ms: i64,
    paused: bool,
}

impl Orders {
    /// A flash sale with its stock, at most a second old. Redis tells the stock of an open sale, else the database.
    ///
    /// # Errors
    /// `NoSuchSale`; when the database fails and nothing is remembered.
    pub async fn stock(&self, voucher: VoucherId) -> Result<SaleView, Error> {
        let remembered = self.inner.live.stocks.remembered(voucher);
        // Those who ask at the same moment wait for one reading.
        let mut latest = remembered.lock().await;
        let previous = latest.as_ref().map(|(_, view)| view);
        if let Some((read_at, view)) = latest.as_ref()
            && read_at.elapsed() < FRESH_FOR
        {
            return Ok(view.clone());
        }
        let view = self.read_stock(voucher, previous).await?;
        *latest = Some((Instant::now(), view.clone()));
        Ok(view)
    }

    /// A flash sale with its stock now, then whenever it has changed, at most twice a second.
    ///
    /// Ends when the sale is settled, and at once when there is no such sale: ask `stock` first to tell that apart.
    /// While it cannot be read nothing comes. May be dropped at any time.
    pub fn watch_stock(
        &self,
        voucher: VoucherId,
    ) -> impl Stream<Item = SaleView> + Send + 'static + use<> {
        let viewer = Viewer {
            latest: self.poll_stock(voucher),
            told: None,
            told_at: None,
        };
        stream::unfold(viewer, |mut viewer| async move {
            let view = viewer.next().await?;
            Some((view, viewer))
        })
    }

    /// Joins those who watch this sale on this node, and has it read from now on if nobody did.
    fn poll_stock(&self, voucher: VoucherId) -> watch::Receiver<Latest> {
        let mut pollers = self.inner.live.stocks.pollers.lock();
        if let Some(sender) = pollers.get(&voucher) {
            return sender.subscribe();
        }
        let (sender, receiver) = watch::channel(None);
        pollers.insert(voucher, sender.clone());
        drop(pollers);
        let orders = self.clone();
        tokio::spawn(async move {
            orders.poll_until_left(voucher, &sender).await;
        });
        receiver
    }

    async fn poll_until_left(&self, voucher: VoucherId, sender: &watch::Sender<Latest>) {
        let stocks = &self.inner.live.stocks;
        let mut previous: Option<SaleView> = None;
        while !stocks.end_if_left(voucher, sender) {
            match self.read_stock(voucher, previous.as_ref()).await {
                Ok(view) => {
                    let is_settled = view.state == SaleState::Settled;
                    if !previous.as_ref().is_some_and(|p| p.looks_like(&view)) {
                        sender.send_replace(Some(view.clone()));
                    }
                    if is_settled {
                        return stocks.end(voucher);
                    }
                    previous = Some(view);
                }
                Err(Error::NoSuchSale(_)) => return stocks.end(voucher),
                Err(e) => {
                    tracing::debug!(error = %e, voucher.id = voucher.0, "a watched sale cannot be read now")
                }
            }
            tokio::time::sleep(READ_EVERY).await;
        }
    }

    /// Reads a sale; what cannot be read now is taken from `previous`.
    async fn read_stock(
        &self,
        voucher: VoucherId,
        previous: Option<&SaleView>,
    ) -> Result<SaleView, Error> {
        let mut sale = match (self.inner.store.sale(voucher).await, previous) {
            (Ok(sale), _) => sale.ok_or(Error::NoSuchSale(voucher))?,
            (Err(_), Some(previous)) => previous.sale.clone(),
            (Err(e), None) => return Err(e.into()),
        };
        let in_redis = match sale.stage {
            SaleStage::Opened => self.gauge(voucher).await.unwrap_or_else(|e| {
                tracing::debug!(error = %e, voucher.id = voucher.0, "redis does not tell the stock");
                None
            }),
            SaleStage::Draft | SaleStage::Settled => None,
        };
        let left = match in_redis {
            Some(gauge) => {
                (sale.total, sale.begin_ms, sale.end_ms) =
                    (gauge.total, gauge.begin_ms, gauge.end_ms);
                sale.paused = gauge.paused;
                gauge.stock
            }
            // While a sale is recovered the last figure is nearer than the rows, which lag behind.
            None => match previous
                .filter(|p| p.sale.stage == SaleStage::Opened && sale.stage == SaleStage::Opened)
            {
                Some(previous) => i64::try_from(previous.stock).unwrap_or(i64::MAX),
                None => sale.total - sale.sold,
            },
        };
        let state = state(&sale, self.inner.infra.clock.now_ms());
        Ok(SaleView {
            sale,
            stock: u64::try_from(left).unwrap_or(0),
            state,
        })
    }

    /// What Redis says of a sale; `None` when it is not there, or being recovered.
    async fn gauge(&self, voucher: VoucherId) -> Result<Option<Gauge>, RedisError> {
        let keys = self.keys(voucher);
        let fields = ["total", "begin_ms", "end_ms", "paused", "waiting"];
        let mut reads = pipe();
        reads
            .get(keys.stock())
            .cmd("HMGET")
            .arg(keys.meta())
            .arg(&fields);
        let (stock, meta): (Option<i64>, Vec<Option<i64>>) =
            self.inner.infra.redis.query_pipe(&reads).await?;
        let (Some(stock), [Some(total), Some(begin_ms), Some(end_ms), paused, waiting]) =
            (stock, &meta[..])
        else {
            return Ok(None);
        };
        Ok(Some(Gauge {
            stock: stock - waiting.unwrap_or(0),
            total: *total,
            begin_ms: *begin_ms,
            end_ms: *end_ms,
            paused: paused.is_some_and(|p| p != 0),
        }))
    }
}

/// One viewer's stream.
struct Viewer {
    latest: watch::Receiver<Latest>,
    told: Option<SaleView>,
    told_at: Option<Instant>,
}

impl Viewer {
    /// The next view that looks different; `None` when no more can come.
    async fn next(&mut self) -> Option<SaleView> {
        if let Some(told_at) = self.told_at {
            tokio::time::sleep_until(told_at + READ_EVERY).await;
        }
        loop {
            let latest = self.latest.borrow_and_update().clone();
            if let Some(view) = latest
                && !self
                    .told
                    .as_ref()
                    .is_some_and(|told| told.looks_like(&view))
            {
                self.told = Some(view.clone());
                self.told_at = Some(Instant::now());
                return Some(view);
            }
            self.latest.changed().await.ok()?;
        }
    }
}
