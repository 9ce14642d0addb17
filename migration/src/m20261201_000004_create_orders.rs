//! Orders, those that could not be placed, and units to give back.

use sea_orm_migration::prelude::{
    ColumnDef, DbErr, DeriveIden, DeriveMigrationName, MigrationTrait, SchemaManager, async_trait,
};
use sea_orm_migration::sea_orm;

use crate::tables::{create_index, create_unique, drop_table, new_table};

/// The step.
#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        orders(manager).await?;
        order_rejects(manager).await?;
        givebacks(manager).await?;
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop_table(manager, Givebacks::Table).await?;
        drop_table(manager, OrderRejects::Table).await?;
        drop_table(manager, Orders::Table).await?;
        Ok(())
    }
}

async fn orders(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut table = new_table(manager, Orders::Table);
    table
        .col(
            ColumnDef::new(Orders::Id)
                .big_integer()
                .not_null()
                .primary_key(),
        )
        .col(ColumnDef::new(Orders::VoucherId).big_integer().not_null())
        .col(ColumnDef::new(Orders::ShopId).big_integer().not_null())
        .col(ColumnDef::new(Orders::UserId).big_integer().not_null())
        .col(ColumnDef::new(Orders::Slot).integer().not_null())
        .col(ColumnDef::new(Orders::Active).small_integer())
        .col(ColumnDef::new(Orders::Status).string_len(16).not_null())
        .col(ColumnDef::new(Orders::PriceMinor).big_integer().not_null())
        .col(ColumnDef::new(Orders::Currency).string_len(3).not_null())
        .col(ColumnDef::new(Orders::RequestId).string_len(64).not_null())
        .col(ColumnDef::new(Orders::ReservedAt).big_integer().not_null())
        .col(ColumnDef::new(Orders::Epoch).big_integer().not_null())
        .col(ColumnDef::new(Orders::CreatedAt).big_integer().not_null())
        .col(ColumnDef::new(Orders::PayBy).big_integer().not_null())
        .col(ColumnDef::new(Orders::PaidAt).big_integer())
        .col(ColumnDef::new(Orders::ClosedAt).big_integer())
        .col(ColumnDef::new(Orders::CloseReason).string_len(16))
        .col(ColumnDef::new(Orders::UsedAt).big_integer())
        .col(ColumnDef::new(Orders::Version).big_integer().not_null());
    manager.create_table(table).await?;
    create_unique(
        manager,
        "uq_orders_unit",
        Orders::Table,
        [
            Orders::VoucherId,
            Orders::UserId,
            Orders::Slot,
            Orders::Active,
        ],
    )
    .await?;
    create_index(
        manager,
        "ix_orders_due",
        Orders::Table,
        [Orders::Status, Orders::PayBy, Orders::Id],
    )
    .await?;
    create_index(
        manager,
        "ix_orders_user",
        Orders::Table,
        [Orders::UserId, Orders::Id],
    )
    .await?;
    create_index(
        manager,
        "ix_orders_voucher",
        Orders::Table,
        [Orders::VoucherId, Orders::Active],
    )
    .await?;
    Ok(())
}

#[derive(DeriveIden)]
enum Orders {
    Table,
    Id,
    VoucherId,
    ShopId,
    UserId,
    Slot,
    Active,
    Status,
    PriceMinor,
    Currency,
    RequestId,
    ReservedAt,
    Epoch,
    CreatedAt,
    PayBy,
    PaidAt,
    ClosedAt,
    CloseReason,
    UsedAt,
    Version,
}

async fn order_rejects(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut table = new_table(manager, OrderRejects::Table);
    table
        .col(
            ColumnDef::new(OrderRejects::OrderId)
                .big_integer()
                .not_null()
                .primary_key(),
        )
        .col(
            ColumnDef::new(OrderRejects::VoucherId)
                .big_integer()
                .not_null(),
        )
        .col(
            ColumnDef::new(OrderRejects::UserId)
                .big_integer()
                .not_null(),
        )
        .col(ColumnDef::new(OrderRejects::Slot).integer().not_null())
        .col(
            ColumnDef::new(OrderRejects::Reason)
                .string_len(16)
                .not_null(),
        )
        .col(
            ColumnDef::new(OrderRejects::PriceMinor)
                .big_integer()
                .not_null(),
        )
        .col(
            ColumnDef::new(OrderRejects::Currency)
                .string_len(3)
                .not_null(),
        )
        .col(
            ColumnDef::new(OrderRejects::RequestId)
                .string_len(64)
                .not_null(),
        )
        .col(
            ColumnDef::new(OrderRejects::ReservedAt)
                .big_integer()
                .not_null(),
        )
        .col(
            ColumnDef::new(OrderRejects::CreatedAt)
                .big_integer()
                .not_null(),
        );
    manager.create_table(table).await?;
    create_index(
        manager,
        "ix_order_rejects_user",
        OrderRejects::Table,
        [OrderRejects::UserId, OrderRejects::OrderId],
    )
    .await?;
    create_index(
        manager,
        "ix_order_rejects_voucher",
        OrderRejects::Table,
        [OrderRejects::VoucherId],
    )
    .await?;
    Ok(())
}

#[derive(DeriveIden)]
enum OrderRejects {
    Table,
    OrderId,
    VoucherId,
    UserId,
    Slot,
    Reason,
    PriceMinor,
    Currency,
    RequestId,
    ReservedAt,
    CreatedAt,
}

async fn givebacks(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut table = new_table(manager, Givebacks::Table);
    table
        .col(
            ColumnDef::new(Givebacks::OrderId)
                .big_integer()
                .not_null()
                .primary_key(),
        )
        .col(
            ColumnDef::new(Givebacks::VoucherId)
                .big_integer()
                .not_null(),
        )
        .col(ColumnDef::new(Givebacks::UserId).big_integer().not_null())
        .col(ColumnDef::new(Givebacks::Slot).integer().not_null())
        .col(ColumnDef::new(Givebacks::Kind).string_len(8).not_null())
        .col(ColumnDef::new(Givebacks::Status).string_len(8).not_null())
        .col(ColumnDef::new(Givebacks::Round).integer().not_null())
        .col(ColumnDef::new(Givebacks::Attempts).integer().not_null())
        .col(ColumnDef::new(Givebacks::NextAt).big_integer().not_null())
        .col(
            ColumnDef::new(Givebacks::CreatedAt)
                .big_integer()
                .not_null(),
        )
        .col(ColumnDef::new(Givebacks::DoneAt).big_integer());
    manager.create_table(table).await?;
    create_index(
        manager,
        "ix_givebacks_due",
        Givebacks::Table,
        [Givebacks::Status, Givebacks::NextAt],
    )
    .await?;
    create_index(
        manager,
        "ix_givebacks_voucher",
        Givebacks::Table,
        [Givebacks::VoucherId, Givebacks::Status],
    )
    .await?;
    Ok(())
}

#[derive(DeriveIden)]
enum Givebacks {
    Table,
    OrderId,
    VoucherId,
    UserId,
    Slot,
    Kind,
    Status,
    Round,
    Attempts,
    NextAt,
    CreatedAt,
    DoneAt,
}
