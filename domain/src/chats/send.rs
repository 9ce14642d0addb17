//! Writing a message: who may, once an id, numbered under locks.

use entity::{chat_box, conversation, conversation_member, message};
use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{
    ActiveModelTrait, ColumnTrait, Condition, DatabaseTransaction, DbErr, EntityTrait, QueryFilter,
    QueryOrder, QuerySelect,
};

use super::{Chats, ConversationId, Error, Member, Message, REQUEST_ID_MAX_CHARS, TEXT_MAX_CHARS};
use crate::infra::db::is_unique_violation;
use crate::infra::text::check_text;
use crate::users::UserId;

/// A message to write.
#[derive(Clone, Debug)]
pub struct NewMessage {
    /// Who writes.
    pub from: UserId,
    /// To whom.
    pub to: UserId,
    /// The words, 1 to 2,000 characters, kept as they are.
    pub text: String,
    /// The writer's own id of it: a repeat is the same message. `None`: every call is another message.
    pub request: Option<String>,
}

/// What became of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It is written, now or by an earlier call with the same id.
    Written(Message),
    /// The two do not follow each other.
    NotMutual,
}

/// How far a writing came.
enum Step {
    /// Somebody has no box yet.
    NoBox,
    /// The id has been used.
    Before(Message),
    Done(Message),
}

impl Chats {
    /// Writes a message, if the two follow each other at this time; tells both, on all their devices.
    ///
    /// A repeat of an id answers the message that it stands for, also when the two no longer follow each other.
    ///
    /// # Errors
    /// `Text`, `ToSelf`, `NoSuchUser`, `BadRequestId`, `RequestIdReused`: nothing is written then.
    pub async fn send(&self, new: NewMessage) -> Result<Sent, Error> {
        check_text("input.text", &new.text, 1, TEXT_MAX_CHARS)?;
        if new.from == new.to {
            return Err(Error::ToSelf);
        }
        if let Some(request) = &new.request {
            check_request(request)?;
            if let Some(before) = self.find_request(new.from, request).await? {
                return same(before, &new);
            }
        }
        if !self.follows.are_mutual(new.from, new.to).await? {
            let known = self.users.cards(&[new.to]).await?;
            return match known.is_empty() {
                true => Err(Error::NoSuchUser),
                false => Ok(Sent::NotMutual),
            };
        }
        let conversation = self.open(new.from, new.to).await?;
        let row = self.row(conversation, &new)?;
        let message = loop {
            match self.write(row.clone()).await? {
                Step::NoBox => self.make_boxes(&new).await?,
                Step::Before(before) => return same(before, &new),
                Step::Done(message) => break message,
            }
        };
        let news = [
            (new.from.0, message.sender_feed),
            (new.to.0, message.recipient_feed),
        ];
        self.bells.ring(&news).await;
        Ok(Sent::Written(message))
    }

    /// The conversation of two, made if there is none. Of those who make it at once all get the same.
    async fn open(&self, one: UserId, other: UserId) -> Result<ConversationId, Error> {
        if let Some(known) = self.find_pair(one, other).await? {
            return Ok(known);
        }
        let (low_id, high_id) = pair(one, other);
        let row = conversation::Model {
            id: self.infra.ids.next()?,
            low_id,
            high_id,
            created_at: self.infra.clock.now_ms(),
        };
        let made = self.infra.db.write(move |txn| {
            let row = row.clone();
            Box::pin(async move { make(txn, row).await })
        });
        match made.await {
            Ok(made) => Ok(made),
            Err(e) if is_unique_violation(&e) => {
                let known = self.find_pair(one, other).await?;
                known.ok_or(Error::Database(e))
            }
            Err(e) => Err(e.into()),
        }
    }

    pub(super) async fn find_pair(
        &self,
        one: UserId,
        other: UserId,
    ) -> Result<Option<ConversationId>, DbErr> {
        let (low, high) = pair(one, other);
        let found = conversation::Entity::find()
            .filter(conversation::Column::LowId.eq(low))
            .filter(conversation::Column::HighId.eq(high))
            .one(self.infra.db.conn())
            .await?;
        Ok(found.map(|c| ConversationId(c.id)))
    }

    async fn find_request(&self, from: UserId, request: &str) -> Result<Option<Message>, DbErr> {
        by_request(from.0, request).one(self.infra.db.conn()).await
    }

    fn row(&self, conversation: ConversationId, new: &NewMessage) -> Result<Message, Error> {
        let id = self.infra.ids.next()?;
        Ok(Message {
            id,
            conversation_id: conversation.0,
            seq: 0,
            sender_id: new.from.0,
            recipient_id: new.to.0,
            sent: 0,
            text: new.text.clone(),
            // No client can choose this one.
            request_id: new.request.clone().unwrap_or_else(|| format!("/{id}")),
            sender_feed: 0,
            recipient_feed: 0,
            created_at: self.infra.clock.now_ms(),
        })
    }

    async fn write(&self, row: Message) -> Result<Step, DbErr> {
        let _turn = self.turns.take(&[row.sender_id, row.recipient_id]).await;
        self.infra
            .db
            .write(move |txn| {
                let row = row.clone();
                Box::pin(async move { number_and_write(txn, row).await })
            })
            .await
    }

    /// Outside the transaction that needs them: a lost race would end that on PostgreSQL.
    async fn make_boxes(&self, new: &NewMessage) -> Result<(), DbErr> {
        for user in [new.from, new.to] {
            let first = chat_box::Model {
                user_id: user.0,
                last_feed: 0,
            };
            let insert = chat_box::Entity::insert(chat_box::ActiveModel::from(first).reset_all());
            match insert.exec_without_returning(self.infra.db.conn()).await {
                Err(e) if !is_unique_violation(&e) => return Err(e),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Two people, the smaller number first: they have one conversation, whoever began it.
fn pair(one: UserId, other: UserId) -> (i64, i64) {
    if one < other {
        (one.0, other.0)
    } else {
        (other.0, one.0)
    }
}

/// A conversation with its two sides.
async fn make(
    txn: &DatabaseTransaction,
    row: conversation::Model,
) -> Result<ConversationId, DbErr> {
    let id = row.id;
    let side = |user_id| {
        conversation_member::ActiveModel::from(Member {
            conversation_id: id,
            user_id,
            last_feed: 0,
            last_message_id: 0,
            received: 0,
            read_seq: 0,
            read_received: 0,
        })
        .reset_all()
    };
    let sides = [side(row.low_id), side(row.high_id)];
    conversation::Entity::insert(conversation::ActiveModel::from(row).reset_all())
        .exec_without_returning(txn)
        .await?;
    conversation_member::Entity::insert_many(sides)
        .exec_without_returning(txn)
        .await?;
    Ok(ConversationId(id))
}

/// Lock order: boxes by their users' numbers, then the conversation's sides. The boxes alone keep two messages of one
/// conversation apart.
async fn number_and_write(txn: &DatabaseTransaction, mut row: Message) -> Result<Step, DbErr> {
    let boxes = chat_box::Entity::find()
        .filter(chat_box::Column::UserId.is_in([row.sender_id, row.recipient_id]))
        .order_by_asc(chat_box::Column::UserId)
        .lock_exclusive()
        .all(txn)
        .await?;
    let last_feed = |user| {
        boxes
            .iter()
            .find(|b| b.user_id == user)
            .map(|b| b.last_feed)
    };
    let (Some(sender_feed), Some(recipient_feed)) =
        (last_feed(row.sender_id), last_feed(row.recipient_id))
    else {
        return Ok(Step::NoBox);
    };
    if let Some(before) = by_request(row.sender_id, &row.request_id).one(txn).await? {
        return Ok(Step::Before(before));
    }
    let sides = conversation_member::Entity::find()
        .filter(conversation_member::Column::ConversationId.eq(row.conversation_id))
        .lock_exclusive()
        .all(txn)
        .await?;
    let received: i64 = sides.iter().map(|s| s.received).sum();
    let by_sender = sides.iter().find(|s| s.user_id == row.recipient_id);
    row.seq = received + 1;
    row.sent = by_sender.map_or(0, |s| s.received) + 1;
    row.sender_feed = sender_feed + 1;
    row.recipient_feed = recipient_feed + 1;
    message::Entity::insert(message::ActiveModel::from(row.clone()).reset_all())
        .exec_without_returning(txn)
        .await?;
    grow(txn, &row, (row.sender_id, row.sender_feed), 0).await?;
    grow(txn, &row, (row.recipient_id, row.recipient_feed), 1).await?;
    Ok(Step::Done(row))
}

/// Brings one person's box and side up to a message.
async fn grow(
    txn: &DatabaseTransaction,
    row: &Message,
    (user, feed): (i64, i64),
    received: i64,
) -> Result<(), DbErr> {
    use conversation_member::Column;
    chat_box::Entity::update_many()
        .col_expr(chat_box::Column::LastFeed, Expr::value(feed))
        .filter(chat_box::Column::UserId.eq(user))
        .exec(txn)
        .await?;
    conversation_member::Entity::update_many()
        .col_expr(Column::LastFeed, Expr::value(feed))
        .col_expr(Column::LastMessageId, Expr::value(row.id))
        .col_expr(Column::Received, Expr::col(Column::Received).add(received))
        .filter(Column::ConversationId.eq(row.conversation_id))
        .filter(Column::UserId.eq(user))
        .exec(txn)
        .await?;
    Ok(())
}

fn by_request(sender: i64, request: &str) -> sea_orm::Select<message::Entity> {
    let wanted = Condition::all()
        .add(message::Column::SenderId.eq(sender))
        .add(message::Column::RequestId.eq(request));
    message::Entity::find().filter(wanted)
}

/// An id stands for one message: a repeat must be one.
fn same(before: Message, new: &NewMessage) -> Result<Sent, Error> {
    if before.recipient_id == new.to.0 && before.text == new.text {
        Ok(Sent::Written(before))
    } else {
        Err(Error::RequestIdReused)
    }
}

fn check_request(text: &str) -> Result<(), Error> {
    let fits = (1..=REQUEST_ID_MAX_CHARS).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"_.:-".contains(&b));
    if fits {
        Ok(())
    } else {
        Err(Error::BadRequestId)
    }
}
