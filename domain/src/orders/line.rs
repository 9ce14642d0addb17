//! The sale path's way to Redis: scripts by their hash only, so that a Redis that lost its scripts, and with them
//! perhaps orders, is noticed. What a missing fence means is in `recovery`.

use deadpool_redis::redis::aio::MultiplexedConnection;
use deadpool_redis::redis::{Value, cmd};

use super::keys::SaleKeys;
use super::scripts::{self, Buyer, Forgotten, Inspection, Released, Reserved, ScriptError};
use super::{Error, OrderId, OrderKey, Orders};
use crate::infra::lua::Scripts;
use crate::users::UserId;
use crate::vouchers::VoucherId;

/// Outbox entries read in one step of a scan.
const SCAN_COUNT: usize = 500;

impl Orders {
    /// Takes units for a batch of buyers, in one script call.
    pub(crate) async fn reserve_once(
        &self,
        voucher: VoucherId,
        buyers: &[Buyer],
    ) -> Result<Vec<Reserved>, ScriptError> {
        let keys = self.keys(voucher);
        self.on_line(|mut conn| {
            let keys = &keys;
            async move { scripts::reserve(&mut conn, self.scripts(), keys, voucher, buyers).await }
        })
        .await
    }

    /// Gives one unit back; `reject`: the order was never placed, so that its attempt does not count.
    pub(crate) async fn release(
        &self,
        voucher: VoucherId,
        order: (OrderId, UserId),
        reject: bool,
    ) -> Result<Released, ScriptError> {
        let keys = self.keys(voucher);
        self.on_line(|mut conn| {
            let keys = &keys;
            async move { scripts::release(&mut conn, self.scripts(), keys, order, reject).await }
        })
        .await
    }

    /// Drops outbox entries whose rows or rejects are committed.
    pub(crate) async fn settle(
        &self,
        voucher: VoucherId,
        orders: &[OrderId],
    ) -> Result<(), ScriptError> {
        let keys = self.keys(voucher);
        self.on_line(|mut conn| {
            let keys = &keys;
            async move {
                scripts::settle(&mut conn, self.scripts(), keys, orders)
                    .await
                    .map(|_| ())
            }
        })
        .await
    }

    /// Asks where an order is, and bars its id when it is nowhere.
    pub(crate) async fn forget(
        &self,
        voucher: VoucherId,
        order: OrderId,
    ) -> Result<Forgotten, ScriptError> {
        let keys = self.keys(voucher);
        self.on_line(|mut conn| {
            let keys = &keys;
            async move { scripts::forget(&mut conn, self.scripts(), keys, order).await }
        })
        .await
    }

    /// Whether Redis has the fence, so that the sale path is open; `false` when it cannot be asked.
    pub async fn is_fenced(&self) -> bool {
        let Ok(mut line) = self.inner.infra.redis.line().await else {
            return false;
        };
        let fenced = has_fence(&mut line.conn, self.scripts()).await;
        if let Err(ScriptError::Redis(e)) = &fenced {
            self.inner.infra.redis.failed(&line, e);
        }
        fenced.unwrap_or(false)
    }

    /// Reads a sale's keys in one step; works without any loaded script.
    pub(crate) async fn inspect(&self, voucher: VoucherId) -> Result<Inspection, ScriptError> {
        let mut line = self.inner.infra.redis.line().await?;
        let result = scripts::inspect(&mut line.conn, self.scripts(), &self.keys(voucher)).await;
        if let Err(ScriptError::Redis(e)) = &result {
            self.inner.infra.redis.failed(&line, e);
        }
        result
    }

    /// The time by which Redis opens and shuts the windows of sales, in epoch milliseconds.
    pub(crate) async fn redis_ms(&self) -> Result<i64, Error> {
        let (seconds, micros): (i64, i64) = self.inner.infra.redis.query(&cmd("TIME")).await?;
        Ok(seconds * 1_000 + micros / 1_000)
    }

    /// The outbox entry of an order, `None` when it has none.
    pub(crate) async fn outbox_entry(&self, key: OrderKey) -> Result<Option<Vec<u8>>, Error> {
        let outbox = self.keys(key.voucher).outbox();
        Ok(self
            .inner
            .infra
            .redis
            .query(cmd("HGET").arg(outbox).arg(key.order.0))
            .await?)
    }

    /// All outbox entries of a sale, without the sentinel, on a connection of the caller's choice.
    pub(crate) async fn scan_outbox(
        &self,
        conn: &mut MultiplexedConnection,
        voucher: VoucherId,
    ) -> Result<Vec<(String, Vec<u8>)>, Error> {
        let outbox = self.keys(voucher).outbox();
        let (mut entries, mut cursor) = (Vec::new(), 0_u64);
        // A key of another kind holds nothing that could be saved; recovery puts an outbox in its place.
        let kind: String = cmd("TYPE").arg(&outbox).query_async(conn).await?;
        if kind != "hash" {
            return Ok(entries);
        }
        loop {
            let (next, page): (u64, Vec<(String, Vec<u8>)>) = cmd("HSCAN")
                .arg(&outbox)
                .arg(cursor)
                .arg("COUNT")
                .arg(SCAN_COUNT)
                .query_async(conn)
                .await?;
            entries.extend(
                page.into_iter()
                    .filter(|(order, _)| order != scripts::SENTINEL),
            );
            cursor = next;
            if cursor == 0 {
                return Ok(entries);
            }
        }
    }

    pub(crate) fn keys(&self, voucher: VoucherId) -> SaleKeys {
        SaleKeys::new(self.inner.infra.redis.deployment(), voucher)
    }

    pub(crate) fn scripts(&self) -> &Scripts {
        self.inner.infra.redis.scripts()
    }

    /// Calls a script on the shared connection. When Redis does not know it but still has the fence, this is a new
    /// binary with new texts: they are loaded on the same TCP connection, for a restart in between breaks it.
    pub(crate) async fn on_line<T, F, R>(&self, call: F) -> Result<T, ScriptError>
    where
        F: Fn(MultiplexedConnection) -> R,
        R: Future<Output = Result<T, ScriptError>>,
    {
        let line = self.inner.infra.redis.line().await?;
        let mut result = call(line.conn.clone()).await;
        if matches!(result, Err(ScriptError::NoScript)) {
            result = self.load_and_call(line.conn.clone(), call).await;
        }
        if let Err(ScriptError::Redis(e)) = &result {
            self.inner.infra.redis.failed(&line, e);
        }
        result
    }

    /// Loads the scripts and calls again, if the fence is there.
    async fn load_and_call<T, F, R>(
        &self,
        mut conn: MultiplexedConnection,
        call: F,
    ) -> Result<T, ScriptError>
    where
        F: Fn(MultiplexedConnection) -> R,
        R: Future<Output = Result<T, ScriptError>>,
    {
        if !has_fence(&mut conn, self.scripts()).await? {
            self.inner.recovery_wanted.notify_one();
            return Err(ScriptError::NoScript);
        }
        load_all(&mut conn, self.scripts()).await?;
        call(conn).await
    }
}

/// Whether the Redis at the other end of this connection still has the fence.
pub(crate) async fn has_fence(
    conn: &mut MultiplexedConnection,
    scripts: &Scripts,
) -> Result<bool, ScriptError> {
    let (there,): (bool,) = cmd("SCRIPT")
        .arg("EXISTS")
        .arg(&scripts.fence.sha)
        .query_async(conn)
        .await?;
    Ok(there)
}

/// Loads the sale path's scripts, all but the fence.
pub(crate) async fn load_all(
    conn: &mut MultiplexedConnection,
    scripts: &Scripts,
) -> Result<(), ScriptError> {
    for script in [
        &scripts.reserve,
        &scripts.release,
        &scripts.settle,
        &scripts.forget,
        &scripts.amend,
        &scripts.adjust,
    ] {
        cmd("SCRIPT")
            .arg("LOAD")
            .arg(&script.text)
            .query_async::<Value>(conn)
            .await?;
    }
    Ok(())
}

/// Loads the fence: the last act of a recovery, on the connection that saw it missing.
pub(crate) async fn load_fence(
    conn: &mut MultiplexedConnection,
    scripts: &Scripts,
) -> Result<(), ScriptError> {
    cmd("SCRIPT")
        .arg("LOAD")
        .arg(&scripts.fence.text)
        .query_async::<Value>(conn)
        .await?;
    Ok(())
}
