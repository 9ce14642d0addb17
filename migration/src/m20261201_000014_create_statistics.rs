//! Figures of each day.

use sea_orm_migration::prelude::{
    ColumnDef, DbErr, DeriveIden, DeriveMigrationName, MigrationTrait, SchemaManager, async_trait,
};
use sea_orm_migration::sea_orm;

use crate::tables::{drop_table, new_table};

/// The step.
#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        daily_statistics(manager).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop_table(manager, DailyStatistics::Table).await
    }
}

async fn daily_statistics(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut table = new_table(manager, DailyStatistics::Table);
    table.col(
        ColumnDef::new(DailyStatistics::Day)
            .date()
            .not_null()
            .primary_key(),
    );
    for column in [
        DailyStatistics::Dau,
        DailyStatistics::Wau,
        DailyStatistics::Mau,
        DailyStatistics::Uv,
        DailyStatistics::Orders,
        DailyStatistics::PaidOrders,
        DailyStatistics::ComputedAt,
        DailyStatistics::Version,
    ] {
        table.col(ColumnDef::new(column).big_integer().not_null());
    }
    manager.create_table(table).await
}

#[derive(DeriveIden)]
enum DailyStatistics {
    Table,
    Day,
    Dau,
    Wau,
    Mau,
    Uv,
    Orders,
    PaidOrders,
    ComputedAt,
    Version,
}
