//! What guests say of shops, and what is sold but not yet counted at its shop.

use sea_orm_migration::prelude::{
    ColumnDef, DbErr, DeriveIden, DeriveMigrationName, Index, MigrationTrait, SchemaManager,
    async_trait,
};
use sea_orm_migration::sea_orm::{self, ConnectionTrait};

use crate::tables::{create_index, create_unique, drop_table, new_table};

/// The step.
#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        reviews(manager).await?;
        shop_ratings(manager).await?;
        sold_changes(manager).await?;
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop_table(manager, SoldChanges::Table).await?;
        drop_table(manager, ShopRatings::Table).await?;
        drop_table(manager, Reviews::Table).await?;
        Ok(())
    }
}

async fn reviews(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut table = new_table(manager, Reviews::Table);
    table
        .col(
            ColumnDef::new(Reviews::Id)
                .big_integer()
                .not_null()
                .primary_key(),
        )
        .col(ColumnDef::new(Reviews::ShopId).big_integer().not_null())
        .col(ColumnDef::new(Reviews::UserId).big_integer().not_null())
        .col(ColumnDef::new(Reviews::OrderId).big_integer().not_null())
        .col(ColumnDef::new(Reviews::Holds).small_integer())
        .col(ColumnDef::new(Reviews::Score).integer().not_null())
        .col(ColumnDef::new(Reviews::Text).text().not_null())
        .col(ColumnDef::new(Reviews::ImageIds).text().not_null())
        .col(ColumnDef::new(Reviews::CreatedAt).big_integer().not_null())
        .col(ColumnDef::new(Reviews::DeletedAt).big_integer());
    manager.create_table(table).await?;
    create_unique(
        manager,
        "uq_reviews_once",
        Reviews::Table,
        [
            Reviews::UserId,
            Reviews::ShopId,
            Reviews::OrderId,
            Reviews::Holds,
        ],
    )
    .await?;
    create_index(
        manager,
        "ix_reviews_shop",
        Reviews::Table,
        [Reviews::ShopId, Reviews::Id],
    )
    .await?;
    create_index(
        manager,
        "ix_reviews_order",
        Reviews::Table,
        [Reviews::OrderId],
    )
    .await
}

async fn shop_ratings(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut table = new_table(manager, ShopRatings::Table);
    table
        .col(
            ColumnDef::new(ShopRatings::ShopId)
                .big_integer()
                .not_null()
                .primary_key(),
        )
        .col(
            ColumnDef::new(ShopRatings::ScoreSum)
                .big_integer()
                .not_null(),
        )
        .col(
            ColumnDef::new(ShopRatings::ReviewCount)
                .big_integer()
                .not_null(),
        );
    manager.create_table(table).await
}

async fn sold_changes(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut table = new_table(manager, SoldChanges::Table);
    table
        .col(
            ColumnDef::new(SoldChanges::OrderId)
                .big_integer()
                .not_null(),
        )
        .col(ColumnDef::new(SoldChanges::Units).integer().not_null())
        .col(ColumnDef::new(SoldChanges::ShopId).big_integer().not_null())
        .primary_key(
            Index::create()
                .name("pk_sold_changes")
                .col(SoldChanges::OrderId)
                .col(SoldChanges::Units),
        );
    manager.create_table(table).await?;
    // What was paid before is counted too.
    manager
        .get_connection()
        .execute_unprepared(
            "INSERT INTO sold_changes (order_id, units, shop_id) \
             SELECT id, quantity, shop_id FROM orders WHERE status IN ('PAID', 'USED')",
        )
        .await
        .map(|_| ())
}

#[derive(DeriveIden)]
enum Reviews {
    Table,
    Id,
    ShopId,
    UserId,
    OrderId,
    Holds,
    Score,
    Text,
    ImageIds,
    CreatedAt,
    DeletedAt,
}

#[derive(DeriveIden)]
enum ShopRatings {
    Table,
    ShopId,
    ScoreSum,
    ReviewCount,
}

#[derive(DeriveIden)]
enum SoldChanges {
    Table,
    OrderId,
    Units,
    ShopId,
}
