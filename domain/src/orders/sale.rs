//! What a merchant does with a flash sale: publish, pause, resume, end. The database is written first; Redis
//! follows, and the gauge repeats what did not arrive.

use entity::sale::{self, SaleStage};
use sea_orm::sea_query::{Expr, ExprTrait, SimpleExpr};
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};

use super::recovery::Recovered;
use super::rounds::Round;
use super::scripts::{Amended, Amendment};
use super::{Error, Orders};
use crate::users::Session;
use crate::vouchers::{Sale, SaleByVoucher, SaleState, VoucherId, state};

impl Orders {
    /// Opens a drafted sale: from now on it is announced, and sells when its window opens.
    ///
    /// # Errors
    /// `WrongState` unless it is a draft whose end lies ahead; the vouchers' `BadInput` when its shop has closed;
    /// `TryLater` when Redis cannot hold it now.
    pub async fn publish(&self, session: &Session, voucher: VoucherId) -> Result<Sale, Error> {
        let vouchers = &self.inner.vouchers;
        let described = vouchers.require_owner(session, voucher).await?;
        let draft = self.require_sale(voucher).await?;
        let now = self.inner.infra.clock.now_ms();
        if draft.stage != SaleStage::Draft || draft.end_ms <= now {
            return Err(self.wrong_state(&draft));
        }
        vouchers.require_open_shop(&described).await?;
        if !self.inner.settings.unsafe_redis {
            self.inner
                .infra
                .redis
                .require_fit_to_sell()
                .await
                .map_err(|e| Error::TryLater(e.to_string()))?;
        }
        match self.open_sale(voucher).await? {
            Recovered::Installed | Recovered::Healthy => self.require_sale(voucher).await,
            Recovered::Busy => Err(Error::TryLater(
                "the sale is being opened by another node".to_owned(),
            )),
        }
    }

    /// Stops selling until `resume`; orders that exist go on.
    ///
    /// # Errors
    /// `WrongState` unless the sale is open; trouble of a store.
    pub async fn pause(&self, session: &Session, voucher: VoucherId) -> Result<Sale, Error> {
        self.change(
            session,
            voucher,
            vec![(sale::Column::Paused, Expr::value(true))],
        )
        .await
    }

    /// Sells again.
    ///
    /// # Errors
    /// As `pause`.
    pub async fn resume(&self, session: &Session, voucher: VoucherId) -> Result<Sale, Error> {
        self.change(
            session,
            voucher,
            vec![(sale::Column::Paused, Expr::value(false))],
        )
        .await
    }

    /// Ends the sale now; orders that exist go on.
    ///
    /// # Errors
    /// As `pause`.
    pub async fn end(&self, session: &Session, voucher: VoucherId) -> Result<Sale, Error> {
        let now = self.inner.infra.clock.now_ms();
        self.change(
            session,
            voucher,
            vec![(sale::Column::EndMs, Expr::value(now))],
        )
        .await
    }

    /// Brings the pause and the end of a sale, as they are now, into Redis; nothing happens when they are there.
    pub(crate) async fn amend(&self, voucher: VoucherId) -> Result<Amended, Error> {
        // Read at the last moment: what the caller knows may have been changed since, and be there already.
        let sale = self.require_sale(voucher).await?;
        let amendment = Amendment {
            epoch: sale.epoch,
            paused: Some(sale.paused || sale.frozen),
            waiting: None,
            end_ms: Some(sale.end_ms),
        };
        let keys = self.keys(voucher);
        let amended = self
            .on_line(|mut conn| {
                let (keys, amendment) = (&keys, &amendment);
                async move { super::scripts::amend(&mut conn, self.scripts(), keys, amendment).await }
            })
            .await?;
        Ok(amended)
    }

    /// Repeats amendments that did not arrive in Redis.
    ///
    /// # Errors
    /// When a store cannot be asked.
    pub async fn repeat_amendments(&self) -> Result<(), Error> {
        let mut round = Round::of("amending sales");
        for sale in self.inner.store.open_sales().await? {
            round.note(sale.voucher_id, self.repeat_amendment(&sale).await)?;
        }
        round.end().map(|_| ())
    }

    async fn repeat_amendment(&self, sale: &Sale) -> Result<usize, Error> {
        let voucher = VoucherId(sale.voucher_id);
        let seen = self.inspect(voucher).await?;
        let same = seen.paused == (sale.paused || sale.frozen) && seen.end_ms == Some(sale.end_ms);
        if seen.epoch != Some(sale.epoch) || same {
            return Ok(0);
        }
        self.amend(voucher).await?;
        self.tell_reopened(voucher).await;
        Ok(1)
    }

    /// Tells every node that a sale may sell again, or otherwise than before.
    pub(crate) async fn tell_reopened(&self, voucher: VoucherId) {
        self.see_reopened(voucher);
        if let Err(e) = self
            .inner
            .infra
            .redis
            .publish("sales", &voucher.to_string())
            .await
        {
            tracing::debug!(error = %e, "other nodes ask again by themselves in half a second");
        }
    }

    /// Lets everybody see a sale's row as it is now; called once a change is committed.
    pub(super) async fn drop_card(&self, voucher: VoucherId) {
        let row = self.inner.store.sale(voucher).await;
        let version = row.ok().flatten().map_or(0, |sale| sale.version);
        let cache = &self.inner.infra.cache;
        cache.invalidate(SaleByVoucher, &voucher, version).await;
        self.inner.vouchers.drop_first_pages().await;
    }

    /// Drops what this node remembers of a sale.
    pub(crate) fn see_reopened(&self, voucher: VoucherId) {
        self.inner.gate.reopen(voucher);
        self.inner.live.stocks.forget(voucher);
    }

    pub(crate) async fn require_sale(&self, voucher: VoucherId) -> Result<Sale, Error> {
        self.inner
            .store
            .sale(voucher)
            .await?
            .ok_or(Error::NoSuchSale(voucher))
    }

    pub(super) async fn owned_sale(
        &self,
        session: &Session,
        voucher: VoucherId,
    ) -> Result<Sale, Error> {
        self.inner.vouchers.require_owner(session, voucher).await?;
        self.require_sale(voucher).await
    }

    async fn change(
        &self,
        session: &Session,
        voucher: VoucherId,
        values: Vec<(sale::Column, SimpleExpr)>,
    ) -> Result<Sale, Error> {
        let before = self.owned_sale(session, voucher).await?;
        let now = self.inner.infra.clock.now_ms();
        let mut update = sale::Entity::update_many()
            .filter(sale::Column::VoucherId.eq(voucher.0))
            .filter(sale::Column::Stage.eq(SaleStage::Opened))
            .filter(sale::Column::EndMs.gt(now))
            .col_expr(sale::Column::UpdatedAt, Expr::value(now))
            .col_expr(
                sale::Column::Version,
                Expr::col(sale::Column::Version).add(1),
            );
        for (column, value) in values {
            update = update.col_expr(column, value);
        }
        let orders = self.clone();
        let write = async move {
            let changed = update.exec(orders.inner.infra.db.conn()).await?;
            Ok::<_, Error>((orders.require_sale(voucher).await?.version, changed))
        };
        let cache = &self.inner.infra.cache;
        let changed = cache
            .write_then_invalidate(SaleByVoucher, voucher, write)
            .await?;
        self.inner.vouchers.drop_first_pages().await;
        if changed.rows_affected == 0 {
            return Err(self.wrong_state(&before));
        }
        let after = self.require_sale(voucher).await?;
        if let Err(e) = self.amend(voucher).await {
            tracing::warn!(error = %e, voucher.id = voucher.0, "a change of the sale reaches redis later");
        }
        self.tell_reopened(voucher).await;
        Ok(after)
    }

    pub(super) fn wrong_state(&self, sale: &Sale) -> Error {
        let state = match state(sale, self.inner.infra.clock.now_ms()) {
            SaleState::Draft => "a draft",
            SaleState::Announced => "announced",
            SaleState::Running => "running",
            SaleState::Paused => "paused",
            SaleState::Ended => "over",
            SaleState::Settled => "settled",
        };
        Error::WrongState {
            voucher: VoucherId(sale.voucher_id),
            state,
        }
    }
}
