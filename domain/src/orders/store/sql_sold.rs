//! What shops have sold. A payment only notes its units, so that payments of one shop do not wait for its row; a worker
//! adds the notes up. Note and sum change in the transactions that they are about, so nothing is counted twice or lost.

use std::collections::BTreeMap;

use entity::{order, sold_change};
use sea_orm::{
    ColumnTrait, Condition, DatabaseTransaction, DbErr, EntityTrait, IntoActiveModel, QueryFilter,
    QueryOrder, QuerySelect,
};

use super::sql::SqlStore;
use crate::shops::ShopId;
use crate::shops::tally::add_sold;

impl SqlStore {
    pub(super) async fn add_up_sold(
        &self,
        most: u64,
    ) -> Result<(usize, Vec<(ShopId, i64)>), DbErr> {
        let clock = self.clock.clone();
        self.db
            .write(move |txn| {
                let now = clock.now_ms();
                Box::pin(async move { add_up(txn, most, now).await })
            })
            .await
    }
}

/// Notes units of an order that was paid, or with `sign` -1 given back.
pub(super) async fn note_sold(
    txn: &DatabaseTransaction,
    row: &order::Model,
    sign: i32,
) -> Result<(), DbErr> {
    let note = sold_change::Model {
        order_id: row.id,
        units: row.quantity * sign,
        shop_id: row.shop_id,
    };
    sold_change::Entity::insert(note.into_active_model())
        .exec_without_returning(txn)
        .await
        .map(|_| ())
}

/// How many notes were added up, and the new versions of the shops they were about.
async fn add_up(
    txn: &DatabaseTransaction,
    most: u64,
    now: i64,
) -> Result<(usize, Vec<(ShopId, i64)>), DbErr> {
    // Another worker that wants the same notes waits for them, and finds them gone.
    let notes = sold_change::Entity::find()
        .order_by_asc(sold_change::Column::OrderId)
        .order_by_asc(sold_change::Column::Units)
        .limit(most)
        .lock_exclusive()
        .all(txn)
        .await?;
    let mut units: BTreeMap<i64, i64> = BTreeMap::new();
    let mut taken = Condition::any();
    for note in &notes {
        *units.entry(note.shop_id).or_default() += i64::from(note.units);
        taken = taken.add(
            Condition::all()
                .add(sold_change::Column::OrderId.eq(note.order_id))
                .add(sold_change::Column::Units.eq(note.units)),
        );
    }
    if notes.is_empty() {
        return Ok((0, Vec::new()));
    }
    let mut shops = Vec::with_capacity(units.len());
    for (shop, units) in units {
        let version = add_sold(txn, ShopId(shop), units, now).await?;
        shops.extend(version.map(|version| (ShopId(shop), version)));
    }
    sold_change::Entity::delete_many()
        .filter(taken)
        .exec(txn)
        .await?;
    Ok((notes.len(), shops))
}
