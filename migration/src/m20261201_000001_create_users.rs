//! Accounts.

use sea_orm_migration::prelude::{
    ColumnDef, DbErr, DeriveIden, DeriveMigrationName, MigrationTrait, SchemaManager, async_trait,
};
use sea_orm_migration::sea_orm;

use crate::tables::{create_unique, drop_table, new_table};

/// The step.
#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        users(manager).await?;
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop_table(manager, Users::Table).await?;
        Ok(())
    }
}

async fn users(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut table = new_table(manager, Users::Table);
    table
        .col(
            ColumnDef::new(Users::Id)
                .big_integer()
                .not_null()
                .primary_key(),
        )
        .col(ColumnDef::new(Users::Phone).string_len(20).not_null())
        .col(ColumnDef::new(Users::Nickname).string_len(64).not_null())
        .col(ColumnDef::new(Users::AvatarUrl).string_len(512))
        .col(ColumnDef::new(Users::City).string_len(64))
        .col(ColumnDef::new(Users::Intro).string_len(512))
        .col(ColumnDef::new(Users::Gender).string_len(16))
        .col(ColumnDef::new(Users::Birthday).date())
        .col(ColumnDef::new(Users::Role).string_len(16).not_null())
        .col(ColumnDef::new(Users::BannedAt).big_integer())
        .col(ColumnDef::new(Users::CreatedAt).big_integer().not_null())
        .col(ColumnDef::new(Users::UpdatedAt).big_integer().not_null())
        .col(ColumnDef::new(Users::Version).big_integer().not_null());
    manager.create_table(table).await?;
    create_unique(manager, "uq_users_phone", Users::Table, [Users::Phone]).await?;
    Ok(())
}

#[derive(DeriveIden)]
enum Users {
    Table,
    Id,
    Phone,
    Nickname,
    AvatarUrl,
    City,
    Intro,
    Gender,
    Birthday,
    Role,
    BannedAt,
    CreatedAt,
    UpdatedAt,
    Version,
}
