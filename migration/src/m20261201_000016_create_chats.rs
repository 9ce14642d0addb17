//! Conversations of two, and their messages.

use sea_orm_migration::prelude::{
    ColumnDef, DbErr, DeriveIden, DeriveMigrationName, Iden, Index, MigrationTrait, SchemaManager,
    async_trait,
};
use sea_orm_migration::sea_orm;

use crate::tables::{create_index, create_unique, drop_table, new_table};

/// The step.
#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        boxes(manager).await?;
        conversations(manager).await?;
        members(manager).await?;
        messages(manager).await?;
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop_table(manager, Messages::Table).await?;
        drop_table(manager, ConversationMembers::Table).await?;
        drop_table(manager, Conversations::Table).await?;
        drop_table(manager, ChatBoxes::Table).await?;
        Ok(())
    }
}

fn number(column: impl Iden + 'static) -> ColumnDef {
    ColumnDef::new(column).big_integer().not_null().to_owned()
}

async fn boxes(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut table = new_table(manager, ChatBoxes::Table);
    table
        .col(number(ChatBoxes::UserId).primary_key())
        .col(number(ChatBoxes::LastFeed));
    manager.create_table(table).await
}

#[derive(DeriveIden)]
enum ChatBoxes {
    Table,
    UserId,
    LastFeed,
}

async fn conversations(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut table = new_table(manager, Conversations::Table);
    table
        .col(number(Conversations::Id).primary_key())
        .col(number(Conversations::LowId))
        .col(number(Conversations::HighId))
        .col(number(Conversations::CreatedAt));
    manager.create_table(table).await?;
    create_unique(
        manager,
        "uq_conversations_pair",
        Conversations::Table,
        [Conversations::LowId, Conversations::HighId],
    )
    .await
}

#[derive(DeriveIden)]
enum Conversations {
    Table,
    Id,
    LowId,
    HighId,
    CreatedAt,
}

async fn members(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut table = new_table(manager, ConversationMembers::Table);
    table
        .col(number(ConversationMembers::ConversationId))
        .col(number(ConversationMembers::UserId))
        .col(number(ConversationMembers::LastFeed))
        .col(number(ConversationMembers::LastMessageId))
        .col(number(ConversationMembers::Received))
        .col(number(ConversationMembers::ReadSeq))
        .col(number(ConversationMembers::ReadReceived))
        .primary_key(
            Index::create()
                .col(ConversationMembers::ConversationId)
                .col(ConversationMembers::UserId),
        );
    manager.create_table(table).await?;
    create_index(
        manager,
        "ix_conversation_members_user",
        ConversationMembers::Table,
        [ConversationMembers::UserId, ConversationMembers::LastFeed],
    )
    .await
}

#[derive(DeriveIden)]
enum ConversationMembers {
    Table,
    ConversationId,
    UserId,
    LastFeed,
    LastMessageId,
    Received,
    ReadSeq,
    ReadReceived,
}

async fn messages(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let words = |column, length| {
        ColumnDef::new(column)
            .string_len(length)
            .not_null()
            .to_owned()
    };
    let mut table = new_table(manager, Messages::Table);
    table
        .col(number(Messages::Id).primary_key())
        .col(number(Messages::ConversationId))
        .col(number(Messages::Seq))
        .col(number(Messages::SenderId))
        .col(number(Messages::RecipientId))
        .col(number(Messages::Sent))
        .col(words(Messages::Text, 2_000))
        .col(words(Messages::RequestId, 64))
        .col(number(Messages::SenderFeed))
        .col(number(Messages::RecipientFeed))
        .col(number(Messages::CreatedAt));
    manager.create_table(table).await?;
    let unique = [
        ("uq_messages_seq", [Messages::ConversationId, Messages::Seq]),
        (
            "uq_messages_request",
            [Messages::SenderId, Messages::RequestId],
        ),
        (
            "uq_messages_sender_feed",
            [Messages::SenderId, Messages::SenderFeed],
        ),
        (
            "uq_messages_recipient_feed",
            [Messages::RecipientId, Messages::RecipientFeed],
        ),
    ];
    for (name, columns) in unique {
        create_unique(manager, name, Messages::Table, columns).await?;
    }
    Ok(())
}

#[derive(DeriveIden)]
enum Messages {
    Table,
    Id,
    ConversationId,
    Seq,
    SenderId,
    RecipientId,
    Sent,
    Text,
    RequestId,
    SenderFeed,
    RecipientFeed,
    CreatedAt,
}
