//! Whether a product is at rest, read from the stores themselves, not from what the product says of itself.

use std::collections::BTreeSet;

use deadpool_redis::redis::cmd;
use domain::Services;
use domain::infra::redis::Redis;
use entity::giveback::GivebackStatus;
use entity::refund::RefundStatus;
use entity::sale::SaleStage;
use entity::{giveback, order, refund, sale};
use sea_orm::{ColumnTrait, DatabaseConnection, DbErr, EntityTrait, PaginatorTrait, QueryFilter};

/// What the product's own check says is broken.
pub(crate) async fn failed_checks(services: &Services) -> Vec<String> {
    let checks = match services.orders.verify().await {
        Ok(checks) => checks,
        Err(e) => return vec![format!("the check itself failed: {e}")],
    };
    checks
        .iter()
        .filter(|check| check.is_failed())
        .map(ToString::to_string)
        .collect()
}

/// What keeps the product from rest; empty when it rests.
pub(crate) async fn unrest(services: &Services) -> Vec<String> {
    let (db, redis) = (services.infra().db.conn(), &services.infra().redis);
    match pending_work(db).await {
        Ok(pending) if pending.is_empty() => {}
        Ok(pending) => return pending,
        Err(e) => return vec![format!("the database: {e}")],
    }
    let sales = match sale::Entity::find()
        .filter(sale::Column::Stage.eq(SaleStage::Opened))
        .all(db)
        .await
    {
        Ok(sales) => sales,
        Err(e) => return vec![format!("the database: {e}")],
    };
    let mut unrest = Vec::new();
    for sale in sales {
        match differences(db, redis, &sale).await {
            Ok(differences) => unrest.extend(differences),
            Err(e) => unrest.push(format!("sale {}: {e}", sale.voucher_id)),
        }
    }
    unrest
}

async fn pending_work(db: &DatabaseConnection) -> Result<Vec<String>, DbErr> {
    let givebacks = giveback::Entity::find()
        .filter(giveback::Column::Status.eq(GivebackStatus::Pending))
        .count(db)
        .await?;
    let refunds = refund::Entity::find()
        .filter(refund::Column::Status.eq(RefundStatus::Pending))
        .count(db)
        .await?;
    let counts = [
        (givebacks, "givebacks are pending"),
        (refunds, "refunds are pending"),
    ];
    Ok(counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect())
}

/// Where the gate in Redis and the rows in the database say different things about one sale.
async fn differences(
    db: &DatabaseConnection,
    redis: &Redis,
    sale: &sale::Model,
) -> anyhow::Result<Vec<String>> {
    let key = |part: &str| redis.key(format!("{{v:{}}}:{part}", sale.voucher_id));
    let stock: Option<i64> = redis.query(cmd("GET").arg(key("stock"))).await?;
    let gate: BTreeSet<String> = redis.query(cmd("HKEYS").arg(key("orders"))).await?;
    let buyers: usize = redis.query(cmd("HLEN").arg(key("buyers"))).await?;
    let outbox: BTreeSet<String> = redis.query(cmd("HKEYS").arg(key("outbox"))).await?;
    let live = order::Entity::find()
        .filter(order::Column::VoucherId.eq(sale.voucher_id))
        .filter(order::Column::Active.eq(1));
    let rows = live
        .all(db)
        .await?
        .into_iter()
        .map(|order| order.id.to_string())
        .collect::<BTreeSet<_>>();
    let counted = i64::try_from(rows.len())?;

    let facts = [
        (
            stock == Some(sale.total - counted),
            format!("stock {stock:?} of {} with {counted} rows", sale.total),
        ),
        (
            gate == rows,
            format!(
                "{} orders at the gate, {} live rows",
                gate.len(),
                rows.len()
            ),
        ),
        (
            buyers == rows.len(),
            format!("{buyers} buyers at the gate, {} live rows", rows.len()),
        ),
        (
            sale.sold == counted,
            format!("sold {} with {counted} rows", sale.sold),
        ),
        (
            outbox.len() == 1,
            format!(
                "{} entries in the outbox beside its sentinel",
                outbox.len().saturating_sub(1)
            ),
        ),
    ];
    let wrong = facts.into_iter().filter(|(holds, _)| !holds);
    Ok(wrong
        .map(|(_, what)| format!("sale {}: {what}", sale.voucher_id))
        .collect())
}
