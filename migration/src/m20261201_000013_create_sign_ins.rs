//! Sign-ins, a row a user and year; and the time zone that a user's days go by.

use sea_orm_migration::prelude::{
    ColumnDef, DbErr, DeriveIden, DeriveMigrationName, Index, MigrationTrait, SchemaManager, Table,
    async_trait,
};
use sea_orm_migration::sea_orm;

use crate::tables::{drop_table, new_table};

/// Bytes of a map with a bit for each day of the longest year.
const MAP_BYTES: u32 = 46;

/// The step.
#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let zone = Table::alter()
            .table(Users::Table)
            .add_column(ColumnDef::new(Users::TimeZone).string_len(64))
            .to_owned();
        manager.alter_table(zone).await?;
        sign_ins(manager).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop_table(manager, SignIns::Table).await?;
        let zone = Table::alter()
            .table(Users::Table)
            .drop_column(Users::TimeZone)
            .to_owned();
        manager.alter_table(zone).await
    }
}

async fn sign_ins(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut table = new_table(manager, SignIns::Table);
    let map = |column| {
        ColumnDef::new(column)
            .var_binary(MAP_BYTES)
            .not_null()
            .to_owned()
    };
    table
        .col(ColumnDef::new(SignIns::UserId).big_integer().not_null())
        .col(ColumnDef::new(SignIns::Year).integer().not_null())
        .col(map(SignIns::Signed))
        .col(map(SignIns::MadeUp))
        .col(map(SignIns::Joined))
        .col(ColumnDef::new(SignIns::TimeZone).string_len(64).not_null())
        .col(ColumnDef::new(SignIns::UpdatedAt).big_integer().not_null())
        .col(ColumnDef::new(SignIns::Version).big_integer().not_null())
        .primary_key(Index::create().col(SignIns::UserId).col(SignIns::Year));
    manager.create_table(table).await
}

#[derive(DeriveIden)]
enum Users {
    Table,
    TimeZone,
}

#[derive(DeriveIden)]
enum SignIns {
    Table,
    UserId,
    Year,
    Signed,
    MadeUp,
    Joined,
    TimeZone,
    UpdatedAt,
    Version,
}
