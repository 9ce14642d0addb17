//! Who does what: worker ids, leases, the writer's progress.

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
        worker_ids(manager).await?;
        leases(manager).await?;
        writer_progress(manager).await?;
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop_table(manager, WriterProgress::Table).await?;
        drop_table(manager, Leases::Table).await?;
        drop_table(manager, WorkerIds::Table).await?;
        Ok(())
    }
}

async fn worker_ids(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut table = new_table(manager, WorkerIds::Table);
    table
        .col(
            ColumnDef::new(WorkerIds::WorkerId)
                .integer()
                .not_null()
                .primary_key(),
        )
        .col(ColumnDef::new(WorkerIds::Owner).string_len(64).not_null())
        .col(
            ColumnDef::new(WorkerIds::LeasedUntil)
                .big_integer()
                .not_null(),
        );
    manager.create_table(table).await?;
    Ok(())
}

#[derive(DeriveIden)]
enum WorkerIds {
    Table,
    WorkerId,
    Owner,
    LeasedUntil,
}

async fn leases(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut table = new_table(manager, Leases::Table);
    table
        .col(
            ColumnDef::new(Leases::Name)
                .string_len(128)
                .not_null()
                .primary_key(),
        )
        .col(ColumnDef::new(Leases::Owner).string_len(64).not_null())
        .col(ColumnDef::new(Leases::ExpiresAt).big_integer().not_null());
    manager.create_table(table).await?;
    Ok(())
}

#[derive(DeriveIden)]
enum Leases {
    Table,
    Name,
    Owner,
    ExpiresAt,
}

async fn writer_progress(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut table = new_table(manager, WriterProgress::Table);
    table
        .col(
            ColumnDef::new(WriterProgress::PartitionId)
                .integer()
                .not_null()
                .primary_key(),
        )
        .col(
            ColumnDef::new(WriterProgress::CommittedAt)
                .big_integer()
                .not_null(),
        );
    manager.create_table(table).await?;
    Ok(())
}

#[derive(DeriveIden)]
enum WriterProgress {
    Table,
    PartitionId,
    CommittedAt,
}
