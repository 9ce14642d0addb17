//! What ordinary vouchers have in stock and who claimed them; and how a paid order is found by its redeem code.

use sea_orm_migration::prelude::{
    ColumnDef, DbErr, DeriveIden, DeriveMigrationName, Expr, ExprTrait, Index, MigrationTrait,
    SchemaManager, Table, async_trait,
};
use sea_orm_migration::sea_orm::{self, ConnectionTrait};

use crate::tables::{create_index, drop_table, new_table};

/// The step.
#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        orders(manager).await?;
        offers(manager).await?;
        claims(manager).await?;
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop_table(manager, Claims::Table).await?;
        drop_table(manager, Offers::Table).await?;
        let index = Index::drop()
            .name("ix_orders_redeem")
            .table(Orders::Table)
            .to_owned();
        manager.drop_index(index).await?;
        // SQLite changes one column in a statement.
        for column in [Orders::RedeemTag, Orders::Quantity] {
            let without = Table::alter()
                .table(Orders::Table)
                .drop_column(column)
                .to_owned();
            manager.alter_table(without).await?;
        }
        Ok(())
    }
}

async fn orders(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut quantity = ColumnDef::new(Orders::Quantity);
    quantity.integer().not_null().default(1);
    let mut tag = ColumnDef::new(Orders::RedeemTag);
    tag.big_integer();
    for mut column in [quantity, tag] {
        let with = Table::alter()
            .table(Orders::Table)
            .add_column(&mut column)
            .to_owned();
        manager.alter_table(with).await?;
    }
    create_index(
        manager,
        "ix_orders_redeem",
        Orders::Table,
        [Orders::RedeemTag],
    )
    .await
}

async fn offers(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut table = new_table(manager, Offers::Table);
    table
        .col(
            ColumnDef::new(Offers::VoucherId)
                .big_integer()
                .not_null()
                .primary_key(),
        )
        .col(ColumnDef::new(Offers::ShopId).big_integer().not_null())
        .col(ColumnDef::new(Offers::Total).big_integer())
        .col(ColumnDef::new(Offers::Sold).big_integer().not_null())
        .col(ColumnDef::new(Offers::PerUserLimit).integer())
        .col(ColumnDef::new(Offers::CreatedAt).big_integer().not_null())
        .check((
            "ck_offers_sold",
            Expr::col(Offers::Sold).gte(0).and(
                Expr::col(Offers::Total)
                    .is_null()
                    .or(Expr::col(Offers::Sold).lte(Expr::col(Offers::Total))),
            ),
        ));
    manager.create_table(table).await?;
    // Ordinary vouchers that were made before had no limits.
    manager
        .get_connection()
        .execute_unprepared(
            "INSERT INTO offers (voucher_id, shop_id, total, sold, per_user_limit, created_at) \
             SELECT id, shop_id, NULL, 0, NULL, created_at FROM vouchers WHERE kind = 'ORDINARY'",
        )
        .await
        .map(|_| ())
}

async fn claims(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut table = new_table(manager, Claims::Table);
    table
        .col(ColumnDef::new(Claims::UserId).big_integer().not_null())
        .col(ColumnDef::new(Claims::RequestId).string_len(64).not_null())
        .col(ColumnDef::new(Claims::VoucherId).big_integer().not_null())
        .col(ColumnDef::new(Claims::Quantity).integer().not_null())
        .col(ColumnDef::new(Claims::OrderId).big_integer().not_null())
        .col(ColumnDef::new(Claims::CreatedAt).big_integer().not_null())
        .primary_key(
            Index::create()
                .name("pk_claims")
                .col(Claims::UserId)
                .col(Claims::RequestId),
        );
    manager.create_table(table).await
}

#[derive(DeriveIden)]
enum Orders {
    Table,
    Quantity,
    RedeemTag,
}

#[derive(DeriveIden)]
enum Offers {
    Table,
    VoucherId,
    ShopId,
    Total,
    Sold,
    PerUserLimit,
    CreatedAt,
}

#[derive(DeriveIden)]
enum Claims {
    Table,
    UserId,
    RequestId,
    VoucherId,
    Quantity,
    OrderId,
    CreatedAt,
}
