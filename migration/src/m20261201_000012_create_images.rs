//! Pictures that users have uploaded.

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
        images(manager).await?;
        create_unique(
            manager,
            "uq_images_object_key",
            Images::Table,
            [Images::ObjectKey],
        )
        .await?;
        create_index(
            manager,
            "ix_images_state",
            Images::Table,
            [Images::State, Images::CreatedAt, Images::Id],
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop_table(manager, Images::Table).await
    }
}

async fn images(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut table = new_table(manager, Images::Table);
    table
        .col(
            ColumnDef::new(Images::Id)
                .big_integer()
                .not_null()
                .primary_key(),
        )
        .col(ColumnDef::new(Images::OwnerId).big_integer().not_null())
        .col(ColumnDef::new(Images::ObjectKey).string_len(64).not_null())
        .col(ColumnDef::new(Images::State).string_len(16).not_null())
        .col(
            ColumnDef::new(Images::ContentType)
                .string_len(32)
                .not_null(),
        )
        .col(ColumnDef::new(Images::Width).integer().not_null())
        .col(ColumnDef::new(Images::Height).integer().not_null())
        .col(ColumnDef::new(Images::Bytes).integer().not_null())
        .col(ColumnDef::new(Images::Sha256).string_len(64).not_null())
        .col(ColumnDef::new(Images::CreatedAt).big_integer().not_null());
    manager.create_table(table).await
}

#[derive(DeriveIden)]
enum Images {
    Table,
    Id,
    OwnerId,
    ObjectKey,
    State,
    ContentType,
    Width,
    Height,
    Bytes,
    #[sea_orm(iden = "sha256")]
    Sha256,
    CreatedAt,
}
