//! An order that holds, or held, one unit. The table `orders`.

use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;
use serde::{Deserialize, Serialize};

/// Where an order stands.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize,
)]
#[sea_orm(rs_type = "String", db_type = "String(StringLen::N(16))")]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum OrderStatus {
    /// Waits for payment.
    #[sea_orm(string_value = "UNPAID")]
    Unpaid,
    /// Paid.
    #[sea_orm(string_value = "PAID")]
    Paid,
    /// Redeemed.
    #[sea_orm(string_value = "USED")]
    Used,
    /// Not paid in time, or cancelled.
    #[sea_orm(string_value = "CLOSED")]
    Closed,
    /// A refund is on the way.
    #[sea_orm(string_value = "REFUNDING")]
    Refunding,
    /// Paid back.
    #[sea_orm(string_value = "REFUNDED")]
    Refunded,
}

/// Why an order was closed.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize,
)]
#[sea_orm(rs_type = "String", db_type = "String(StringLen::N(16))")]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum CloseReason {
    /// It was not paid in time.
    #[sea_orm(string_value = "DEADLINE")]
    Deadline,
    /// Its buyer cancelled it.
    #[sea_orm(string_value = "BUYER")]
    Buyer,
}

/// An order that holds, or held, one unit.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "orders")]
pub struct Model {
    /// The order.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: i64,
    /// The voucher.
    pub voucher_id: i64,
    /// Its shop.
    pub shop_id: i64,
    /// The buyer.
    pub user_id: i64,
    /// The how-manieth unit of the buyer of this voucher, from 1; with a larger quantity, its first one.
    pub slot: i32,
    /// 1 while it holds its unit, `None` once closed.
    pub active: Option<i16>,
    /// Where it stands.
    pub status: OrderStatus,
    /// Price, in the minor unit.
    pub price_minor: i64,
    /// ISO 4217 code.
    pub currency: String,
    /// The client's id of the request.
    pub request_id: String,
    /// When the unit was taken, in epoch milliseconds.
    pub reserved_at: i64,
    /// The epoch it was taken in.
    pub epoch: i64,
    /// When it was written, in epoch milliseconds.
    pub created_at: i64,
    /// Until when it can be paid, in epoch milliseconds.
    pub pay_by: i64,
    /// When it was paid.
    pub paid_at: Option<i64>,
    /// When it was closed.
    pub closed_at: Option<i64>,
    /// Why it was closed.
    pub close_reason: Option<CloseReason>,
    /// When it was redeemed.
    pub used_at: Option<i64>,
    /// Grows with each change of the row.
    pub version: i64,
    /// Units; they are taken, paid and redeemed together.
    pub quantity: i32,
    /// Finds a paid order by its redeem code; `None` unless it was paid.
    pub redeem_tag: Option<i64>,
}

/// It is joined by hand where needed.
#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl Entity {
    /// Unpaid orders whose deadline has passed, the longest overdue first.
    pub fn find_unpaid_due(now_ms: i64) -> Select<Entity> {
        Entity::find()
            .filter(Column::Status.eq(OrderStatus::Unpaid))
            .filter(Column::PayBy.lte(now_ms))
            .order_by_asc(Column::PayBy)
            .order_by_asc(Column::Id)
    }

    /// Orders that hold a unit of a voucher.
    pub fn find_live(voucher_id: i64) -> Select<Entity> {
        Entity::find()
            .filter(Column::VoucherId.eq(voucher_id))
            .filter(Column::Active.eq(1_i16))
    }
}
