//! Money: intents, payments, refunds.

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
        payment_intents(manager).await?;
        payments(manager).await?;
        refunds(manager).await?;
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop_table(manager, Refunds::Table).await?;
        drop_table(manager, Payments::Table).await?;
        drop_table(manager, PaymentIntents::Table).await?;
        Ok(())
    }
}

async fn payment_intents(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut table = new_table(manager, PaymentIntents::Table);
    table
        .col(
            ColumnDef::new(PaymentIntents::OrderId)
                .big_integer()
                .not_null()
                .primary_key(),
        )
        .col(
            ColumnDef::new(PaymentIntents::Token)
                .string_len(64)
                .not_null(),
        )
        .col(
            ColumnDef::new(PaymentIntents::Provider)
                .string_len(16)
                .not_null(),
        )
        .col(
            ColumnDef::new(PaymentIntents::UserId)
                .big_integer()
                .not_null(),
        )
        .col(
            ColumnDef::new(PaymentIntents::VoucherId)
                .big_integer()
                .not_null(),
        )
        .col(
            ColumnDef::new(PaymentIntents::AmountMinor)
                .big_integer()
                .not_null(),
        )
        .col(
            ColumnDef::new(PaymentIntents::Currency)
                .string_len(3)
                .not_null(),
        )
        .col(ColumnDef::new(PaymentIntents::Payload).text().not_null())
        .col(
            ColumnDef::new(PaymentIntents::Status)
                .string_len(8)
                .not_null(),
        )
        .col(
            ColumnDef::new(PaymentIntents::CreatedAt)
                .big_integer()
                .not_null(),
        );
    manager.create_table(table).await?;
    create_unique(
        manager,
        "uq_payment_intents_token",
        PaymentIntents::Table,
        [PaymentIntents::Token],
    )
    .await?;
    create_index(
        manager,
        "ix_payment_intents_voucher",
        PaymentIntents::Table,
        [PaymentIntents::VoucherId, PaymentIntents::Status],
    )
    .await?;
    Ok(())
}

#[derive(DeriveIden)]
enum PaymentIntents {
    Table,
    OrderId,
    Token,
    Provider,
    UserId,
    VoucherId,
    AmountMinor,
    Currency,
    Payload,
    Status,
    CreatedAt,
}

async fn payments(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut table = new_table(manager, Payments::Table);
    table
        .col(
            ColumnDef::new(Payments::Id)
                .big_integer()
                .not_null()
                .primary_key(),
        )
        .col(ColumnDef::new(Payments::Provider).string_len(16).not_null())
        .col(
            ColumnDef::new(Payments::TransactionId)
                .string_len(128)
                .not_null(),
        )
        .col(ColumnDef::new(Payments::OrderId).big_integer().not_null())
        .col(
            ColumnDef::new(Payments::AmountMinor)
                .big_integer()
                .not_null(),
        )
        .col(ColumnDef::new(Payments::Currency).string_len(16).not_null())
        .col(ColumnDef::new(Payments::Outcome).string_len(16).not_null())
        .col(
            ColumnDef::new(Payments::ReceivedAt)
                .big_integer()
                .not_null(),
        )
        .col(ColumnDef::new(Payments::DecidedAt).big_integer());
    manager.create_table(table).await?;
    create_unique(
        manager,
        "uq_payments_transaction",
        Payments::Table,
        [Payments::Provider, Payments::TransactionId],
    )
    .await?;
    create_index(
        manager,
        "ix_payments_order",
        Payments::Table,
        [Payments::OrderId],
    )
    .await?;
    create_index(
        manager,
        "ix_payments_outcome",
        Payments::Table,
        [Payments::Outcome, Payments::ReceivedAt],
    )
    .await?;
    Ok(())
}

#[derive(DeriveIden)]
enum Payments {
    Table,
    Id,
    Provider,
    TransactionId,
    OrderId,
    AmountMinor,
    Currency,
    Outcome,
    ReceivedAt,
    DecidedAt,
}

async fn refunds(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut table = new_table(manager, Refunds::Table);
    table
        .col(
            ColumnDef::new(Refunds::Id)
                .big_integer()
                .not_null()
                .primary_key(),
        )
        .col(ColumnDef::new(Refunds::Provider).string_len(16).not_null())
        .col(
            ColumnDef::new(Refunds::TransactionId)
                .string_len(128)
                .not_null(),
        )
        .col(ColumnDef::new(Refunds::OrderId).big_integer().not_null())
        .col(
            ColumnDef::new(Refunds::AmountMinor)
                .big_integer()
                .not_null(),
        )
        .col(ColumnDef::new(Refunds::Currency).string_len(16).not_null())
        .col(ColumnDef::new(Refunds::Reason).string_len(16).not_null())
        .col(ColumnDef::new(Refunds::Status).string_len(8).not_null())
        .col(
            ColumnDef::new(Refunds::IdempotencyKey)
                .string_len(64)
                .not_null(),
        )
        .col(ColumnDef::new(Refunds::Attempts).integer().not_null())
        .col(ColumnDef::new(Refunds::NextAt).big_integer().not_null())
        .col(ColumnDef::new(Refunds::CreatedAt).big_integer().not_null())
        .col(ColumnDef::new(Refunds::DoneAt).big_integer());
    manager.create_table(table).await?;
    create_unique(
        manager,
        "uq_refunds_transaction",
        Refunds::Table,
        [Refunds::Provider, Refunds::TransactionId],
    )
    .await?;
    create_index(
        manager,
        "ix_refunds_due",
        Refunds::Table,
        [Refunds::Status, Refunds::NextAt],
    )
    .await?;
    create_index(
        manager,
        "ix_refunds_order",
        Refunds::Table,
        [Refunds::OrderId],
    )
    .await?;
    Ok(())
}

#[derive(DeriveIden)]
enum Refunds {
    Table,
    Id,
    Provider,
    TransactionId,
    OrderId,
    AmountMinor,
    Currency,
    Reason,
    Status,
    IdempotencyKey,
    Attempts,
    NextAt,
    CreatedAt,
    DoneAt,
}
