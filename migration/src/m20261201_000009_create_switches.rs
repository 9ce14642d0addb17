//! Feature switches.

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
        switches(manager).await?;
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop_table(manager, Switches::Table).await?;
        Ok(())
    }
}

async fn switches(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut table = new_table(manager, Switches::Table);
    table
        .col(
            ColumnDef::new(Switches::Name)
                .string_len(64)
                .not_null()
                .primary_key(),
        )
        .col(ColumnDef::new(Switches::IsOn).boolean().not_null())
        .col(ColumnDef::new(Switches::UpdatedBy).big_integer().not_null())
        .col(ColumnDef::new(Switches::UpdatedAt).big_integer().not_null())
        .col(ColumnDef::new(Switches::Version).big_integer().not_null());
    manager.create_table(table).await?;
    Ok(())
}

#[derive(DeriveIden)]
enum Switches {
    Table,
    Name,
    IsOn,
    UpdatedBy,
    UpdatedAt,
    Version,
}
