//! Notifications, and how far each user has read them.

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
        notifications(manager).await?;
        boxes(manager).await?;
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop_table(manager, NotificationBoxes::Table).await?;
        drop_table(manager, Notifications::Table).await?;
        Ok(())
    }
}

async fn notifications(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let number = |column| ColumnDef::new(column).big_integer().not_null().to_owned();
    let words = |column, length| ColumnDef::new(column).string_len(length).to_owned();
    let mut table = new_table(manager, Notifications::Table);
    table
        .col(number(Notifications::Id).primary_key())
        .col(number(Notifications::UserId))
        .col(number(Notifications::Seq))
        .col(words(Notifications::Kind, 32).not_null())
        .col(ColumnDef::new(Notifications::ActorId).big_integer())
        .col(words(Notifications::Subject, 64).not_null())
        .col(words(Notifications::Text, 200))
        .col(words(Notifications::OnceKey, 128).not_null())
        .col(number(Notifications::CreatedAt));
    manager.create_table(table).await?;
    create_unique(
        manager,
        "uq_notifications_seq",
        Notifications::Table,
        [Notifications::UserId, Notifications::Seq],
    )
    .await?;
    create_unique(
        manager,
        "uq_notifications_once",
        Notifications::Table,
        [Notifications::UserId, Notifications::OnceKey],
    )
    .await
}

#[derive(DeriveIden)]
enum Notifications {
    Table,
    Id,
    UserId,
    Seq,
    Kind,
    ActorId,
    Subject,
    Text,
    OnceKey,
    CreatedAt,
}

async fn boxes(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let number = |column| ColumnDef::new(column).big_integer().not_null().to_owned();
    let mut table = new_table(manager, NotificationBoxes::Table);
    table
        .col(number(NotificationBoxes::UserId).primary_key())
        .col(number(NotificationBoxes::LastSeq))
        .col(number(NotificationBoxes::ReadSeq));
    manager.create_table(table).await
}

#[derive(DeriveIden)]
enum NotificationBoxes {
    Table,
    UserId,
    LastSeq,
    ReadSeq,
}
