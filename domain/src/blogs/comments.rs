//! What is said to notes.

use std::collections::HashMap;

use entity::comment::{self, Column};
use sea_orm::sea_query::{Expr, SelectStatement};
use sea_orm::{
    ColumnTrait, EntityTrait, IntoActiveModel, QueryFilter, QueryOrder, QuerySelect, QueryTrait,
};

use super::batch::all_of;
use super::request::Request;
use super::{Blog, BlogId, Blogs, Error, store};
use crate::define_id;
use crate::infra::db::is_unique_violation;
use crate::infra::text::check_text;
use crate::notifications::NotificationKind;
use crate::users::{Session, UserId};

define_id!(
    /// The number of a comment; later ones have greater numbers.
    CommentId
);

/// A comment as stored.
pub type Comment = comment::Model;

/// Characters of a comment, at most.
pub const COMMENT_MAX_CHARS: usize = 500;
/// Pages in one question: each is a part of the statement.
const PAGES_PER_QUESTION: usize = 50;

/// Ids in one question.
const IDS_PER_QUESTION: usize = 500;

/// A comment to add.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewComment {
    /// The note.
    pub blog_id: BlogId,
    /// 1 to 500 characters.
    pub text: String,
    /// The client's own id of the request: a repeat adds nothing more.
    pub request_id: Option<String>,
}

/// A page of the comments on a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CommentPage {
    /// The note.
    pub blog_id: BlogId,
    /// The comment after which the page begins.
    pub after: Option<CommentId>,
    /// How many, at most.
    pub limit: usize,
}

impl Blogs {
    /// Adds a comment to a note; answers the note with it.
    ///
    /// # Errors
    /// `NoSuchBlog`; names the argument that is wrong; `NoSuchComment` when the request was made before, and its comment
    /// is deleted.
    pub async fn add_comment(
        &self,
        session: &Session,
        new: NewComment,
    ) -> Result<(Comment, Blog), Error> {
        check_text("input.text", &new.text, 1, COMMENT_MAX_CHARS)?;
        let request = new.request()?;
        if let Some(request) = &request
            && let Some(before) = self.commented_by(session.user_id, request).await?
        {
            return Ok(before);
        }
        let comment = Comment {
            id: self.infra.ids.next()?,
            blog_id: new.blog_id.0,
            author_id: session.user_id.0,
            text: new.text,
            request_id: request.as_ref().map(|r| r.id.clone()),
            request_hash: request.as_ref().map(|r| r.hash.clone()),
            created_at: self.infra.clock.now_ms(),
            deleted_at: None,
        };
        match (self.insert_comment(comment.clone()).await, request) {
            (Ok(blog), _) => {
                let (kind, key) = (
                    NotificationKind::BlogCommented,
                    format!("blog_commented:{}", comment.id),
                );
                self.tell_author(&blog, kind, session.user_id, key).await;
                Ok((comment, blog))
            }
            // The same request came twice at once, and the other one was first.
            (Err(Error::Database(e)), Some(request)) if is_unique_violation(&e) => {
                let first = self.commented_by(session.user_id, &request).await?;
                first.ok_or(Error::Database(e))
            }
            (Err(e), _) => Err(e),
        }
    }

    /// Deletes a comment; answers the note that it was on.
    ///
    /// # Errors
    /// `NoSuchComment`, `NoSuchBlog`; `NotYourComment` unless the viewer wrote the comment or the note, or is an
    /// administrator.
    pub async fn delete_comment(&self, session: &Session, id: CommentId) -> Result<Blog, Error> {
        let comment = comment::Entity::find_by_id(id.0).filter(Column::DeletedAt.is_null());
        let comment = comment.one(self.infra.db.conn()).await?;
        let comment = comment.ok_or(Error::NoSuchComment)?;
        let blog = self.load(BlogId(comment.blog_id)).await?;
        let is_theirs = [comment.author_id, blog.author_id].contains(&session.user_id.0);
        if !is_theirs && !session.is_admin() {
            return Err(Error::NotYourComment);
        }
        let now = self.infra.clock.now_ms();
        let step = self.change(BlogId(blog.id), move |txn, mut blog| {
            Box::pin(async move {
                let deleted = comment::Entity::update_many()
                    .col_expr(Column::DeletedAt, Expr::value(now))
                    .filter(Column::Id.eq(id.0))
                    .filter(Column::DeletedAt.is_null());
                if deleted.exec(txn).await?.rows_affected == 0 {
                    return Ok(Err(Error::NoSuchComment));
                }
                blog.comment_count -= 1;
                Ok(Ok((store(txn, blog).await?, ())))
            })
        });
        Ok(step.await?.0)
    }

    /// Comments by id; those that are missing or deleted are left out. Whether their notes are there is not looked at.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn comments_by_ids(&self, ids: &[CommentId]) -> Result<Vec<Comment>, Error> {
        let mut comments = Vec::with_capacity(ids.len());
        for chunk in ids.chunks(IDS_PER_QUESTION) {
            let found = comment::Entity::find()
                .filter(Column::Id.is_in(chunk.iter().map(|id| id.0)))
                .filter(Column::DeletedAt.is_null());
            comments.extend(found.all(self.infra.db.conn()).await?);
        }
        Ok(comments)
    }

    /// Pages of comments, each newest first, in one question; a page that is empty is left out.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn comments(
        &self,
        pages: &[CommentPage],
    ) -> Result<HashMap<CommentPage, Vec<Comment>>, Error> {
        let mut found = HashMap::new();
        for chunk in pages.chunks(PAGES_PER_QUESTION) {
            // Of two pages of one note, nobody could tell whose a comment is.
            let (first, more) = one_a_note(chunk);
            self.read_pages(&first, &mut found).await?;
            for page in more {
                self.read_pages(&[page], &mut found).await?;
            }
        }
        Ok(found)
    }

    async fn read_pages(
        &self,
        pages: &[CommentPage],
        found: &mut HashMap<CommentPage, Vec<Comment>>,
    ) -> Result<(), Error> {
        let Some(all) = all_of(pages.iter().map(CommentPage::select).collect()) else {
            return Ok(());
        };
        let statement = self.infra.db.backend().build(&all);
        let comments = comment::Entity::find().from_raw_sql(statement);
        let mut comments = comments.all(self.infra.db.conn()).await?;
        comments.sort_unstable_by_key(|comment| std::cmp::Reverse(comment.id));
        for comment in comments {
            let page = pages.iter().find(|page| page.blog_id.0 == comment.blog_id);
            if let Some(page) = page {
                found.entry(*page).or_default().push(comment);
            }
        }
        Ok(())
    }

    async fn insert_comment(&self, comment: Comment) -> Result<Blog, Error> {
        let step = self.change(BlogId(comment.blog_id), move |txn, mut blog| {
            let row = comment.clone().into_active_model();
            Box::pin(async move {
                comment::Entity::insert(row)
                    .exec_without_returning(txn)
                    .await?;
                blog.comment_count += 1;
                Ok(Ok((store(txn, blog).await?, ())))
            })
        });
        Ok(step.await?.0)
    }

    /// The comment that a request made before.
    async fn commented_by(
        &self,
        author: UserId,
        request: &Request,
    ) -> Result<Option<(Comment, Blog)>, Error> {
        let made = comment::Entity::find()
            .filter(Column::AuthorId.eq(author.0))
            .filter(Column::RequestId.eq(&request.id))
            .one(self.infra.db.conn())
            .await?;
        let Some(made) = made else { return Ok(None) };
        request.require_same(made.request_hash.as_deref())?;
        let blog = self.load(BlogId(made.blog_id)).await?;
        if made.deleted_at.is_some() {
            return Err(Error::NoSuchComment);
        }
        Ok(Some((made, blog)))
    }
}

impl NewComment {
    fn request(&self) -> Result<Option<Request>, Error> {
        let Some(id) = &self.request_id else {
            return Ok(None);
        };
        let blog = self.blog_id.to_string();
        Ok(Some(Request::new(id, &[&blog, &self.text])?))
    }
}

impl CommentPage {
    fn select(&self) -> SelectStatement {
        let comments = comment::Entity::find()
            .filter(Column::BlogId.eq(self.blog_id.0))
            .filter(Column::DeletedAt.is_null())
            .filter(Column::Id.lt(self.after.map_or(i64::MAX, |after| after.0)))
            .order_by_desc(Column::Id)
            .limit(self.limit as u64);
        comments.into_query()
    }
}

/// One page of each note, and the pages that are left.
fn one_a_note(pages: &[CommentPage]) -> (Vec<CommentPage>, Vec<CommentPage>) {
    let mut seen = std::collections::HashSet::new();
    pages.iter().partition(|page| seen.insert(page.blog_id))
}
