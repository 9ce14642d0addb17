//! Carrying notes to the inboxes of followers, a batch at a time. What a reader sees does not wait for it: see `page`.
//!
//! A note's row says how far it has come. Whoever carries it claims the row for a few seconds by compare-and-set, pushes
//! one batch, and sets the next place; a worker that dies leaves the place, and the claim runs out. A batch that is
//! pushed twice changes nothing.

use std::time::Duration;

use entity::{blog_fanout, feed_outbox};
use futures_util::FutureExt;
use metrics::{Unit, describe_counter, describe_gauge};
use sea_orm::sea_query::{Expr, OnConflict};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DbErr, EntityTrait, IntoActiveModel, PaginatorTrait, QueryFilter,
    QueryOrder, QuerySelect,
};
use serde::{Deserialize, Serialize};

use super::entry::Entry;
use super::{ACTIVE_FOR, Error, Feeds};
use crate::follows::FollowKey;
use crate::users::UserId;

/// Followers of one batch: about a tenth of a second of work, which is lost when a worker dies.
const BATCH: usize = 1_000;
/// Inboxes of one call: Redis does nothing else meanwhile, a few milliseconds.
const INBOXES_PER_CALL: usize = 200;
/// A claim outlives a batch by far, and a worker that died not for long.
const CLAIM: Duration = Duration::from_secs(10);
/// Notes that one step looks at; each gets one batch, so that a short way does not wait for a long one.
const NOTES_PER_STEP: u64 = 32;

/// Who is pushed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Reach {
    /// Every follower who has an inbox.
    All,
    /// Those who were seen lately; the others fetch it from the outbox.
    Active,
}

impl Reach {
    fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Active => "active",
        }
    }
}

/// How far a note has come, as its row keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct StepV1 {
    reach: Reach,
    /// The last follower who has been pushed to.
    after: Option<FollowKey>,
    /// Until when somebody carries it, in epoch milliseconds.
    claimed_until: i64,
}

impl Feeds {
    /// Carries each note that is under way one batch further; answers for how many that was done.
    ///
    /// Safe with any number of workers. To be called again at once unless it answers 0.
    ///
    /// # Errors
    /// The stores'; notes stay where they are.
    pub async fn fan_out_due(&self) -> Result<usize, Error> {
        let due = blog_fanout::Entity::find()
            .filter(blog_fanout::Column::DoneAt.is_null())
            .order_by_asc(blog_fanout::Column::BlogId)
            .limit(NOTES_PER_STEP)
            .all(self.infra.db.conn())
            .await?;
        let mut carried = 0;
        for row in due {
            carried += usize::from(self.carry(row).await?);
        }
        Ok(carried)
    }

    /// One batch of one note; `false` when somebody else has it.
    async fn carry(&self, row: blog_fanout::Model) -> Result<bool, Error> {
        let Some((step, claimed)) = self.claim(&row).await? else {
            return Ok(false);
        };
        let (author, follows) = (UserId(row.author_id), &self.parts.follows);
        let followers = follows.followers_batch(author, step.after, BATCH).await?;
        let users: Vec<UserId> = followers.iter().map(|f| UserId(f.follower_id)).collect();
        let entry = Entry::new((row.blog_id, row.author_id, row.created_at));
        let seen_after = match step.reach {
            Reach::All => None,
            Reach::Active => Some(self.infra.clock.now_ms() - as_ms(ACTIVE_FOR)),
        };
        for users in users.chunks(INBOXES_PER_CALL) {
            let pushed = self.push_to_inboxes(users, &entry, seen_after).await?;
            metrics::counter!("lifemate_feeds_pushes_total").increment(pushed);
        }
        let next = StepV1 {
            after: followers.last().map(FollowKey::of).or(step.after),
            claimed_until: 0,
            ..step
        };
        let is_done = followers.len() < BATCH;
        self.advance(&row, &claimed, (next, is_done)).await?;
        Ok(true)
    }

    /// Takes a row for a while; `None` when somebody else has it. A note that not all are pushed is in its author's
    /// outbox before anybody is.
    async fn claim(&self, row: &blog_fanout::Model) -> Result<Option<(StepV1, String)>, Error> {
        let now = self.infra.clock.now_ms();
        let known = row.step.as_ref().and_then(|s| serde_json::from_str(s).ok());
        let step = match known {
            Some(StepV1 { claimed_until, .. }) if claimed_until > now => return Ok(None),
            Some(step) => step,
            None => StepV1 {
                reach: self.reach_of(UserId(row.author_id)).await?,
                after: None,
                claimed_until: 0,
            },
        };
        let step = StepV1 {
            claimed_until: now + as_ms(CLAIM),
            ..step
        };
        let claimed = text(&step);
        let (note, mark) = (row.clone(), claimed.clone());
        let write = self.infra.db.write(move |txn| {
            let (row, mark) = (note.clone(), mark.clone());
            async move {
                let is_ours = set_step(txn, &row, (row.step.as_deref(), &mark), None).await?;
                if is_ours && step.reach == Reach::Active {
                    put_into_outbox(txn, &row).await?;
                }
                Ok(is_ours)
            }
            .boxed()
        });
        Ok(write.await?.then_some((step, claimed)))
    }

    async fn reach_of(&self, author: UserId) -> Result<Reach, Error> {
        let followers = self.parts.follows.follower_count(author).await?;
        Ok(match followers > self.settings.push_max_followers {
            true => Reach::Active,
            false => Reach::All,
        })
    }

    /// Whoever took the row over after a claim ran out sets the place himself.
    async fn advance(
        &self,
        row: &blog_fanout::Model,
        claimed: &str,
        (next, is_done): (StepV1, bool),
    ) -> Result<(), Error> {
        let done_at = is_done.then(|| self.infra.clock.now_ms());
        let conn = self.infra.db.conn();
        let change = (Some(claimed), &*text(&next));
        let is_ours = set_step(conn, row, change, done_at).await?;
        if is_ours && is_done {
            metrics::counter!("lifemate_feeds_fanouts_total", "reach" => next.reach.name())
                .increment(1);
            tracing::debug!(blog.id = row.blog_id, "a note has reached its followers");
        }
        Ok(())
    }

    /// Measures what is under way.
    ///
    /// # Errors
    /// The database's.
    pub async fn measure(&self) -> Result<(), Error> {
        let due = || blog_fanout::Entity::find().filter(blog_fanout::Column::DoneAt.is_null());
        let conn = self.infra.db.conn();
        let pending = due().count(conn).await?;
        let oldest = due().order_by_asc(blog_fanout::Column::BlogId);
        let oldest = oldest.one(conn).await?;
        let lag = oldest.map_or(0, |row| self.infra.clock.now_ms() - row.created_at);
        metrics::gauge!("lifemate_feeds_fanout_pending")
            .set(f64::from(u32::try_from(pending).unwrap_or(u32::MAX)));
        metrics::gauge!("lifemate_feeds_fanout_lag_ms")
            .set(f64::from(u32::try_from(lag.max(0)).unwrap_or(u32::MAX)));
        Ok(())
    }
}

async fn set_step<C: ConnectionTrait>(
    conn: &C,
    row: &blog_fanout::Model,
    (before, after): (Option<&str>, &str),
    done_at: Option<i64>,
) -> Result<bool, DbErr> {
    use blog_fanout::Column;
    let is_as_known = match before {
        Some(step) => Column::Step.eq(step),
        None => Column::Step.is_null(),
    };
    let changed = blog_fanout::Entity::update_many()
        .col_expr(Column::Step, Expr::value(after))
        .col_expr(Column::DoneAt, Expr::value(done_at))
        .filter(Column::BlogId.eq(row.blog_id))
        .filter(Column::DoneAt.is_null())
        .filter(is_as_known)
        .exec(conn)
        .await?;
    Ok(changed.rows_affected == 1)
}

async fn put_into_outbox<C: ConnectionTrait>(
    conn: &C,
    row: &blog_fanout::Model,
) -> Result<(), DbErr> {
    let note = feed_outbox::Model {
        blog_id: row.blog_id,
        author_id: row.author_id,
        created_at: row.created_at,
    };
    let again = OnConflict::column(feed_outbox::Column::BlogId)
        .update_column(feed_outbox::Column::AuthorId)
        .to_owned();
    feed_outbox::Entity::insert(note.into_active_model())
        .on_conflict(again)
        .exec_without_returning(conn)
        .await
        .map(|_| ())
}

fn text(step: &StepV1) -> String {
    serde_json::to_string(step).expect("invariant: numbers and words are always JSON")
}

fn as_ms(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// Says what each metric of feeds means.
pub(super) fn describe_metrics() {
    describe_counter!(
        "lifemate_feeds_fanouts_total",
        "Notes that have reached their followers, all of them or the active ones"
    );
    describe_counter!(
        "lifemate_feeds_pushes_total",
        "Inboxes that took a note from a worker"
    );
    describe_counter!(
        "lifemate_feeds_inboxes_total",
        "Inboxes filled from the database: built, after follows, after a long absence"
    );
    describe_gauge!(
        "lifemate_feeds_fanout_pending",
        "Notes under way to followers; readers find them all the same"
    );
    describe_gauge!(
        "lifemate_feeds_fanout_lag_ms",
        Unit::Milliseconds,
        "Age of the oldest note under way to followers"
    );
    describe_gauge!(
        "lifemate_feeds_watchers",
        "Subscriptions to feeds on this node"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of a version before are under way while a new one starts.
    #[test]
    fn a_step_has_these_bytes() {
        let step = StepV1 {
            reach: Reach::Active,
            after: Some(FollowKey {
                created_at: 5,
                id: 6,
            }),
            claimed_until: 7,
        };
        let bytes = r#"{"reach":"Active","after":{"created_at":5,"id":6},"claimed_until":7}"#;
        assert_eq!(text(&step), bytes);
        let begun = r#"{"reach":"All","after":null,"claimed_until":0,"more":1}"#;
        let begun: StepV1 = serde_json::from_str(begun).unwrap();
        assert_eq!((begun.reach, begun.after), (Reach::All, None));
    }
}
