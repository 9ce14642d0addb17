//! What every step says in the same words.

use sea_orm_migration::prelude::{
    DbErr, Iden, Index, IntoIden, IntoTableRef, SchemaManager, Table, TableCreateStatement,
};
use sea_orm_migration::sea_orm::DbBackend;

/// A new table; on MySQL and MariaDB it takes every character and compares bytes.
pub(crate) fn new_table(
    manager: &SchemaManager<'_>,
    name: impl IntoTableRef,
) -> TableCreateStatement {
    let mut table = Table::create();
    table.table(name);
    if manager.get_database_backend() == DbBackend::MySql {
        table
            .character_set("utf8mb4")
            .collate("utf8mb4_bin")
            .engine("InnoDB");
    }
    table
}

/// A named index.
pub(crate) async fn create_index<I: Iden + 'static, const N: usize>(
    manager: &SchemaManager<'_>,
    name: &str,
    table: impl IntoTableRef,
    columns: [I; N],
) -> Result<(), DbErr> {
    let mut index = Index::create();
    index.name(name).table(table);
    for column in columns {
        index.col(column.into_iden());
    }
    manager.create_index(index).await
}

/// A named unique constraint.
pub(crate) async fn create_unique<I: Iden + 'static, const N: usize>(
    manager: &SchemaManager<'_>,
    name: &str,
    table: impl IntoTableRef,
    columns: [I; N],
) -> Result<(), DbErr> {
    let mut index = Index::create();
    index.name(name).table(table).unique();
    for column in columns {
        index.col(column.into_iden());
    }
    manager.create_index(index).await
}

/// Drops a table and its indexes.
pub(crate) async fn drop_table(
    manager: &SchemaManager<'_>,
    name: impl IntoTableRef + 'static,
) -> Result<(), DbErr> {
    manager
        .drop_table(Table::drop().table(name).to_owned())
        .await
}
