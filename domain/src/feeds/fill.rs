//! Making an inbox right before it is read: new ones, after new follows, and after a long absence.

use super::inbox::{Fill, Inbox};
use super::{Error, Feeds, INBOX_MAX};
use crate::users::UserId;

/// Whoever has followed more since his last look has his inbox read anew as a whole.
const NEW_FOLLOWS_MAX: usize = 500;

impl Feeds {
    /// Opens an inbox and makes it right. `None` when Redis is away: then the database answers.
    pub(super) async fn ready_inbox(&self, user: UserId) -> Result<Option<Inbox>, Error> {
        match self.try_ready_inbox(user).await {
            Ok(inbox) => Ok(Some(inbox)),
            Err(Error::Redis(e)) => {
                tracing::debug!(error = %e, "a feed is read from the database");
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }

    async fn try_ready_inbox(&self, user: UserId) -> Result<Inbox, Error> {
        let inbox = self.open_inbox(user).await?;
        let counts = self.parts.follows.counts(&[user]).await?;
        let seq = counts.first().map_or(0, |counts| counts.seq);
        if !inbox.is_built {
            self.build(user, &inbox, seq).await?;
            return Ok(inbox);
        }
        if inbox.seq < seq {
            self.fill_new_follows(user, &inbox, seq).await?;
        }
        if inbox.gap >= 0 {
            let entries = self.read_outboxes(user, inbox.gap, INBOX_MAX).await?;
            let fill = Fill {
                has_more: entries.len() == INBOX_MAX,
                entries,
                seq: -1,
                gap: inbox.gap,
                is_all: false,
            };
            self.fill_inbox(user, &inbox, fill).await?;
            metrics::counter!("lifemate_feeds_inboxes_total", "why" => "return").increment(1);
        }
        Ok(inbox)
    }

    /// Two who build at once put the same into it.
    async fn build(&self, user: UserId, inbox: &Inbox, seq: i64) -> Result<(), Error> {
        let entries = self.read_feed(user, None, INBOX_MAX).await?;
        let fill = Fill {
            has_more: entries.len() == INBOX_MAX,
            entries,
            seq,
            gap: inbox.gap,
            is_all: true,
        };
        self.fill_inbox(user, inbox, fill).await?;
        metrics::counter!("lifemate_feeds_inboxes_total", "why" => "build").increment(1);
        Ok(())
    }

    async fn fill_new_follows(&self, user: UserId, inbox: &Inbox, seq: i64) -> Result<(), Error> {
        let follows = &self.parts.follows;
        let new = follows.followed_since(user, inbox.seq, NEW_FOLLOWS_MAX + 1);
        let new = new.await?;
        if new.len() > NEW_FOLLOWS_MAX {
            return self.build(user, inbox, seq).await;
        }
        let entries = match new.is_empty() {
            true => Vec::new(),
            false => self.read_authors(&new, INBOX_MAX).await?,
        };
        let fill = Fill {
            has_more: entries.len() == INBOX_MAX,
            entries,
            seq,
            gap: -1,
            is_all: false,
        };
        self.fill_inbox(user, inbox, fill).await?;
        metrics::counter!("lifemate_feeds_inboxes_total", "why" => "follow").increment(1);
        Ok(())
    }
}
