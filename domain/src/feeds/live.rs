//! New notes as they come, on any node. A note is told by an event from where it was published; what an event does not
//! bring, a look into the database does, every two seconds. Whom a note is for is asked of the database then.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use futures_util::{Stream, stream};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::entry::Entry;
use super::{Error, Feeds};
use crate::blogs::{Blog, BlogId};
use crate::users::UserId;

/// How often the database is looked at for notes of which no event came.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How far a look reaches back behind the one before: a note may be committed a little after its time.
const LOOK_BACK_MS: i64 = 10_000;
/// Notes of one look.
const LOOK_MAX: usize = 1_000;
/// Notes that a slow subscriber may be behind.
const BACKLOG: usize = 256;

/// Who watches on this node, and what they were told.
#[derive(Default)]
pub(super) struct Live {
    hub: Mutex<Hub>,
}

#[derive(Default)]
struct Hub {
    next: u64,
    watchers: HashMap<u64, Watcher>,
    /// Notes that were told, and when, so that none is told twice.
    told: HashMap<BlogId, i64>,
    /// Up to when all notes have been looked at.
    looked_at_ms: i64,
}

struct Watcher {
    user: UserId,
    since_ms: i64,
    notes: mpsc::Sender<Blog>,
}

/// A watcher's place; dropping it ends the watch.
struct Place {
    feeds: Feeds,
    number: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.feeds.live.hub.lock().watchers.remove(&self.number);
        metrics::gauge!("lifemate_feeds_watchers").decrement(1.0);
    }
}

impl Feeds {
    /// Notes that those whom a user follows publish from now on, each once. Ends with an error when they are read too
    /// slowly. May be dropped at any time.
    pub fn watch(
        &self,
        user: UserId,
    ) -> impl Stream<Item = Result<Blog, Error>> + Send + 'static + use<> {
        let (sender, receiver) = mpsc::channel(BACKLOG);
        let now = self.infra.clock.now_ms();
        let mut hub = self.live.hub.lock();
        if hub.watchers.is_empty() {
            hub.looked_at_ms = now;
        }
        hub.next += 1;
        let number = hub.next;
        let watcher = Watcher {
            user,
            since_ms: now,
            notes: sender,
        };
        hub.watchers.insert(number, watcher);
        drop(hub);
        metrics::gauge!("lifemate_feeds_watchers").increment(1.0);
        let place = Place {
            feeds: self.clone(),
            number,
        };
        stream::unfold(Some((receiver, place)), |watch| async move {
            let (mut receiver, place) = watch?;
            match receiver.recv().await {
                Some(note) => Some((Ok(note), Some((receiver, place)))),
                None => Some((Err(Error::FellBehind), None)),
            }
        })
    }

    /// Tells a note of which an event came: `<note>:<author>`.
    pub(super) async fn hear(&self, news: &str) -> Result<(), Error> {
        let numbers = news
            .split_once(':')
            .map(|(note, author)| (note.parse(), author.parse()));
        let Some((Ok(note), Ok(author))) = numbers else {
            return Ok(());
        };
        self.tell(note, author, None).await
    }

    /// Tells the notes of which no event came.
    pub(super) async fn look_for_news(&self) -> Result<(), Error> {
        let now = self.infra.clock.now_ms();
        let from_ms = {
            let mut hub = self.live.hub.lock();
            if hub.watchers.is_empty() {
                hub.told.clear();
                return Ok(());
            }
            let from_ms = hub.looked_at_ms.min(now) - LOOK_BACK_MS;
            hub.told.retain(|_, at| *at >= from_ms - LOOK_BACK_MS);
            from_ms
        };
        let published = self.read_published(from_ms, LOOK_MAX).await?;
        for Entry {
            created_at,
            blog,
            author,
        } in &published
        {
            self.tell(*blog, *author, Some(*created_at)).await?;
        }
        // More than one look takes: the next one begins where this one ended.
        let reached = published.last().filter(|_| published.len() == LOOK_MAX);
        let reached = reached.map_or(now, |entry| entry.created_at + LOOK_BACK_MS);
        self.live.hub.lock().looked_at_ms = reached;
        Ok(())
    }

    /// Tells one note to those who watch and follow its author; those alone who watched when it was published, where that
    /// is known from the row and not from an event.
    async fn tell(
        &self,
        note: BlogId,
        author: UserId,
        published_ms: Option<i64>,
    ) -> Result<(), Error> {
        let users: Vec<UserId> = {
            let mut hub = self.live.hub.lock();
            if hub.watchers.is_empty() || hub.told.contains_key(&note) {
                return Ok(());
            }
            hub.told.insert(note, self.infra.clock.now_ms());
            let users: HashSet<UserId> = hub.watchers.values().map(|w| w.user).collect();
            users.into_iter().collect()
        };
        let asked = self.ask(note, author, &users).await;
        if asked.is_err() {
            self.live.hub.lock().told.remove(&note);
        }
        let Some((blog, followers)) = asked? else {
            return Ok(());
        };
        let mut hub = self.live.hub.lock();
        hub.watchers.retain(|_, watcher| {
            let is_news = published_ms.is_none_or(|at| at >= watcher.since_ms);
            if !is_news || !followers.contains(&watcher.user) {
                return true;
            }
            let sent = watcher.notes.try_send(blog.clone());
            !matches!(sent, Err(TrySendError::Full(_)))
        });
        Ok(())
    }

    /// The note and its followers among those who watch; `None` when it is not for any of them.
    async fn ask(
        &self,
        note: BlogId,
        author: UserId,
        users: &[UserId],
    ) -> Result<Option<(Blog, HashSet<UserId>)>, Error> {
        let followers = self.parts.follows.followers_among(author, users).await?;
        if followers.is_empty() {
            return Ok(None);
        }
        let is_there = !self.parts.users.cards(&[author]).await?.is_empty();
        let blog = self.parts.blogs.shown(&[note]).await?.pop();
        Ok(blog.filter(|_| is_there).map(|blog| (blog, followers)))
    }
}
