//! Reading a feed by pages: from the inbox and what is under way, then from the database; filled up where notes have
//! gone or authors are followed no more.

use std::collections::HashMap;

use super::entry::Entry;
use super::inbox::Inbox;
use super::{Error, Feeds};
use crate::blogs::{Blog, BlogId, BlogKey};
use crate::users::UserId;

/// Entries that are read beyond those wanted, so that a few deleted notes do not cost another trip.
const SPARE: usize = 8;
/// Entries of one trip, at most.
const CHUNK_MAX: usize = 400;

/// A stretch of a feed in which nothing is missing.
struct Stretch {
    /// The newest first.
    entries: Vec<Entry>,
    /// The place below which the feed goes on; `None` at its end.
    rest: Option<BlogKey>,
}

impl Feeds {
    /// Notes of those whom a user follows, the newest first, after a place in the feed. Fewer than `limit` only when
    /// nothing follows.
    ///
    /// # Errors
    /// The database's. Without Redis it takes longer.
    pub async fn page(
        &self,
        user: UserId,
        after: Option<BlogKey>,
        limit: usize,
    ) -> Result<Vec<Blog>, Error> {
        let mut inbox = self.ready_inbox(user).await?;
        let (mut below, mut chunk) = (after, limit + SPARE);
        let mut page: Vec<Blog> = Vec::with_capacity(limit);
        loop {
            let stretch = match &inbox {
                Some(open) => self.stretch_of_inbox(user, open, (below, chunk)).await?,
                None => None,
            };
            let stretch = match stretch {
                Some(stretch) => stretch,
                // Below the floor, or the inbox is gone: the rest of this page is the database's.
                None => {
                    inbox = None;
                    self.stretch_of_database(user, below, chunk).await?
                }
            };
            page.extend(self.visible(user, stretch.entries).await?);
            if page.len() >= limit || stretch.rest.is_none() {
                page.truncate(limit);
                return Ok(page);
            }
            below = stretch.rest;
            chunk = (chunk * 2).min(CHUNK_MAX);
        }
    }

    /// `None` when the inbox holds nothing more, but may not be all there is; or when it is gone.
    async fn stretch_of_inbox(
        &self,
        user: UserId,
        inbox: &Inbox,
        (below, limit): (Option<BlogKey>, usize),
    ) -> Result<Option<Stretch>, Error> {
        // What is under way first: a note that is done meanwhile is in the inbox then.
        let under_way = self.read_under_way(user, below, limit).await?;
        let part = match self.read_inbox(user, inbox, (below, limit)).await {
            Ok(Some(part)) => part,
            Ok(None) => return Ok(None),
            Err(e) => {
                tracing::debug!(error = %e, "the rest of a feed is read from the database");
                return Ok(None);
            }
        };
        let is_full = |entries: &[Entry]| entries.len() == limit;
        let last = |entries: &[Entry]| entries.last().copied().filter(|_| is_full(entries));
        let pushed_to = last(&part.entries).or(part.floor);
        let down_to = pushed_to.max(last(&under_way));
        if part.entries.is_empty() && below.is_some_and(|below| is_at(part.floor, below)) {
            return Ok(None);
        }
        let mut entries = part.entries;
        entries.extend(under_way);
        entries.sort_unstable_by(|a, b| b.cmp(a));
        entries.dedup();
        entries.retain(|entry| down_to.is_none_or(|down_to| *entry >= down_to));
        Ok(Some(Stretch {
            entries,
            rest: down_to.map(|entry| entry.key()),
        }))
    }

    async fn stretch_of_database(
        &self,
        user: UserId,
        below: Option<BlogKey>,
        limit: usize,
    ) -> Result<Stretch, Error> {
        let entries = self.read_feed(user, below, limit).await?;
        let last = entries.last().filter(|_| entries.len() == limit);
        Ok(Stretch {
            rest: last.map(Entry::key),
            entries,
        })
    }

    /// Those of notes that are there, by authors that are there and still followed.
    async fn visible(&self, user: UserId, entries: Vec<Entry>) -> Result<Vec<Blog>, Error> {
        let mut authors: Vec<UserId> = entries.iter().map(|entry| entry.author).collect();
        authors.sort_unstable();
        authors.dedup();
        let followed = self.parts.follows.is_following(user, &authors).await?;
        authors.retain(|author| followed.contains(author));
        let cards = self.parts.users.cards(&authors).await?;
        let known: Vec<UserId> = cards.iter().map(|card| UserId(card.id)).collect();
        let ids: Vec<BlogId> = entries
            .iter()
            .filter(|entry| known.contains(&entry.author))
            .map(|entry| entry.blog)
            .collect();
        let shown = self.parts.blogs.shown(&ids).await?;
        let mut shown: HashMap<i64, Blog> = shown.into_iter().map(|b| (b.id, b)).collect();
        Ok(ids.iter().filter_map(|id| shown.remove(&id.0)).collect())
    }
}

/// Whether a place is at the floor of an inbox, or below it.
fn is_at(floor: Option<Entry>, below: BlogKey) -> bool {
    floor.is_some_and(|floor| (below.created_at, below.id) <= (floor.created_at, floor.blog))
}
