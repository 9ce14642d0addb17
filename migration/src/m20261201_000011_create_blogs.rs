//! Notes, who likes them, what is said to them, and their way to followers.

use sea_orm_migration::prelude::{
    ColumnDef, DbErr, DeriveIden, DeriveMigrationName, Index, MigrationTrait, SchemaManager,
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
        blogs(manager).await?;
        blog_likes(manager).await?;
        comments(manager).await?;
        blog_fanouts(manager).await?;
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop_table(manager, BlogFanouts::Table).await?;
        drop_table(manager, Comments::Table).await?;
        drop_table(manager, BlogLikes::Table).await?;
        drop_table(manager, Blogs::Table).await?;
        Ok(())
    }
}

async fn blogs(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut table = new_table(manager, Blogs::Table);
    table
        .col(
            ColumnDef::new(Blogs::Id)
                .big_integer()
                .not_null()
                .primary_key(),
        )
        .col(ColumnDef::new(Blogs::AuthorId).big_integer().not_null())
        .col(ColumnDef::new(Blogs::ShopId).big_integer())
        .col(ColumnDef::new(Blogs::Title).string_len(100).not_null())
        .col(ColumnDef::new(Blogs::Content).text().not_null())
        .col(ColumnDef::new(Blogs::ImageIds).text().not_null())
        .col(ColumnDef::new(Blogs::LikeCount).big_integer().not_null())
        .col(ColumnDef::new(Blogs::CommentCount).big_integer().not_null())
        .col(ColumnDef::new(Blogs::EditCount).big_integer().not_null())
        .col(ColumnDef::new(Blogs::RequestId).string_len(64))
        .col(ColumnDef::new(Blogs::RequestHash).string_len(64))
        .col(ColumnDef::new(Blogs::CreatedAt).big_integer().not_null())
        .col(ColumnDef::new(Blogs::UpdatedAt).big_integer().not_null())
        .col(ColumnDef::new(Blogs::DeletedAt).big_integer())
        .col(ColumnDef::new(Blogs::Version).big_integer().not_null());
    manager.create_table(table).await?;
    let (author, shop) = (Blogs::AuthorId, Blogs::ShopId);
    let columns = [author, Blogs::CreatedAt, Blogs::Id];
    create_index(manager, "ix_blogs_author", Blogs::Table, columns).await?;
    let columns = [shop, Blogs::CreatedAt, Blogs::Id];
    create_index(manager, "ix_blogs_shop", Blogs::Table, columns).await?;
    let columns = [Blogs::LikeCount, Blogs::Id];
    create_index(manager, "ix_blogs_hot", Blogs::Table, columns).await?;
    let columns = [Blogs::AuthorId, Blogs::RequestId];
    create_unique(manager, "uq_blogs_request", Blogs::Table, columns).await
}

#[derive(DeriveIden)]
enum Blogs {
    Table,
    Id,
    AuthorId,
    ShopId,
    Title,
    Content,
    ImageIds,
    LikeCount,
    CommentCount,
    EditCount,
    RequestId,
    RequestHash,
    CreatedAt,
    UpdatedAt,
    DeletedAt,
    Version,
}

async fn blog_likes(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut table = new_table(manager, BlogLikes::Table);
    table
        .col(ColumnDef::new(BlogLikes::BlogId).big_integer().not_null())
        .col(ColumnDef::new(BlogLikes::UserId).big_integer().not_null())
        .col(ColumnDef::new(BlogLikes::Seq).big_integer().not_null())
        .col(
            ColumnDef::new(BlogLikes::CreatedAt)
                .big_integer()
                .not_null(),
        )
        .primary_key(
            Index::create()
                .col(BlogLikes::BlogId)
                .col(BlogLikes::UserId),
        );
    manager.create_table(table).await?;
    let columns = [BlogLikes::BlogId, BlogLikes::Seq];
    create_unique(manager, "uq_blog_likes_seq", BlogLikes::Table, columns).await
}

#[derive(DeriveIden)]
enum BlogLikes {
    Table,
    BlogId,
    UserId,
    Seq,
    CreatedAt,
}

async fn comments(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut table = new_table(manager, Comments::Table);
    table
        .col(
            ColumnDef::new(Comments::Id)
                .big_integer()
                .not_null()
                .primary_key(),
        )
        .col(ColumnDef::new(Comments::BlogId).big_integer().not_null())
        .col(ColumnDef::new(Comments::AuthorId).big_integer().not_null())
        .col(ColumnDef::new(Comments::Text).string_len(500).not_null())
        .col(ColumnDef::new(Comments::RequestId).string_len(64))
        .col(ColumnDef::new(Comments::RequestHash).string_len(64))
        .col(ColumnDef::new(Comments::CreatedAt).big_integer().not_null())
        .col(ColumnDef::new(Comments::DeletedAt).big_integer());
    manager.create_table(table).await?;
    let columns = [Comments::BlogId, Comments::Id];
    create_index(manager, "ix_comments_blog", Comments::Table, columns).await?;
    let columns = [Comments::AuthorId, Comments::RequestId];
    create_unique(manager, "uq_comments_request", Comments::Table, columns).await
}

#[derive(DeriveIden)]
enum Comments {
    Table,
    Id,
    BlogId,
    AuthorId,
    Text,
    RequestId,
    RequestHash,
    CreatedAt,
    DeletedAt,
}

async fn blog_fanouts(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut table = new_table(manager, BlogFanouts::Table);
    table
        .col(
            ColumnDef::new(BlogFanouts::BlogId)
                .big_integer()
                .not_null()
                .primary_key(),
        )
        .col(
            ColumnDef::new(BlogFanouts::AuthorId)
                .big_integer()
                .not_null(),
        )
        .col(
            ColumnDef::new(BlogFanouts::CreatedAt)
                .big_integer()
                .not_null(),
        )
        .col(ColumnDef::new(BlogFanouts::Step).text())
        .col(ColumnDef::new(BlogFanouts::DoneAt).big_integer());
    manager.create_table(table).await?;
    let columns = [BlogFanouts::DoneAt, BlogFanouts::BlogId];
    create_index(manager, "ix_blog_fanouts_due", BlogFanouts::Table, columns).await
}

#[derive(DeriveIden)]
enum BlogFanouts {
    Table,
    BlogId,
    AuthorId,
    CreatedAt,
    Step,
    DoneAt,
}
