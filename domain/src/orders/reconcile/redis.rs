//! I5: Redis and the database hold the same units. One script call a sale, then the ids themselves by cursors,
//! never a whole hash at once.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use deadpool_redis::redis::cmd;
use entity::giveback::{self, GivebackStatus};
use entity::order;
use sea_orm::{ColumnTrait, DbErr, EntityTrait, QueryFilter, QueryOrder, QuerySelect};

use super::Check;
use crate::infra::db::Db;
use crate::orders::keys::SaleKeys;
use crate::orders::scripts::Inspection;
use crate::orders::store::Found;
use crate::orders::{Error, OrderId, Orders};
use crate::vouchers::{Sale, VoucherId};

/// How long a difference has to vanish before it counts: a sale that moves is never seen whole in one moment.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(300);
/// Ids read from the database at a time.
const PAGE: u64 = 10_000;
/// Fields read in one step of a scan, or asked for in one command.
const CHUNK: usize = 500;
/// Orders that are named where the ids differ.
const NAMED: usize = 5;

/// What was seen of one sale.
enum Seen {
    /// The stores agree; so many orders are on their way to the database.
    Agreed { queued: i64 },
    /// They do not.
    Differs(String),
}

impl Orders {
    /// A sale's books in Redis as of one moment, for whoever samples I5.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn books(&self, voucher: VoucherId) -> Result<Inspection, Error> {
        Ok(self.inspect(voucher).await?)
    }

    /// I5: stock + orders = total and buyers = orders in Redis; and its orders are the live rows.
    pub(super) async fn check_redis(&self) -> Result<Check, Error> {
        let store = std::sync::Arc::clone(&self.inner.store);
        let sales = self
            .inner
            .infra
            .db
            .run(async move { store.open_sales().await })
            .await?;
        let (mut findings, mut on_the_way) = (Vec::new(), 0);
        for sale in &sales {
            match self.look_until_agreed(VoucherId(sale.voucher_id)).await? {
                Seen::Agreed { queued } => on_the_way += queued,
                Seen::Differs(problem) => {
                    findings.push(format!("voucher {}: {problem}", sale.voucher_id))
                }
            }
        }
        let mut what = format!(
            "redis holds the units of the live orders ({} open sales)",
            sales.len()
        );
        if on_the_way > 0 {
            what.push_str(&format!(", {on_the_way} orders are on their way"));
        }
        Ok(Check::of("I5", what, &findings))
    }

    async fn look_until_agreed(&self, voucher: VoucherId) -> Result<Seen, Error> {
        let began = Instant::now();
        loop {
            // The sale's row is read each time: a recovery or an adjustment changes it meanwhile.
            let Some(sale) = self.inner.store.sale(voucher).await? else {
                return Ok(Seen::Agreed { queued: 0 });
            };
            let seen = match self.look_at(&sale).await {
                Err(Error::Database(e)) => return Err(e.into()),
                Err(e) => Seen::Differs(e.to_string()),
                Ok(seen) => seen,
            };
            if matches!(seen, Seen::Agreed { .. }) || began.elapsed() > PATIENCE {
                return Ok(seen);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    async fn look_at(&self, sale: &Sale) -> Result<Seen, Error> {
        let voucher = VoucherId(sale.voucher_id);
        let seen = self.inspect(voucher).await?;
        if seen.not_ready() {
            let why = if seen.recovering {
                "it is being recovered"
            } else {
                "redis does not hold it"
            };
            return Ok(Seen::Differs(why.to_owned()));
        }
        if seen.is_damaged() {
            return Ok(Seen::Differs(format!(
                "its books in redis do not add up: stock {:?}, orders {}, buyers {}, total {:?}, epochs {:?}, {:?}, {:?}",
                seen.stock,
                seen.orders,
                seen.buyers,
                seen.total,
                seen.epoch,
                seen.outbox_epoch,
                seen.attempts_epoch
            )));
        }
        if seen.epoch != Some(sale.epoch) {
            return Ok(Seen::Differs(format!(
                "redis is in epoch {:?}, the database in {}",
                seen.epoch, sale.epoch
            )));
        }
        if sale.adjust_target.is_none() && seen.total != Some(sale.total) {
            return Ok(Seen::Differs(format!(
                "the total is {:?} in redis and {} in the database",
                seen.total, sale.total
            )));
        }
        if seen.queued() > 0 {
            // The rows of these come; the ids can only be compared when all are written.
            return Ok(Seen::Agreed {
                queued: seen.queued(),
            });
        }
        self.compare_ids(voucher).await
    }

    async fn compare_ids(&self, voucher: VoucherId) -> Result<Seen, Error> {
        let keys = self.keys(voucher);
        let in_redis = self.scan_orders(&keys).await?;
        let db = self.inner.infra.db.clone();
        let live = self
            .inner
            .infra
            .db
            .run(async move { live_orders(&db, voucher).await })
            .await?;
        let only_redis = self
            .without_row(&keys, in_redis.difference(&live).copied().collect())
            .await?;
        let only_database = self
            .without_unit(&keys, live.difference(&in_redis).copied().collect())
            .await?;
        let mut problems = Vec::new();
        if !only_redis.is_empty() {
            problems.push(format!(
                "redis holds units of no live order: {}",
                named(&only_redis)
            ));
        }
        if !only_database.is_empty() {
            problems.push(format!(
                "live orders hold no unit in redis: {}",
                named(&only_database)
            ));
        }
        Ok(if problems.is_empty() {
            Seen::Agreed { queued: 0 }
        } else {
            Seen::Differs(problems.join(", "))
        })
    }

    async fn scan_orders(&self, keys: &SaleKeys) -> Result<HashSet<i64>, Error> {
        let (mut orders, mut cursor) = (HashSet::new(), 0_u64);
        loop {
            let mut step = cmd("HSCAN");
            step.arg(keys.orders()).arg(cursor).arg("COUNT").arg(CHUNK);
            let (next, page): (u64, Vec<(i64, String)>) =
                self.inner.infra.redis.query(&step).await?;
            orders.extend(page.into_iter().map(|(order, _)| order));
            cursor = next;
            if cursor == 0 {
                return Ok(orders);
            }
        }
    }

    /// Those of the orders that Redis still holds, that are not queued, and whose unit is not about to go back.
    async fn without_row(&self, keys: &SaleKeys, orders: Vec<i64>) -> Result<Vec<i64>, Error> {
        let mut left = Vec::new();
        for chunk in orders.chunks(CHUNK) {
            let held = self.fields_present(keys.orders(), chunk).await?;
            let queued = self.fields_present(keys.outbox(), chunk).await?;
            let ids: Vec<OrderId> = chunk.iter().copied().map(OrderId).collect();
            let found = self.inner.store.find(&ids).await?;
            let (db, going_back) = (self.inner.infra.db.clone(), chunk.to_vec());
            let going_back = self
                .inner
                .infra
                .db
                .run(async move { pending_givebacks(&db, going_back).await })
                .await?;
            left.extend(chunk.iter().filter(|order| {
                let is_live = matches!(found.get(&OrderId(**order)), Some(Found::Row(row)) if row.active.is_some());
                held.contains(*order) && !queued.contains(*order) && !is_live && !going_back.contains(*order)
            }));
        }
        Ok(left)
    }

    /// Those of the orders that are still live in the database, and hold no unit in Redis.
    async fn without_unit(&self, keys: &SaleKeys, orders: Vec<i64>) -> Result<Vec<i64>, Error> {
        let mut left = Vec::new();
        for chunk in orders.chunks(CHUNK) {
            let ids: Vec<OrderId> = chunk.iter().copied().map(OrderId).collect();
            let found = self.inner.store.find(&ids).await?;
            let held = self.fields_present(keys.orders(), chunk).await?;
            left.extend(chunk.iter().filter(|order| {
                let is_live = matches!(found.get(&OrderId(**order)), Some(Found::Row(row)) if row.active.is_some());
                is_live && !held.contains(*order)
            }));
        }
        Ok(left)
    }

    async fn fields_present(&self, key: String, orders: &[i64]) -> Result<HashSet<i64>, Error> {
        let values: Vec<Option<String>> = self
            .inner
            .infra
            .redis
            .query(cmd("HMGET").arg(key).arg(orders))
            .await?;
        Ok(orders
            .iter()
            .zip(values)
            .filter(|(_, value)| value.is_some())
            .map(|(order, _)| *order)
            .collect())
    }
}

async fn live_orders(db: &Db, voucher: VoucherId) -> Result<HashSet<i64>, DbErr> {
    let (mut orders, mut after) = (HashSet::new(), i64::MIN);
    loop {
        let page: Vec<i64> = order::Entity::find()
            .select_only()
            .column(order::Column::Id)
            .filter(order::Column::VoucherId.eq(voucher.0))
            .filter(order::Column::Active.eq(1_i16))
            .filter(order::Column::Id.gt(after))
            .order_by_asc(order::Column::Id)
            .limit(PAGE)
            .into_tuple()
            .all(db.conn())
            .await?;
        let Some(last) = page.last() else {
            return Ok(orders);
        };
        after = *last;
        orders.extend(page);
    }
}

async fn pending_givebacks(db: &Db, orders: Vec<i64>) -> Result<HashSet<i64>, DbErr> {
    let pending: Vec<i64> = giveback::Entity::find()
        .select_only()
        .column(giveback::Column::OrderId)
        .filter(giveback::Column::OrderId.is_in(orders))
        .filter(giveback::Column::Status.eq(GivebackStatus::Pending))
        .into_tuple()
        .all(db.conn())
        .await?;
    Ok(pending.into_iter().collect())
}

fn named(orders: &[i64]) -> String {
    let mut text = orders
        .iter()
        .take(NAMED)
        .map(i64::to_string)
        .collect::<Vec<_>>()
        .join(", ");
    if orders.len() > NAMED {
        text.push_str(&format!(", … ({} in all)", orders.len()));
    }
    text
}
