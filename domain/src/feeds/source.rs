//! What the database knows of feeds. It is asked for little: an inbox has the rest.

use entity::{blog, blog_fanout, feed_outbox, follow, user};
use sea_orm::{
    ColumnTrait, Condition, DbErr, EntityTrait, JoinType, QueryFilter, QueryOrder, QuerySelect,
    RelationDef, Select,
};

use super::Feeds;
use super::entry::Entry;
use crate::blogs::BlogKey;
use crate::users::UserId;

impl Feeds {
    /// The notes of those whom a user follows, below a place, the newest first: a feed as it is by definition.
    pub(super) async fn read_feed(
        &self,
        reader: UserId,
        below: Option<BlogKey>,
        limit: usize,
    ) -> Result<Vec<Entry>, DbErr> {
        let author = blog::Entity::belongs_to(user::Entity)
            .from(blog::Column::AuthorId)
            .to(user::Column::Id)
            .into();
        let notes = notes(below)
            .join(JoinType::InnerJoin, follow_of_blog())
            .join(JoinType::InnerJoin, author)
            .filter(follow::Column::FollowerId.eq(reader.0));
        self.entries(notes, limit).await
    }

    /// The notes of some authors, the newest first.
    pub(super) async fn read_authors(
        &self,
        authors: &[UserId],
        limit: usize,
    ) -> Result<Vec<Entry>, DbErr> {
        let ids = authors.iter().map(|author| author.0);
        let notes = notes(None).filter(blog::Column::AuthorId.is_in(ids));
        self.entries(notes, limit).await
    }

    async fn entries(
        &self,
        notes: Select<blog::Entity>,
        limit: usize,
    ) -> Result<Vec<Entry>, DbErr> {
        use blog::Column::{AuthorId, CreatedAt, Id};
        self.newest(notes, [Id, AuthorId, CreatedAt], limit).await
    }

    /// The newest of some rows that stand for notes; in which columns they have the note, its author and its time.
    async fn newest<E: EntityTrait>(
        &self,
        rows: Select<E>,
        columns: [E::Column; 3],
        limit: usize,
    ) -> Result<Vec<Entry>, DbErr> {
        let [id, _, time] = columns;
        let rows: Vec<(i64, i64, i64)> = rows
            .select_only()
            .columns(columns)
            .order_by_desc(time)
            .order_by_desc(id)
            .limit(limit as u64)
            .into_tuple()
            .all(self.infra.db.conn())
            .await?;
        Ok(rows.into_iter().map(Entry::new).collect())
    }

    /// Notes on their way by those whom a user follows, below a place, the newest first.
    pub(super) async fn read_under_way(
        &self,
        reader: UserId,
        below: Option<BlogKey>,
        limit: usize,
    ) -> Result<Vec<Entry>, DbErr> {
        use blog_fanout::Column;
        let follow_of_author: RelationDef = blog_fanout::Entity::belongs_to(follow::Entity)
            .from(Column::AuthorId)
            .to(follow::Column::FolloweeId)
            .into();
        let mut rows = blog_fanout::Entity::find()
            .join(JoinType::InnerJoin, follow_of_author)
            .filter(follow::Column::FollowerId.eq(reader.0))
            .filter(Column::DoneAt.is_null());
        if let Some(key) = below {
            rows = rows.filter(older(Column::CreatedAt, Column::BlogId, &key));
        }
        let columns = [Column::BlogId, Column::AuthorId, Column::CreatedAt];
        self.newest(rows, columns, limit).await
    }

    /// Notes in the outboxes of those whom a user follows, from a time on, the newest first.
    pub(super) async fn read_outboxes(
        &self,
        reader: UserId,
        from_ms: i64,
        limit: usize,
    ) -> Result<Vec<Entry>, DbErr> {
        use feed_outbox::Column;
        let follow_of_author: RelationDef = feed_outbox::Entity::belongs_to(follow::Entity)
            .from(Column::AuthorId)
            .to(follow::Column::FolloweeId)
            .into();
        let rows = feed_outbox::Entity::find()
            .join(JoinType::InnerJoin, follow_of_author)
            .filter(follow::Column::FollowerId.eq(reader.0))
            .filter(Column::CreatedAt.gte(from_ms));
        let columns = [Column::BlogId, Column::AuthorId, Column::CreatedAt];
        self.newest(rows, columns, limit).await
    }

    /// Notes that were published from a time on, the oldest first.
    pub(super) async fn read_published(
        &self,
        from_ms: i64,
        limit: usize,
    ) -> Result<Vec<Entry>, DbErr> {
        use blog_fanout::Column;
        let rows: Vec<(i64, i64, i64)> = blog_fanout::Entity::find()
            .filter(Column::CreatedAt.gte(from_ms))
            .select_only()
            .columns([Column::BlogId, Column::AuthorId, Column::CreatedAt])
            .order_by_asc(Column::CreatedAt)
            .order_by_asc(Column::BlogId)
            .limit(limit as u64)
            .into_tuple()
            .all(self.infra.db.conn())
            .await?;
        Ok(rows.into_iter().map(Entry::new).collect())
    }
}

fn notes(below: Option<BlogKey>) -> Select<blog::Entity> {
    let notes = blog::Entity::find().filter(blog::Column::DeletedAt.is_null());
    match below {
        Some(key) => notes.filter(older(blog::Column::CreatedAt, blog::Column::Id, &key)),
        None => notes,
    }
}

/// The first part says nothing new, but an index can be entered by it.
fn older<C: ColumnTrait>(time: C, id: C, key: &BlogKey) -> Condition {
    let same_time = Condition::all()
        .add(time.eq(key.created_at))
        .add(id.lt(key.id.0));
    let older = Condition::any().add(time.lt(key.created_at)).add(same_time);
    Condition::all().add(time.lte(key.created_at)).add(older)
}

fn follow_of_blog() -> RelationDef {
    blog::Entity::belongs_to(follow::Entity)
        .from(blog::Column::AuthorId)
        .to(follow::Column::FolloweeId)
        .into()
}
