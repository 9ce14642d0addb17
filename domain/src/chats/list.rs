//! Reading conversations and their history, and the marks of what was read.

use std::collections::HashMap;

use entity::{conversation_member, message};
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, Condition, DbErr, EntityTrait, QueryFilter, QueryOrder, QuerySelect};

use super::{
    Chats, Conversation, ConversationId, Error, IDS_PER_QUESTION, Member, Message, MessageId, View,
};
use crate::users::UserId;

/// Conversations whose messages are asked for in one question.
const RANGES_PER_QUESTION: usize = 50;

/// A part of a history: messages from `first` to `last`, both with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MessageRange {
    /// Whose.
    pub conversation: ConversationId,
    /// The number of the oldest message.
    pub first: i64,
    /// The number of the newest message.
    pub last: i64,
}

impl Chats {
    /// A user's conversations in which something was written, the newest message first; at most `limit` of those before
    /// the place `before`.
    ///
    /// # Errors
    /// The database's.
    pub async fn of_user(
        &self,
        user: UserId,
        before: Option<i64>,
        limit: u64,
    ) -> Result<Vec<View>, Error> {
        use conversation_member::Column;
        let own = conversation_member::Entity::find()
            .filter(Column::UserId.eq(user.0))
            .filter(Column::LastFeed.gt(0))
            .filter(Column::LastFeed.lt(before.unwrap_or(i64::MAX)))
            .order_by_desc(Column::LastFeed)
            .limit(limit)
            .all(self.infra.db.conn())
            .await?;
        let ids: Vec<_> = own
            .iter()
            .map(|m| ConversationId(m.conversation_id))
            .collect();
        let found = self.by_ids(&ids).await?;
        let mut views = Vec::with_capacity(own.len());
        for side in own {
            let known = found.iter().find(|c| c.id.0 == side.conversation_id);
            if let Some(view) = known.and_then(|c| c.of(user)) {
                // A message may have come between the two questions; the list goes on from the place it had.
                let last_feed = side.last_feed;
                views.push(View { last_feed, ..view });
            }
        }
        Ok(views)
    }

    /// Conversations, whosever they are; those that do not exist are left out.
    ///
    /// # Errors
    /// The database's.
    pub async fn by_ids(&self, ids: &[ConversationId]) -> Result<Vec<Conversation>, Error> {
        let mut sides: HashMap<i64, Vec<Member>> = HashMap::new();
        for chunk in ids.chunks(IDS_PER_QUESTION) {
            let wanted = chunk.iter().map(|id| id.0);
            let found = conversation_member::Entity::find()
                .filter(conversation_member::Column::ConversationId.is_in(wanted))
                .all(self.infra.db.conn())
                .await?;
            for side in found {
                sides.entry(side.conversation_id).or_default().push(side);
            }
        }
        let conversation = |(id, sides): (i64, Vec<Member>)| {
            let sides = sides.try_into().ok()?;
            Some(Conversation {
                id: ConversationId(id),
                sides,
            })
        };
        Ok(sides.into_iter().filter_map(conversation).collect())
    }

    /// A user's conversation with another; `None` when they never wrote to each other.
    ///
    /// # Errors
    /// The database's.
    pub async fn between(&self, user: UserId, other: UserId) -> Result<Option<View>, Error> {
        let Some(id) = self.find_pair(user, other).await? else {
            return Ok(None);
        };
        let found = self.by_ids(&[id]).await?.pop();
        Ok(found.and_then(|c| c.of(user)))
    }

    /// A conversation of a user.
    ///
    /// # Errors
    /// `NotFound`, also when it is others'; the database's.
    pub async fn require(&self, user: UserId, id: ConversationId) -> Result<View, Error> {
        let found = self.by_ids(&[id]).await?.pop();
        found.and_then(|c| c.of(user)).ok_or(Error::NotFound)
    }

    /// Messages by id; those that do not exist are left out.
    ///
    /// # Errors
    /// The database's.
    pub async fn messages(&self, ids: &[MessageId]) -> Result<Vec<Message>, Error> {
        let mut messages = Vec::with_capacity(ids.len());
        for chunk in ids.chunks(IDS_PER_QUESTION) {
            let wanted = message::Column::Id.is_in(chunk.iter().map(|id| id.0));
            let found = message::Entity::find().filter(wanted);
            messages.extend(found.all(self.infra.db.conn()).await?);
        }
        Ok(messages)
    }

    /// Parts of histories, newest first.
    ///
    /// # Errors
    /// The database's.
    pub async fn histories(
        &self,
        ranges: &[MessageRange],
    ) -> Result<HashMap<MessageRange, Vec<Message>>, Error> {
        let mut parts = HashMap::new();
        for chunk in ranges.chunks(RANGES_PER_QUESTION) {
            let wanted = chunk.iter().map(|range| {
                Condition::all()
                    .add(message::Column::ConversationId.eq(range.conversation.0))
                    .add(message::Column::Seq.between(range.first, range.last))
            });
            let found = message::Entity::find()
                .filter(wanted.fold(Condition::any(), Condition::add))
                .order_by_desc(message::Column::Seq)
                .all(self.infra.db.conn())
                .await?;
            for range in chunk {
                let own = found.iter().filter(|m| {
                    m.conversation_id == range.conversation.0
                        && (range.first..=range.last).contains(&m.seq)
                });
                parts.insert(*range, own.cloned().collect());
            }
        }
        Ok(parts)
    }

    /// Marks a conversation as read by a user, up to one of its messages; `None` marks all there are. The mark never
    /// goes back.
    ///
    /// # Errors
    /// `NotFound` when conversation or message are not there, or the conversation is others'; the database's.
    pub async fn mark_read(
        &self,
        user: UserId,
        id: ConversationId,
        up_to: Option<MessageId>,
    ) -> Result<View, Error> {
        let view = self.require(user, id).await?;
        let Some(wanted) = up_to.or(view.last_message) else {
            return Ok(view);
        };
        let found = self.messages(&[wanted]).await?.pop();
        let message = found
            .filter(|m| m.conversation_id == id.0)
            .ok_or(Error::NotFound)?;
        self.set_mark(user, &message).await?;
        self.require(user, id).await
    }

    async fn set_mark(&self, user: UserId, upto: &Message) -> Result<(), DbErr> {
        use conversation_member::Column;
        let received = match upto.recipient_id == user.0 {
            true => upto.sent,
            false => upto.seq - upto.sent,
        };
        conversation_member::Entity::update_many()
            .col_expr(Column::ReadSeq, Expr::value(upto.seq))
            .col_expr(Column::ReadReceived, Expr::value(received))
            .filter(Column::ConversationId.eq(upto.conversation_id))
            .filter(Column::UserId.eq(user.0))
            .filter(Column::ReadSeq.lt(upto.seq))
            .exec(self.infra.db.conn())
            .await?;
        Ok(())
    }
}
