//! Waiting lists of sold-out sales, and reminders of sales to come.

use sea_orm_migration::prelude::{
    ColumnDef, DbErr, DeriveIden, DeriveMigrationName, Iden, Index, MigrationTrait, SchemaManager,
    async_trait,
};
use sea_orm_migration::sea_orm;

use crate::tables::{create_index, create_unique, drop_table, new_table};

/// The step.
#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        waitlists(manager).await?;
        waiters(manager).await?;
        reminders(manager).await?;
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop_table(manager, Reminders::Table).await?;
        drop_table(manager, Waiters::Table).await?;
        drop_table(manager, Waitlists::Table).await?;
        Ok(())
    }
}

fn number(column: impl Iden + 'static) -> ColumnDef {
    ColumnDef::new(column).big_integer().not_null().to_owned()
}

async fn waitlists(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut table = new_table(manager, Waitlists::Table);
    table
        .col(number(Waitlists::VoucherId).primary_key())
        .col(number(Waitlists::LastPlace))
        .col(ColumnDef::new(Waitlists::IsActive).boolean().not_null());
    manager.create_table(table).await
}

#[derive(DeriveIden)]
enum Waitlists {
    Table,
    VoucherId,
    LastPlace,
    IsActive,
}

async fn waiters(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut table = new_table(manager, Waiters::Table);
    table
        .col(number(Waiters::Id).primary_key())
        .col(number(Waiters::VoucherId))
        .col(number(Waiters::UserId))
        .col(number(Waiters::Place))
        .col(ColumnDef::new(Waiters::Status).string_len(8).not_null())
        .col(ColumnDef::new(Waiters::Round).integer().not_null())
        .col(ColumnDef::new(Waiters::OrderId).big_integer())
        .col(number(Waiters::CreatedAt));
    manager.create_table(table).await?;
    create_unique(
        manager,
        "uq_waiters_user",
        Waiters::Table,
        [Waiters::VoucherId, Waiters::UserId],
    )
    .await?;
    create_unique(
        manager,
        "uq_waiters_place",
        Waiters::Table,
        [Waiters::VoucherId, Waiters::Status, Waiters::Place],
    )
    .await
}

#[derive(DeriveIden)]
enum Waiters {
    Table,
    Id,
    VoucherId,
    UserId,
    Place,
    Status,
    Round,
    OrderId,
    CreatedAt,
}

async fn reminders(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut table = new_table(manager, Reminders::Table);
    table
        .col(number(Reminders::VoucherId))
        .col(number(Reminders::UserId))
        .col(number(Reminders::ToldBeginMs))
        .col(number(Reminders::CreatedAt))
        .primary_key(
            Index::create()
                .col(Reminders::VoucherId)
                .col(Reminders::UserId),
        );
    manager.create_table(table).await?;
    create_index(
        manager,
        "ix_reminders_told",
        Reminders::Table,
        [Reminders::VoucherId, Reminders::ToldBeginMs],
    )
    .await
}

#[derive(DeriveIden)]
enum Reminders {
    Table,
    VoucherId,
    UserId,
    ToldBeginMs,
    CreatedAt,
}
