//! Shops and their types.

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
        shop_types(manager).await?;
        shops(manager).await?;
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop_table(manager, Shops::Table).await?;
        drop_table(manager, ShopTypes::Table).await?;
        Ok(())
    }
}

async fn shop_types(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut table = new_table(manager, ShopTypes::Table);
    table
        .col(
            ColumnDef::new(ShopTypes::Id)
                .big_integer()
                .not_null()
                .primary_key(),
        )
        .col(ColumnDef::new(ShopTypes::Code).string_len(64).not_null())
        .col(ColumnDef::new(ShopTypes::Name).string_len(64).not_null())
        .col(ColumnDef::new(ShopTypes::Sort).integer().not_null())
        .col(
            ColumnDef::new(ShopTypes::CreatedAt)
                .big_integer()
                .not_null(),
        )
        .col(ColumnDef::new(ShopTypes::Version).big_integer().not_null());
    manager.create_table(table).await?;
    create_unique(
        manager,
        "uq_shop_types_code",
        ShopTypes::Table,
        [ShopTypes::Code],
    )
    .await?;
    Ok(())
}

#[derive(DeriveIden)]
enum ShopTypes {
    Table,
    Id,
    Code,
    Name,
    Sort,
    CreatedAt,
    Version,
}

async fn shops(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut table = new_table(manager, Shops::Table);
    table
        .col(
            ColumnDef::new(Shops::Id)
                .big_integer()
                .not_null()
                .primary_key(),
        )
        .col(ColumnDef::new(Shops::TypeId).big_integer().not_null())
        .col(ColumnDef::new(Shops::OwnerId).big_integer())
        .col(ColumnDef::new(Shops::Name).string_len(255).not_null())
        .col(ColumnDef::new(Shops::Images).text().not_null())
        .col(ColumnDef::new(Shops::Area).string_len(128))
        .col(ColumnDef::new(Shops::Address).string_len(255))
        .col(ColumnDef::new(Shops::Latitude).double().not_null())
        .col(ColumnDef::new(Shops::Longitude).double().not_null())
        .col(ColumnDef::new(Shops::AveragePriceMinor).big_integer())
        .col(ColumnDef::new(Shops::Currency).string_len(3))
        .col(ColumnDef::new(Shops::SoldCount).big_integer().not_null())
        .col(ColumnDef::new(Shops::CommentCount).big_integer().not_null())
        .col(ColumnDef::new(Shops::ScoreTenths).integer().not_null())
        .col(ColumnDef::new(Shops::OpenHours).string_len(255))
        .col(ColumnDef::new(Shops::Source).string_len(128))
        .col(ColumnDef::new(Shops::Status).string_len(16).not_null())
        .col(ColumnDef::new(Shops::CreatedAt).big_integer().not_null())
        .col(ColumnDef::new(Shops::UpdatedAt).big_integer().not_null())
        .col(ColumnDef::new(Shops::Version).big_integer().not_null());
    manager.create_table(table).await?;
    create_unique(manager, "uq_shops_source", Shops::Table, [Shops::Source]).await?;
    create_index(
        manager,
        "ix_shops_type",
        Shops::Table,
        [Shops::Status, Shops::TypeId, Shops::Id],
    )
    .await?;
    create_index(
        manager,
        "ix_shops_score",
        Shops::Table,
        [Shops::Status, Shops::ScoreTenths, Shops::Id],
    )
    .await?;
    create_index(
        manager,
        "ix_shops_sold",
        Shops::Table,
        [Shops::Status, Shops::SoldCount, Shops::Id],
    )
    .await?;
    create_index(manager, "ix_shops_owner", Shops::Table, [Shops::OwnerId]).await?;
    Ok(())
}

#[derive(DeriveIden)]
enum Shops {
    Table,
    Id,
    TypeId,
    OwnerId,
    Name,
    Images,
    Area,
    Address,
    Latitude,
    Longitude,
    AveragePriceMinor,
    Currency,
    SoldCount,
    CommentCount,
    ScoreTenths,
    OpenHours,
    Source,
    Status,
    CreatedAt,
    UpdatedAt,
    Version,
}
