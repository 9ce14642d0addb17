//! An inbox in Redis: its keys, and what its scripts answer. When they are called is not decided here.

use std::time::Duration;

use deadpool_redis::redis::RedisError;
use uuid::Uuid;

use super::entry::{Entry, beginning};
use super::{ACTIVE_FOR, Feeds, INBOX_MAX};
use crate::blogs::BlogKey;
use crate::infra::redis::Redis;
use crate::users::UserId;

/// A look is written down at most so often.
const TOUCH_EVERY: Duration = Duration::from_secs(300);
/// Clocks of a reader and of a worker may differ by so much; within it, a reader rather fetches what he has.
const SLACK: Duration = Duration::from_secs(600);
/// An inbox that nobody looks at is kept so long; then it is built anew.
const LIFE: Duration = Duration::from_secs(30 * 24 * 3_600);

/// An inbox as its owner found it.
#[derive(Clone, Debug)]
pub(super) struct Inbox {
    pub(super) token: String,
    /// Whether it holds what was there before it.
    pub(super) is_built: bool,
    /// The change of whom its owner follows up to which it is right; -1 for none.
    pub(super) seq: i64,
    /// Since when pushes may have passed it by, in epoch milliseconds; -1 when none has.
    pub(super) gap: i64,
}

/// What is put into an inbox, and what it makes up for.
pub(super) struct Fill {
    pub(super) entries: Vec<Entry>,
    /// Whether there was more to read than these, below them.
    pub(super) has_more: bool,
    pub(super) seq: i64,
    pub(super) gap: i64,
    pub(super) is_all: bool,
}

/// A part of an inbox.
pub(super) struct Part {
    /// The newest first.
    pub(super) entries: Vec<Entry>,
    /// Down to where nothing is missing; `None` when nothing is at all.
    pub(super) floor: Option<Entry>,
}

impl Feeds {
    fn inboxes(&self) -> &Redis {
        self.infra.cache.redis()
    }

    /// Opens an inbox for its owner, who is seen by that; makes it when there is none.
    pub(super) async fn open_inbox(&self, user: UserId) -> Result<Inbox, RedisError> {
        let redis = self.inboxes();
        let args = [
            self.infra.clock.now_ms().to_string(),
            (ACTIVE_FOR - SLACK).as_millis().to_string(),
            TOUCH_EVERY.as_millis().to_string(),
            LIFE.as_millis().to_string(),
            Uuid::new_v4().simple().to_string(),
        ];
        let (token, is_built, seq, gap) = redis
            .run(&redis.scripts().feed_open, &keys(redis, user), &args)
            .await?;
        Ok(Inbox {
            token,
            is_built,
            seq,
            gap,
        })
    }

    /// Puts into an inbox what was read for it; `false` when it is another one by now.
    pub(super) async fn fill_inbox(
        &self,
        user: UserId,
        inbox: &Inbox,
        fill: Fill,
    ) -> Result<bool, RedisError> {
        let redis = self.inboxes();
        let floor = fill.entries.last().filter(|_| fill.has_more);
        let mut args = vec![
            inbox.token.clone(),
            INBOX_MAX.to_string(),
            floor.map(Entry::to_string).unwrap_or_default(),
            fill.seq.to_string(),
            fill.gap.to_string(),
            u8::from(fill.is_all).to_string(),
        ];
        args.extend(fill.entries.iter().map(Entry::to_string));
        redis
            .run(&redis.scripts().feed_fill, &keys(redis, user), &args)
            .await
    }

    /// Reads at most `limit` entries below a place; `None` when the inbox was lost.
    pub(super) async fn read_inbox(
        &self,
        user: UserId,
        inbox: &Inbox,
        (below, limit): (Option<BlogKey>, usize),
    ) -> Result<Option<Part>, RedisError> {
        let redis = self.inboxes();
        let below = below.map_or("+".to_owned(), |key| format!("({}", beginning(&key)));
        let args = [inbox.token.clone(), below, limit.to_string()];
        let found: Option<(String, Vec<String>)> = redis
            .run(&redis.scripts().feed_read, &keys(redis, user), &args)
            .await?;
        Ok(found.map(|(floor, entries)| Part {
            entries: entries.iter().filter_map(|e| Entry::parse(e)).collect(),
            floor: Entry::parse(&floor),
        }))
    }

    /// Puts a note into inboxes, those of owners seen after a time, or all; answers how many took it.
    pub(super) async fn push_to_inboxes(
        &self,
        users: &[UserId],
        entry: &Entry,
        seen_after_ms: Option<i64>,
    ) -> Result<u64, RedisError> {
        let redis = self.inboxes();
        let keys: Vec<String> = users.iter().flat_map(|user| keys(redis, *user)).collect();
        let args = [
            entry.to_string(),
            INBOX_MAX.to_string(),
            seen_after_ms.unwrap_or(-1).to_string(),
        ];
        redis.run(&redis.scripts().feed_push, &keys, &args).await
    }
}

/// Hash and sorted set: a user's inbox, see `lua/feed_head.lua`; lives for 30 days after a look, may be evicted.
fn keys(redis: &Redis, user: UserId) -> [String; 2] {
    [
        redis.key(format!("feeds:inbox:{user}")),
        redis.key(format!("feeds:inbox:{user}:entries")),
    ]
}
