//! Money that a provider says has arrived. The table `payments`.

use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;
use serde::{Deserialize, Serialize};

/// What becomes of a payment.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize,
)]
#[sea_orm(rs_type = "String", db_type = "String(StringLen::N(16))")]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum PaymentOutcome {
    /// Its order is paid by it.
    #[sea_orm(string_value = "PAID")]
    Paid,
    /// It fits no order yet.
    #[sea_orm(string_value = "ORPHAN")]
    Orphan,
    /// It goes back.
    #[sea_orm(string_value = "REFUND")]
    Refund,
}

/// Money that a provider says has arrived.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "payments")]
pub struct Model {
    /// The payment.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: i64,
    /// Who took it.
    pub provider: String,
    /// The provider's id, unique with `provider`.
    pub transaction_id: String,
    /// The order it is for; 0 when the provider named none of ours.
    pub order_id: i64,
    /// How much, in the minor unit.
    pub amount_minor: i64,
    /// The currency as the provider wrote it.
    pub currency: String,
    /// What became of it.
    pub outcome: PaymentOutcome,
    /// When it was recorded, in epoch milliseconds.
    pub received_at: i64,
    /// When its outcome was decided.
    pub decided_at: Option<i64>,
}

/// It is joined by hand where needed.
#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl Entity {
    /// Money that fits no order yet, the longest kept first.
    pub fn find_orphans() -> Select<Entity> {
        Entity::find()
            .filter(Column::Outcome.eq(PaymentOutcome::Orphan))
            .order_by_asc(Column::ReceivedAt)
    }
}
