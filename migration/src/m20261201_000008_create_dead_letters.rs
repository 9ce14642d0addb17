//! Queued orders that nobody can use.

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
        dead_letters(manager).await?;
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop_table(manager, DeadLetters::Table).await?;
        Ok(())
    }
}

async fn dead_letters(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut table = new_table(manager, DeadLetters::Table);
    table
        .col(
            ColumnDef::new(DeadLetters::Id)
                .big_integer()
                .not_null()
                .auto_increment()
                .primary_key(),
        )
        .col(
            ColumnDef::new(DeadLetters::Source)
                .string_len(16)
                .not_null(),
        )
        .col(
            ColumnDef::new(DeadLetters::Reference)
                .string_len(255)
                .not_null(),
        )
        .col(
            ColumnDef::new(DeadLetters::Reason)
                .string_len(255)
                .not_null(),
        )
        .col(ColumnDef::new(DeadLetters::Payload).text().not_null())
        .col(
            ColumnDef::new(DeadLetters::CreatedAt)
                .big_integer()
                .not_null(),
        );
    manager.create_table(table).await?;
    Ok(())
}

#[derive(DeriveIden)]
enum DeadLetters {
    Table,
    Id,
    Source,
    Reference,
    Reason,
    Payload,
    CreatedAt,
}
