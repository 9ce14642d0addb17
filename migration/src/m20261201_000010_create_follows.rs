//! Who follows whom, and how many.

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
        follows(manager).await?;
        follow_counts(manager).await?;
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop_table(manager, FollowCounts::Table).await?;
        drop_table(manager, Follows::Table).await?;
        Ok(())
    }
}

async fn follows(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut table = new_table(manager, Follows::Table);
    table
        .col(
            ColumnDef::new(Follows::Id)
                .big_integer()
                .not_null()
                .primary_key(),
        )
        .col(ColumnDef::new(Follows::FollowerId).big_integer().not_null())
        .col(ColumnDef::new(Follows::FolloweeId).big_integer().not_null())
        .col(ColumnDef::new(Follows::Seq).big_integer().not_null())
        .col(ColumnDef::new(Follows::CreatedAt).big_integer().not_null());
    manager.create_table(table).await?;
    create_unique(
        manager,
        "uq_follows_pair",
        Follows::Table,
        [Follows::FollowerId, Follows::FolloweeId],
    )
    .await?;
    create_index(
        manager,
        "ix_follows_follower",
        Follows::Table,
        [Follows::FollowerId, Follows::CreatedAt, Follows::Id],
    )
    .await?;
    create_index(
        manager,
        "ix_follows_followee",
        Follows::Table,
        [Follows::FolloweeId, Follows::CreatedAt, Follows::Id],
    )
    .await?;
    create_index(
        manager,
        "ix_follows_seq",
        Follows::Table,
        [Follows::FollowerId, Follows::Seq],
    )
    .await?;
    Ok(())
}

#[derive(DeriveIden)]
enum Follows {
    Table,
    Id,
    FollowerId,
    FolloweeId,
    Seq,
    CreatedAt,
}

async fn follow_counts(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut table = new_table(manager, FollowCounts::Table);
    table
        .col(
            ColumnDef::new(FollowCounts::UserId)
                .big_integer()
                .not_null()
                .primary_key(),
        )
        .col(
            ColumnDef::new(FollowCounts::Followers)
                .big_integer()
                .not_null(),
        )
        .col(
            ColumnDef::new(FollowCounts::Following)
                .big_integer()
                .not_null(),
        )
        .col(ColumnDef::new(FollowCounts::Seq).big_integer().not_null());
    manager.create_table(table).await?;
    Ok(())
}

#[derive(DeriveIden)]
enum FollowCounts {
    Table,
    UserId,
    Followers,
    Following,
    Seq,
}
