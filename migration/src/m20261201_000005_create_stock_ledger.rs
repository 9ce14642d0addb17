//! The books of a sale.

use sea_orm_migration::prelude::{
    ColumnDef, DbErr, DeriveIden, DeriveMigrationName, MigrationTrait, SchemaManager, async_trait,
};
use sea_orm_migration::sea_orm;

use crate::tables::{create_index, drop_table, new_table};

/// The step.
#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        stock_ledger(manager).await?;
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop_table(manager, StockLedger::Table).await?;
        Ok(())
    }
}

async fn stock_ledger(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut table = new_table(manager, StockLedger::Table);
    table
        .col(
            ColumnDef::new(StockLedger::Id)
                .big_integer()
                .not_null()
                .auto_increment()
                .primary_key(),
        )
        .col(
            ColumnDef::new(StockLedger::VoucherId)
                .big_integer()
                .not_null(),
        )
        .col(ColumnDef::new(StockLedger::OrderId).big_integer())
        .col(
            ColumnDef::new(StockLedger::Reason)
                .string_len(16)
                .not_null(),
        )
        .col(
            ColumnDef::new(StockLedger::SoldDelta)
                .big_integer()
                .not_null(),
        )
        .col(
            ColumnDef::new(StockLedger::TotalDelta)
                .big_integer()
                .not_null(),
        )
        .col(
            ColumnDef::new(StockLedger::SoldBefore)
                .big_integer()
                .not_null(),
        )
        .col(
            ColumnDef::new(StockLedger::SoldAfter)
                .big_integer()
                .not_null(),
        )
        .col(
            ColumnDef::new(StockLedger::TotalBefore)
                .big_integer()
                .not_null(),
        )
        .col(
            ColumnDef::new(StockLedger::TotalAfter)
                .big_integer()
                .not_null(),
        )
        .col(
            ColumnDef::new(StockLedger::CreatedAt)
                .big_integer()
                .not_null(),
        );
    manager.create_table(table).await?;
    create_index(
        manager,
        "ix_stock_ledger_voucher",
        StockLedger::Table,
        [StockLedger::VoucherId, StockLedger::Id],
    )
    .await?;
    Ok(())
}

#[derive(DeriveIden)]
enum StockLedger {
    Table,
    Id,
    VoucherId,
    OrderId,
    Reason,
    SoldDelta,
    TotalDelta,
    SoldBefore,
    SoldAfter,
    TotalBefore,
    TotalAfter,
    CreatedAt,
}
