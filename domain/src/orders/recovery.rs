//! Bringing a sale back into Redis from the database: one path, also for opening a sale and after a restart of
//! Redis. The steps and their order are those of the model in the README's "The seckill walk"; leaving one out
//! loses orders.

use std::time::{Duration, Instant};

use deadpool_redis::redis::aio::MultiplexedConnection;
use entity::dead_letter::DeadLetterSource;
use tokio_util::sync::{CancellationToken, DropGuard};
use uuid::Uuid;

use super::line::{has_fence, load_all, load_fence};
use super::queued::QueuedOrderV1;
use super::scripts::{self, Fields, Installation, Installed, SaleMeta};
use super::store::{Attempt, Snapshot};
use super::writer::BATCH;
use super::{Error, Orders};
use crate::infra::bus::Bus;
use crate::settings::AnswerMode;
use crate::vouchers::{Sale, VoucherId};

/// A recoverer that dies is replaced after this long.
pub(super) const LEASE_MS: i64 = 10_000;
const RENEW_EVERY: Duration = Duration::from_secs(3);
/// How long the writer may take to catch up before a recovery goes on without it.
const CATCH_UP: Duration = Duration::from_secs(5);
const CATCH_UP_POLL: Duration = Duration::from_millis(100);

/// What came of one look at a sale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovered {
    /// It is in Redis again, in a new epoch.
    Installed,
    /// It was in order; nothing was done.
    Healthy,
    /// Another recoverer has the lease, or took it over.
    Busy,
}

/// One look at all sales: they share a connection, and the patience with the writers.
struct Pass {
    /// One TCP connection from the first look at the fence to its load: a restart in between breaks it.
    conn: MultiplexedConnection,
    /// How long its sales may wait for the writers, all together.
    patience: Duration,
}

impl Pass {
    async fn begin(orders: &Orders) -> Result<Self, Error> {
        Ok(Self {
            conn: orders.inner.infra.redis.dedicated().await?,
            patience: CATCH_UP,
        })
    }
}

impl Orders {
    /// Looks at the fence and at every open sale, and recovers what needs it; returns how many sales were installed.
    ///
    /// # Errors
    /// When a store cannot be asked; the next look tries again.
    pub async fn look_after_sales(&self) -> Result<usize, Error> {
        let mut pass = Pass::begin(self).await?;
        let fenced = has_fence(&mut pass.conn, self.scripts()).await?;
        let (mut installed, mut complete) = (0, true);
        for sale in self.inner.store.open_sales().await? {
            let voucher = VoucherId(sale.voucher_id);
            match self.look_after(&mut pass, &sale, fenced).await {
                Ok(Recovered::Installed) => installed += 1,
                Ok(Recovered::Healthy) => {}
                Ok(Recovered::Busy) => complete = false,
                Err(e) => {
                    tracing::warn!(error = %e, voucher.id = voucher.0, "a sale could not be recovered; trying again");
                    complete = false;
                }
            }
        }
        if !fenced && complete {
            load_all(&mut pass.conn, self.scripts()).await?;
            load_fence(&mut pass.conn, self.scripts()).await?;
            tracing::info!(sales = installed, "redis is fenced: the sale path is open");
        }
        Ok(installed)
    }

    /// Opens a drafted sale: the recovery of a sale without orders. One that is open already is looked after.
    ///
    /// # Errors
    /// When a store cannot be asked; `TryLater` while orders of an open sale are on their way.
    pub async fn open_sale(&self, voucher: VoucherId) -> Result<Recovered, Error> {
        let mut pass = Pass::begin(self).await?;
        if !has_fence(&mut pass.conn, self.scripts()).await? {
            self.look_after_sales().await?;
        }
        self.recover(&mut pass, voucher).await
    }

    async fn look_after(
        &self,
        pass: &mut Pass,
        sale: &Sale,
        fenced: bool,
    ) -> Result<Recovered, Error> {
        if fenced && !self.needs_recovery(&mut pass.conn, sale).await? {
            return Ok(Recovered::Healthy);
        }
        self.recover(pass, VoucherId(sale.voucher_id)).await
    }

    async fn needs_recovery(
        &self,
        conn: &mut MultiplexedConnection,
        sale: &Sale,
    ) -> Result<bool, Error> {
        let seen =
            scripts::inspect(conn, self.scripts(), &self.keys(VoucherId(sale.voucher_id))).await?;
        let trouble = if seen.not_ready() {
            "not ready"
        } else if seen.is_damaged() {
            metrics::counter!("lifemate_seckill_damaged_total").increment(1);
            "damaged"
        } else if seen.epoch != Some(sale.epoch) {
            "another epoch"
        } else if sale.announced != sale.epoch
            && sale.lease_until <= self.inner.infra.clock.now_ms()
        {
            "announced and left"
        } else {
            return Ok(false);
        };
        tracing::warn!(
            voucher.id = sale.voucher_id,
            trouble,
            "a sale needs recovery"
        );
        Ok(true)
    }

    async fn recover(&self, pass: &mut Pass, voucher: VoucherId) -> Result<Recovered, Error> {
        let token = Uuid::new_v4().simple().to_string();
        if !self
            .inner
            .store
            .hold_sale(voucher, &token, LEASE_MS)
            .await?
        {
            return Ok(Recovered::Busy);
        }
        let renewing = self.keep_lease(voucher, token.clone());
        let recovered = self.recover_under_lease(pass, voucher, &token).await;
        drop(renewing);
        self.inner.store.leave_sale(voucher, &token).await?;
        if matches!(recovered, Ok(Recovered::Installed)) {
            metrics::counter!("lifemate_seckill_recoveries_total").increment(1);
            self.tell_reopened(voucher).await;
        }
        recovered
    }

    async fn recover_under_lease(
        &self,
        pass: &mut Pass,
        voucher: VoucherId,
        token: &str,
    ) -> Result<Recovered, Error> {
        // Look again: another recoverer may have been quicker, and recovering a healthy sale would wake others.
        let Some(sale) = self.inner.store.sale(voucher).await? else {
            return Ok(Recovered::Healthy);
        };
        let already_open = sale.stage != entity::sale::SaleStage::Draft;
        if already_open
            && has_fence(&mut pass.conn, self.scripts()).await?
            && !self.still_needed(&mut pass.conn, &sale).await?
        {
            return Ok(Recovered::Healthy);
        }
        if !self.inner.store.announce(voucher, token).await? {
            return Ok(Recovered::Busy);
        }
        let keys = self.keys(voucher);
        scripts::begin_recovery(&mut pass.conn, self.scripts(), &keys, token).await?;
        // Whoever asks: a sale that was opened may have orders without a row.
        if already_open {
            self.apply_survivors(&mut pass.conn, voucher).await?;
            self.wait_for_writer(pass).await?;
        }
        let Some(snapshot) = self.inner.store.advance(voucher, token).await? else {
            return Ok(Recovered::Busy);
        };
        self.drop_card(voucher).await;
        self.install(&mut pass.conn, &snapshot, token).await
    }

    /// Like `needs_recovery`, but an announcement counts even while its lease (ours) lives.
    async fn still_needed(
        &self,
        conn: &mut MultiplexedConnection,
        sale: &Sale,
    ) -> Result<bool, Error> {
        Ok(sale.announced != sale.epoch || self.needs_recovery(conn, sale).await?)
    }

    /// Writes every order that is still in the outbox, or that somebody has tried to pay.
    pub(super) async fn apply_survivors(
        &self,
        conn: &mut MultiplexedConnection,
        voucher: VoucherId,
    ) -> Result<(), Error> {
        let mut items = self.inner.store.open_intents(voucher).await?;
        for (order, payload) in self.scan_outbox(conn, voucher).await? {
            match QueuedOrderV1::parse(&payload) {
                Ok(item) => items.push(item),
                Err(e) => {
                    self.bury(DeadLetterSource::Outbox, &order, &e.to_string(), &payload)
                        .await?
                }
            }
        }
        for batch in items.chunks(BATCH) {
            self.apply_all(batch.to_vec()).await?;
        }
        Ok(())
    }

    /// Waits until the writers have passed the end of the topic, reading the end again each time: a log that lost
    /// its tail moves back. A pass has patience once, not for each of its sales.
    async fn wait_for_writer(&self, pass: &mut Pass) -> Result<(), Error> {
        let Bus::Kafka(bus) = &self.inner.infra.bus else {
            return Ok(());
        };
        let began = Instant::now();
        while began.elapsed() < pass.patience {
            if matches!(bus.lag().await, Ok(0)) {
                return Ok(());
            }
            tokio::time::sleep(CATCH_UP_POLL).await;
        }
        pass.patience = Duration::ZERO;
        match self.inner.settings.sale.answer_mode {
            AnswerMode::Redis => Ok(()),
            AnswerMode::RedisAndKafka => Err(Error::TryLater(
                "kafka is not read to its end yet".to_owned(),
            )),
        }
    }

    async fn install(
        &self,
        conn: &mut MultiplexedConnection,
        snapshot: &Snapshot,
        token: &str,
    ) -> Result<Recovered, Error> {
        let keys = self.keys(VoucherId(snapshot.sale.voucher_id));
        let fields = fields(snapshot);
        scripts::fill_temporary(conn, &keys, token, &fields).await?;
        let installation = Installation {
            token,
            counts: fields.counts(),
            meta: &meta(snapshot),
        };
        match scripts::install(conn, self.scripts(), &keys, &installation).await? {
            Installed::Done => {
                tracing::info!(
                    voucher.id = snapshot.sale.voucher_id,
                    sale.epoch = snapshot.sale.epoch,
                    orders = snapshot.held.len(),
                    "the sale is installed in redis"
                );
                Ok(Recovered::Installed)
            }
            refused => {
                tracing::warn!(
                    voucher.id = snapshot.sale.voucher_id,
                    ?refused,
                    "redis changed while a sale was installed"
                );
                Ok(Recovered::Busy)
            }
        }
    }

    /// Renews the lease until the guard is dropped.
    fn keep_lease(&self, voucher: VoucherId, token: String) -> DropGuard {
        let (orders, done) = (self.clone(), CancellationToken::new());
        let stopped = done.clone();
        tokio::spawn(async move {
            loop {
                super::writer::pause(RENEW_EVERY, &stopped).await;
                if stopped.is_cancelled() {
                    return;
                }
                // Never taken anew: one who slept could else have the lease of a sale that sells again.
                let store = &orders.inner.store;
                match store.renew_sale(voucher, &token, LEASE_MS).await {
                    Ok(true) => {}
                    Ok(false) => return,
                    Err(e) => {
                        tracing::debug!(error = %e, "a recovery's lease was not renewed; again soon");
                    }
                }
            }
        });
        done.drop_guard()
    }
}

/// What Redis is to hold, as fields and values of its hashes.
fn fields(snapshot: &Snapshot) -> Fields {
    let unit = |user: i64, slot: i32| format!("{user}:{slot}");
    let mut fields = Fields::default();
    for held in &snapshot.held {
        fields
            .buyers
            .push((unit(held.user.0, held.slot), held.order.to_string()));
        fields
            .orders
            .push((held.order.to_string(), unit(held.user.0, held.slot)));
    }
    let mut by_user: std::collections::BTreeMap<i64, Vec<String>> =
        std::collections::BTreeMap::new();
    for Attempt {
        unit,
        reserved_at,
        request_id,
    } in &snapshot.attempts
    {
        by_user
            .entry(unit.user.0)
            .or_default()
            .push(scripts::attempt(
                unit.order,
                unit.slot,
                *reserved_at,
                request_id,
            ));
    }
    fields.attempts = by_user
        .into_iter()
        .map(|(user, attempts)| (user.to_string(), attempts.join(";")))
        .collect();
    fields
}

fn meta(snapshot: &Snapshot) -> SaleMeta {
    let sale = &snapshot.sale;
    SaleMeta {
        begin_ms: sale.begin_ms,
        end_ms: sale.end_ms,
        total: sale.total,
        limit: sale.per_user_limit,
        max_attempts: sale.max_attempts,
        price_minor: sale.price_minor,
        currency: sale.currency.clone(),
        epoch: sale.epoch,
        version: installed_version(sale),
        paused: sale.paused || sale.frozen,
        waiting: snapshot.waiting,
        taken: sale.sold,
    }
}

/// The version whose total is installed: a wish that the database has not taken up yet must still count as new when
/// it comes to Redis.
fn installed_version(sale: &Sale) -> i64 {
    let open_wish = sale
        .adjust_target
        .is_some_and(|target| target != sale.total);
    sale.adjust_version - i64::from(open_wish)
}
