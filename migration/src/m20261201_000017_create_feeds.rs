//! Notes of authors whom many follow, for followers who were not told of them; and new notes by their time.

use sea_orm_migration::prelude::{
    ColumnDef, DbErr, DeriveIden, DeriveMigrationName, Index, MigrationTrait, SchemaManager,
    async_trait,
};
use sea_orm_migration::sea_orm;

use crate::tables::{create_index, drop_table, new_table};

/// The step.
#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        feed_outboxes(manager).await?;
        create_index(
            manager,
            "ix_blog_fanouts_created",
            BlogFanouts::Table,
            [BlogFanouts::CreatedAt, BlogFanouts::BlogId],
        )
        .await?;
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let index = Index::drop()
            .name("ix_blog_fanouts_created")
            .table(BlogFanouts::Table)
            .to_owned();
        manager.drop_index(index).await?;
        drop_table(manager, FeedOutboxes::Table).await?;
        Ok(())
    }
}

async fn feed_outboxes(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut table = new_table(manager, FeedOutboxes::Table);
    table
        .col(
            ColumnDef::new(FeedOutboxes::BlogId)
                .big_integer()
                .not_null()
                .primary_key(),
        )
        .col(
            ColumnDef::new(FeedOutboxes::AuthorId)
                .big_integer()
                .not_null(),
        )
        .col(
            ColumnDef::new(FeedOutboxes::CreatedAt)
                .big_integer()
                .not_null(),
        );
    manager.create_table(table).await?;
    create_index(
        manager,
        "ix_feed_outboxes_created",
        FeedOutboxes::Table,
        [FeedOutboxes::CreatedAt, FeedOutboxes::BlogId],
    )
    .await
}

#[derive(DeriveIden)]
enum FeedOutboxes {
    Table,
    BlogId,
    AuthorId,
    CreatedAt,
}

#[derive(DeriveIden)]
enum BlogFanouts {
    Table,
    BlogId,
    CreatedAt,
}
