//! Notes that users write, about a shop or about nothing in particular: who likes them, what is said to them, and which
//! are hot. Whose feed a note comes into is not decided here: `blog_fanouts` keeps it until it is.
//!
//! A note's row changes only under its lock, and each change gives it a new version: text, likes and comments alike. So
//! its counts are those of the rows they count, and a cached copy is as good as its version.
//!
//! A deleted note stays as a row, but nobody sees it any more. Notes of banned users stay: a ban is about what somebody
//! may do from now on, and an administrator can delete what must go.

mod batch;
mod cached;
mod comments;
mod hot;
mod likes;
mod list;
mod request;
mod write;

use std::sync::Arc;

use entity::blog;
use futures_util::future::BoxFuture;
use sea_orm::{
    ColumnTrait, DatabaseTransaction, DbErr, EntityTrait, IntoActiveModel, QueryFilter, QuerySelect,
};

use crate::define_id;
use crate::infra::Infra;
use crate::infra::cache;
use crate::infra::fault::{Fault, Faulty, database_fault};
use crate::infra::ids::IdsError;
use crate::infra::text::TextError;
use crate::infra::turns::Turns;
use crate::notifications::{NewNotification, NotificationKind, Notifications};
use crate::shops::{self, Shops};
use crate::uploads::{self, Uploads};
use crate::users::UserId;
use cached::BlogById;

pub use comments::{COMMENT_MAX_CHARS, Comment, CommentId, CommentPage, NewComment};
pub use hot::{HotBlog, HotKey, Pace, RANKED};
pub use likes::LATEST_LIKERS;
pub use list::BlogKey;
pub use request::{BadRequest, REQUEST_ID_MAX_CHARS};
pub use write::{BlogChange, CHANNEL, CONTENT_MAX_CHARS, NewBlog, TITLE_MAX_CHARS};

define_id!(
    /// The number of a note.
    BlogId
);

/// A note as stored.
pub type Blog = blog::Model;

/// Ids in one question to the database.
const IDS_PER_READ: usize = 500;

/// What goes wrong with notes.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No such note, or one that was deleted.
    #[error("no such note")]
    NoSuchBlog,
    /// No such comment, or one that was deleted.
    #[error("no such comment")]
    NoSuchComment,
    /// The viewer wrote neither the comment nor the note, and is no administrator.
    #[error("only the comment's author, the note's author or an administrator may do this")]
    NotYourComment,
    /// The ranking that a page was cut from is kept no more.
    #[error("this list is too old to go on with; begin anew")]
    RankingGone,
    /// The viewer did not write it.
    #[error("only the note's author may do this")]
    NotAuthor,
    /// The viewer neither wrote it nor is an administrator.
    #[error("only the author or an administrator may do this")]
    Forbidden,
    /// The note is to be about a shop that is not there.
    #[error("no such shop")]
    NoSuchShop,
    /// The author has changed the note since the client read it.
    #[error("the note was changed meanwhile; it has been changed {edit_count} times")]
    ChangedMeanwhile {
        /// How often it has been changed by now.
        edit_count: i64,
    },
    /// A client's id of a request that is none, or was used for something else.
    #[error(transparent)]
    Request(#[from] BadRequest),
    /// A text that is not taken.
    #[error(transparent)]
    Text(#[from] TextError),
    /// No id could be made.
    #[error(transparent)]
    Ids(#[from] IdsError),
    /// A picture that the author has not, or trouble with it.
    #[error(transparent)]
    Uploads(#[from] uploads::Error),
    /// Trouble with the shop.
    #[error(transparent)]
    Shops(#[from] shops::Error),
    /// The database's own.
    #[error("the database failed: {0}")]
    Database(#[from] DbErr),
    /// The cache's own.
    #[error(transparent)]
    Cache(#[from] cache::Error),
}

impl Faulty for Error {
    fn fault(&self) -> Fault {
        let bad = |argument| Fault::BadInput { argument };
        match self {
            Self::NoSuchBlog | Self::NoSuchComment => Fault::NotFound,
            Self::RankingGone => bad("after"),
            Self::NotAuthor | Self::Forbidden | Self::NotYourComment => Fault::Forbidden,
            Self::NoSuchShop => bad("input.shopId"),
            Self::ChangedMeanwhile { .. } => bad("input.editCount"),
            Self::Request(_) => bad("input.clientRequestId"),
            Self::Text(e) => e.fault(),
            Self::Ids(_) => Fault::Unavailable,
            Self::Uploads(e) => e.fault(),
            Self::Shops(e) => e.fault(),
            Self::Database(e) => database_fault(e),
            Self::Cache(e) => e.fault(),
        }
    }
}

/// Notes. Cheap to clone.
#[derive(Clone)]
pub struct Blogs {
    infra: Infra,
    shops: Shops,
    uploads: Uploads,
    notifications: Notifications,
    turns: Turns,
}

/// What a step under a note's lock comes to: the note afterwards and an answer, or a refusal that changed nothing.
type Changed<T> = Result<(Blog, T), Error>;

impl Blogs {
    /// Makes the concept.
    pub fn new(infra: Infra, shops: Shops, uploads: Uploads, notifications: Notifications) -> Self {
        Self {
            infra,
            shops,
            uploads,
            notifications,
            turns: Turns::default(),
        }
    }

    /// A note that is there, as the database has it now.
    async fn load(&self, id: BlogId) -> Result<Blog, Error> {
        let row = blog::Entity::find_by_id(id.0).filter(blog::Column::DeletedAt.is_null());
        let row = row.one(self.infra.db.conn()).await?;
        row.ok_or(Error::NoSuchBlog)
    }

    /// Tells a note's author what somebody else did with it. Trouble is only logged: what was done is done.
    async fn tell_author(&self, blog: &Blog, kind: NotificationKind, actor: UserId, key: String) {
        if blog.author_id == actor.0 {
            return;
        }
        let told = self.notifications.notify(NewNotification {
            user: UserId(blog.author_id),
            kind,
            actor: Some(actor),
            subject: format!("blog:{}", blog.id),
            text: Some(blog.title.clone()),
            key,
        });
        if let Err(e) = told.await {
            tracing::warn!(error = %e, blog.id, "a note's author was not told");
        }
    }

    /// Changes a note that is there, under its lock; then what is cached of it goes.
    async fn change<T, F>(&self, id: BlogId, step: F) -> Changed<T>
    where
        T: Send + 'static,
        F: for<'a> Fn(&'a DatabaseTransaction, Blog) -> BoxFuture<'a, Result<Changed<T>, DbErr>>
            + Send
            + Sync
            + 'static,
    {
        let (db, step) = (self.infra.db.clone(), Arc::new(step));
        let turns = self.turns.clone();
        let write = async move {
            let _turn = turns.take(&[id.0]).await;
            let changed = db.write(move |txn| {
                let step = Arc::clone(&step);
                Box::pin(async move {
                    match lock(txn, id).await? {
                        Some(before) => step(txn, before).await,
                        None => Ok(Err(Error::NoSuchBlog)),
                    }
                })
            });
            let (blog, answer) = changed.await??;
            Ok((blog.version, (blog, answer)))
        };
        let cache = &self.infra.cache;
        cache.write_then_invalidate(BlogById, id, write).await
    }
}

/// Locks a note that is there. Whoever changes something that belongs to a note does this first.
async fn lock(txn: &DatabaseTransaction, id: BlogId) -> Result<Option<Blog>, DbErr> {
    let row = blog::Entity::find_by_id(id.0).filter(blog::Column::DeletedAt.is_null());
    row.lock_exclusive().one(txn).await
}

/// Writes a note that is locked, under its next version.
async fn store(txn: &DatabaseTransaction, mut blog: Blog) -> Result<Blog, DbErr> {
    use sea_orm::ActiveModelTrait;
    blog.version += 1;
    let row = blog.clone().into_active_model().reset_all();
    blog::Entity::update(row).exec(txn).await?;
    Ok(blog)
}
