//! Vouchers and their flash sales.

use sea_orm_migration::prelude::{
    ColumnDef, DbErr, DeriveIden, DeriveMigrationName, Expr, ExprTrait, MigrationTrait,
    SchemaManager, async_trait,
};
use sea_orm_migration::sea_orm;

use crate::tables::{create_index, drop_table, new_table};

/// The step.
#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        vouchers(manager).await?;
        sales(manager).await?;
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop_table(manager, Sales::Table).await?;
        drop_table(manager, Vouchers::Table).await?;
        Ok(())
    }
}

async fn vouchers(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut table = new_table(manager, Vouchers::Table);
    table
        .col(
            ColumnDef::new(Vouchers::Id)
                .big_integer()
                .not_null()
                .primary_key(),
        )
        .col(ColumnDef::new(Vouchers::ShopId).big_integer().not_null())
        .col(ColumnDef::new(Vouchers::Kind).string_len(16).not_null())
        .col(ColumnDef::new(Vouchers::Title).string_len(128).not_null())
        .col(ColumnDef::new(Vouchers::SubTitle).string_len(255))
        .col(ColumnDef::new(Vouchers::Rules).text())
        .col(
            ColumnDef::new(Vouchers::PriceMinor)
                .big_integer()
                .not_null(),
        )
        .col(
            ColumnDef::new(Vouchers::ValueMinor)
                .big_integer()
                .not_null(),
        )
        .col(ColumnDef::new(Vouchers::Currency).string_len(3).not_null())
        .col(ColumnDef::new(Vouchers::Status).string_len(16).not_null())
        .col(ColumnDef::new(Vouchers::CreatedAt).big_integer().not_null())
        .col(ColumnDef::new(Vouchers::UpdatedAt).big_integer().not_null())
        .col(ColumnDef::new(Vouchers::Version).big_integer().not_null());
    manager.create_table(table).await?;
    create_index(
        manager,
        "ix_vouchers_shop",
        Vouchers::Table,
        [Vouchers::ShopId, Vouchers::Id],
    )
    .await?;
    Ok(())
}

#[derive(DeriveIden)]
enum Vouchers {
    Table,
    Id,
    ShopId,
    Kind,
    Title,
    SubTitle,
    Rules,
    PriceMinor,
    ValueMinor,
    Currency,
    Status,
    CreatedAt,
    UpdatedAt,
    Version,
}

async fn sales(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut table = new_table(manager, Sales::Table);
    table
        .col(
            ColumnDef::new(Sales::VoucherId)
                .big_integer()
                .not_null()
                .primary_key(),
        )
        .col(ColumnDef::new(Sales::ShopId).big_integer().not_null())
        .col(ColumnDef::new(Sales::BeginMs).big_integer().not_null())
        .col(ColumnDef::new(Sales::EndMs).big_integer().not_null())
        .col(ColumnDef::new(Sales::Total).big_integer().not_null())
        .col(ColumnDef::new(Sales::Sold).big_integer().not_null())
        .col(ColumnDef::new(Sales::PerUserLimit).integer().not_null())
        .col(ColumnDef::new(Sales::MaxAttempts).integer().not_null())
        .col(ColumnDef::new(Sales::PriceMinor).big_integer().not_null())
        .col(ColumnDef::new(Sales::Currency).string_len(3).not_null())
        .col(ColumnDef::new(Sales::Stage).string_len(16).not_null())
        .col(ColumnDef::new(Sales::Paused).boolean().not_null())
        .col(ColumnDef::new(Sales::Frozen).boolean().not_null())
        .col(ColumnDef::new(Sales::Epoch).big_integer().not_null())
        .col(ColumnDef::new(Sales::Announced).big_integer().not_null())
        .col(
            ColumnDef::new(Sales::AdjustVersion)
                .big_integer()
                .not_null(),
        )
        .col(ColumnDef::new(Sales::AdjustTarget).big_integer())
        .col(ColumnDef::new(Sales::LeaseToken).string_len(64))
        .col(ColumnDef::new(Sales::LeaseUntil).big_integer().not_null())
        .col(ColumnDef::new(Sales::CreatedAt).big_integer().not_null())
        .col(ColumnDef::new(Sales::UpdatedAt).big_integer().not_null())
        .col(ColumnDef::new(Sales::SettledAt).big_integer())
        .col(ColumnDef::new(Sales::Version).big_integer().not_null())
        .check((
            "ck_sales_sold",
            Expr::col(Sales::Sold)
                .gte(0)
                .and(Expr::col(Sales::Sold).lte(Expr::col(Sales::Total))),
        ));
    manager.create_table(table).await?;
    create_index(
        manager,
        "ix_sales_stage",
        Sales::Table,
        [Sales::Stage, Sales::EndMs],
    )
    .await?;
    create_index(
        manager,
        "ix_sales_begin",
        Sales::Table,
        [Sales::BeginMs, Sales::VoucherId],
    )
    .await?;
    create_index(manager, "ix_sales_shop", Sales::Table, [Sales::ShopId]).await?;
    Ok(())
}

#[derive(DeriveIden)]
enum Sales {
    Table,
    VoucherId,
    ShopId,
    BeginMs,
    EndMs,
    Total,
    Sold,
    PerUserLimit,
    MaxAttempts,
    PriceMinor,
    Currency,
    Stage,
    Paused,
    Frozen,
    Epoch,
    Announced,
    AdjustVersion,
    AdjustTarget,
    LeaseToken,
    LeaseUntil,
    CreatedAt,
    UpdatedAt,
    SettledAt,
    Version,
}
