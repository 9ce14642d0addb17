//! What a recovery reads in the order of its ids, and what a dead letter is known again by.

use sea_orm_migration::prelude::{
    DbErr, DeriveIden, DeriveMigrationName, Index, MigrationTrait, SchemaManager, async_trait,
};
use sea_orm_migration::sea_orm;

use crate::tables::create_index;

/// The step.
#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        create_index(
            manager,
            "ix_orders_voucher_id",
            Orders::Table,
            [Orders::VoucherId, Orders::Id],
        )
        .await?;
        create_index(
            manager,
            "ix_dead_letters_reference",
            DeadLetters::Table,
            [DeadLetters::Reference],
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let letters = Index::drop()
            .name("ix_dead_letters_reference")
            .table(DeadLetters::Table)
            .to_owned();
        manager.drop_index(letters).await?;
        let orders = Index::drop()
            .name("ix_orders_voucher_id")
            .table(Orders::Table)
            .to_owned();
        manager.drop_index(orders).await
    }
}

#[derive(DeriveIden)]
enum Orders {
    Table,
    Id,
    VoucherId,
}

#[derive(DeriveIden)]
enum DeadLetters {
    Table,
    Reference,
}
