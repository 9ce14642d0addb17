//! Two people who follow each other write to each other. Who follows whom is `follows`; this is not for groups.
//!
//! A message is numbered twice under locks: in its conversation, and among all messages of each of its two people. Both
//! numbers have no gaps and grow in the order of commits. So a page of a history is a range of numbers, a live reader
//! who has come to a number has missed none, and what is unread is a difference: how many the other one has sent, less
//! how many of those lie below the mark.

mod list;
mod live;
mod send;

use deadpool_redis::redis::RedisError;
use sea_orm::DbErr;

use entity::{conversation_member, message};

use crate::define_id;
use crate::follows::{self, Follows};
use crate::infra::Infra;
use crate::infra::bells::Bells;
use crate::infra::fault::{Fault, Faulty, database_fault, redis_fault};
use crate::infra::ids::IdsError;
use crate::infra::text::TextError;
use crate::infra::turns::Turns;
use crate::users::{self, UserId, Users};

pub use list::MessageRange;
pub use send::{NewMessage, Sent};

define_id!(
    /// The number of a conversation.
    ConversationId
);
define_id!(
    /// The number of a message.
    MessageId
);

/// The longest message, in characters.
pub const TEXT_MAX_CHARS: usize = 2_000;
/// The longest request id, in characters.
pub const REQUEST_ID_MAX_CHARS: usize = 64;
/// The channel that tells of new messages.
const CHANNEL: &str = "chats";
/// Ids in one question.
const IDS_PER_QUESTION: usize = 500;

/// A message as stored.
pub type Message = message::Model;
/// One side of a conversation.
type Member = conversation_member::Model;

/// What can go wrong with chats.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such person to write to.
    #[error("there is no such user")]
    NoSuchUser,
    /// Nobody writes to himself.
    #[error("a message goes to somebody else")]
    ToSelf,
    /// The text is refused.
    #[error(transparent)]
    Text(#[from] TextError),
    /// The client's request id is malformed.
    #[error("a client request id has 1 to 64 letters, digits, '_', '.', ':' or '-'")]
    BadRequestId,
    /// The client used the id for another message.
    #[error("this client request id stands for another message")]
    RequestIdReused,
    /// No such conversation or message, or not the user's.
    #[error("there is no such conversation or message")]
    NotFound,
    /// No id for a message.
    #[error("no id for a message: {0}")]
    Ids(#[from] IdsError),
    /// Who follows whom cannot be told.
    #[error(transparent)]
    Follows(#[from] follows::Error),
    /// Who there is cannot be told.
    #[error(transparent)]
    Users(#[from] users::Error),
    /// The database.
    #[error("database: {0}")]
    Database(#[from] DbErr),
    /// Redis.
    #[error("redis: {0}")]
    Redis(#[from] RedisError),
}

impl Faulty for Error {
    fn fault(&self) -> Fault {
        match self {
            Self::NoSuchUser | Self::NotFound => Fault::NotFound,
            Self::ToSelf => Fault::BadInput {
                argument: "input.userId",
            },
            Self::Text(e) => e.fault(),
            Self::BadRequestId | Self::RequestIdReused => Fault::BadInput {
                argument: "input.clientRequestId",
            },
            Self::Ids(_) => Fault::Unavailable,
            Self::Follows(e) => e.fault(),
            Self::Users(e) => e.fault(),
            Self::Database(e) => database_fault(e),
            Self::Redis(e) => redis_fault(e),
        }
    }
}

/// A conversation, as both of its people have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversation {
    /// The conversation.
    pub id: ConversationId,
    sides: [Member; 2],
}

/// A conversation as one of its people has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// The conversation.
    pub id: ConversationId,
    /// The other one.
    pub other: UserId,
    /// How many messages there are; the newest has this number.
    pub messages: i64,
    /// The newest message; `None` while there is none.
    pub last_message: Option<MessageId>,
    /// The newest message's number among all of this person's: the place in the list of conversations.
    pub last_feed: i64,
    /// How many messages of the other one are unread.
    pub unread: i64,
    /// Messages up to this number are read by this person.
    pub read_seq: i64,
    /// Messages up to this number are read by the other one.
    pub other_read_seq: i64,
}

impl Conversation {
    /// The conversation as this user has it; `None` when it is not theirs.
    pub fn of(&self, user: UserId) -> Option<View> {
        let [one, two] = &self.sides;
        let (own, other) = match user.0 {
            id if id == one.user_id => (one, two),
            id if id == two.user_id => (two, one),
            _ => return None,
        };
        Some(View {
            id: self.id,
            other: UserId(other.user_id),
            messages: own.received + other.received,
            last_message: (own.last_message_id > 0).then_some(MessageId(own.last_message_id)),
            last_feed: own.last_feed,
            unread: own.received - own.read_received,
            read_seq: own.read_seq,
            other_read_seq: other.read_seq,
        })
    }
}

/// Chats. Cheap to clone.
#[derive(Clone)]
pub struct Chats {
    infra: Infra,
    users: Users,
    follows: Follows,
    bells: Bells,
    turns: Turns,
}

impl Chats {
    /// Makes the concept.
    pub fn new(infra: Infra, users: Users, follows: Follows) -> Self {
        let bells = Bells::new(infra.redis.clone(), CHANNEL);
        Self {
            infra,
            users,
            follows,
            bells,
            turns: Turns::default(),
        }
    }
}
