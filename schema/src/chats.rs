//! Chats in the API: conversations of two, their history, writing and hearing messages.

use async_graphql::{Context, Enum, ID, InputObject, Object, Result, SimpleObject, Subscription};
use chrono::{DateTime, Utc};
use domain::chats::{ConversationId, MessageId, MessageRange, NewMessage, Sent, View};
use domain::users::UserId;
use futures_util::{Stream, StreamExt};

use crate::context::ContextExt;
use crate::error::{api_error, fault_error, not_found};
use crate::limits::{Limited, MARKS, MESSAGES};
use crate::loaders::by_id;
use crate::pagination::{List, Page};
use crate::scalars::{global_id, parse_id, time};
use crate::users::User;

/// A conversation of two people, as the viewer has it.
pub struct Conversation(View);

/// A conversation of two people, as the viewer has it. Only these two see it. It stays readable when they no longer
/// follow each other.
#[Object]
impl Conversation {
    /// The global id.
    pub(crate) async fn id(&self) -> ID {
        global_id("Conversation", self.0.id.0)
    }

    /// The other one.
    async fn user(&self, ctx: &Context<'_>) -> Result<User> {
        user(ctx, self.0.other).await
    }

    /// The newest message.
    async fn last_message(&self, ctx: &Context<'_>) -> Option<Result<Message>> {
        let found = by_id(ctx).load_one(self.0.last_message?).await;
        let found = found.map_err(|e| fault_error(&*e)).transpose()?;
        Some(found.map(Message))
    }

    /// How many messages of the other one the viewer has not marked as read.
    async fn unread_count(&self) -> i32 {
        small(self.0.unread)
    }

    /// How many messages there are.
    async fn message_count(&self) -> i32 {
        small(self.0.messages)
    }

    /// The messages, newest first. Pages stay whole while new messages come.
    #[graphql(complexity = "first.unwrap_or(20).clamp(0, 50) as usize * child_complexity + 1")]
    async fn messages(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "How many, 1 to 50; 20 by default.")] first: Option<i32>,
        #[graphql(desc = "The cursor of the last one before, of the same list.")] after: Option<
            String,
        >,
    ) -> Result<List<Message>> {
        let page: Page<i64> = Page::new(ctx, format!("messages:{}", self.0.id), first, after)?;
        let last = page.after.unwrap_or(self.0.messages + 1) - 1;
        let wanted = i64::try_from(page.load()).unwrap_or(1);
        let range = MessageRange {
            conversation: self.0.id,
            first: (last - wanted + 1).max(1),
            last,
        };
        let found = by_id(ctx).load_one(range).await;
        let found = found.map_err(|e| fault_error(&*e))?.unwrap_or_default();
        let items = found.into_iter().map(Message).collect();
        Ok(page.list(ctx, items, |m: &Message| m.0.seq))
    }
}

/// What one wrote to another.
pub struct Message(domain::chats::Message);

/// What one wrote to another. Only these two see it.
#[Object]
impl Message {
    /// The global id.
    pub(crate) async fn id(&self) -> ID {
        global_id("Message", self.0.id)
    }

    /// The how-manieth of its conversation, from 1: messages of one conversation are in this order.
    async fn number(&self) -> i32 {
        small(self.0.seq)
    }

    /// Its conversation, as it is now.
    async fn conversation(&self, ctx: &Context<'_>) -> Result<Conversation> {
        let viewer = ctx.require_viewer()?.user_id;
        let found = self.sides(ctx).await?;
        let own = found.and_then(|c| c.of(viewer));
        own.map(Conversation).ok_or_else(not_found)
    }

    /// Who wrote it.
    async fn sender(&self, ctx: &Context<'_>) -> Result<User> {
        user(ctx, UserId(self.0.sender_id)).await
    }

    /// The words, 1 to 2,000 characters, as they were typed.
    async fn text(&self) -> &str {
        &self.0.text
    }

    /// When it was written.
    async fn created_at(&self) -> DateTime<Utc> {
        time(self.0.created_at)
    }

    /// Whether the one it was written to has marked it, or a newer one, as read.
    async fn is_read(&self, ctx: &Context<'_>) -> Result<bool> {
        let found = self.sides(ctx).await?;
        let theirs = found.and_then(|c| c.of(UserId(self.0.recipient_id)));
        Ok(theirs.is_some_and(|view| self.0.seq <= view.read_seq))
    }
}

impl Message {
    async fn sides(&self, ctx: &Context<'_>) -> Result<Option<domain::chats::Conversation>> {
        let id = ConversationId(self.0.conversation_id);
        let found = by_id(ctx).load_one(id).await;
        found.map_err(|e| fault_error(&*e))
    }
}

async fn user(ctx: &Context<'_>, id: UserId) -> Result<User> {
    let found = by_id(ctx).load_one(id).await;
    let found = found.map_err(|e| fault_error(&*e))?;
    found.map(User::new).ok_or_else(not_found)
}

fn small(count: i64) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// A page of a viewer's conversations.
pub(crate) async fn conversations_of(
    ctx: &Context<'_>,
    viewer: UserId,
    page: (Option<i32>, Option<String>),
) -> Result<List<Conversation>> {
    let page: Page<i64> = Page::new(ctx, format!("conversations:{viewer}"), page.0, page.1)?;
    let found = ctx
        .services()
        .chats
        .of_user(viewer, page.after, page.load() as u64)
        .await
        .map_err(api_error)?;
    let items = found.into_iter().map(Conversation).collect();
    Ok(page.list(ctx, items, |c: &Conversation| c.0.last_feed))
}

/// A viewer's conversation with another user.
pub(crate) async fn conversation_with(
    ctx: &Context<'_>,
    viewer: UserId,
    other: &ID,
) -> Result<Option<Conversation>> {
    let other = UserId(parse_id(other, "User", "userId")?);
    let found = ctx.services().chats.between(viewer, other).await;
    let found = found.map_err(api_error)?.filter(|c| c.messages > 0);
    Ok(found.map(Conversation))
}

/// A viewer's conversation by its number.
pub(crate) async fn conversation_by_id(
    ctx: &Context<'_>,
    number: i64,
) -> Result<Option<Conversation>> {
    let Some(viewer) = ctx.viewer() else {
        return Ok(None);
    };
    let found = by_id(ctx).load_one(ConversationId(number)).await;
    let found = found.map_err(|e| fault_error(&*e))?;
    Ok(found.and_then(|c| c.of(viewer.user_id)).map(Conversation))
}

/// A message to or from a viewer by its number.
pub(crate) async fn message_by_id(ctx: &Context<'_>, number: i64) -> Result<Option<Message>> {
    let Some(viewer) = ctx.viewer() else {
        return Ok(None);
    };
    let found = by_id(ctx).load_one(MessageId(number)).await;
    let found = found.map_err(|e| fault_error(&*e))?;
    let is_own =
        |m: &domain::chats::Message| [m.sender_id, m.recipient_id].contains(&viewer.user_id.0);
    Ok(found.filter(is_own).map(Message))
}

/// A message to write.
#[derive(InputObject)]
pub struct SendMessageInput {
    /// To whom: somebody who follows the viewer, and whom the viewer follows.
    user_id: ID,
    /// The words, 1 to 2,000 characters.
    text: String,
    /// The client's own id of this message, 1 to 64 letters, digits, `_`, `.`, `:` or `-`: a repeat with the same id is the
    /// same message. Without it, a repeat is another message.
    client_request_id: Option<String>,
}

/// Why a message was not written.
#[derive(Clone, Copy, PartialEq, Eq, Enum)]
pub enum MessageRefusal {
    /// The two do not follow each other.
    NotMutual,
}

/// What became of a message.
#[derive(SimpleObject)]
pub struct SendMessagePayload {
    /// The message; null when it was refused.
    message: Option<Message>,
    /// Why it was refused; null when it was not.
    refusal: Option<MessageRefusal>,
}

/// What to mark as read.
#[derive(InputObject)]
pub struct MarkConversationReadInput {
    /// The conversation.
    conversation_id: ID,
    /// The newest message that was read: it and all before it are marked. Without it, all are.
    up_to: Option<ID>,
}

/// A conversation was marked as read.
#[derive(SimpleObject)]
pub struct MarkConversationReadPayload {
    /// The conversation as it is now.
    conversation: Conversation,
}

/// Writing messages, and marking them.
#[derive(Default)]
pub struct ChatMutation;

#[Object]
impl ChatMutation {
    /// Writes a message to somebody who follows the viewer and whom the viewer follows; else it is refused. For users.
    ///
    /// `NOT_FOUND` when there is no such user. `BAD_INPUT` with the argument's path for a text that is refused, for the
    /// viewer's own id, and for a `clientRequestId` that stands for another message.
    #[graphql(guard = "Limited(&MESSAGES)")]
    async fn send_message(
        &self,
        ctx: &Context<'_>,
        input: SendMessageInput,
    ) -> Result<SendMessagePayload> {
        let new = NewMessage {
            from: ctx.require_viewer()?.user_id,
            to: UserId(parse_id(&input.user_id, "User", "input.userId")?),
            text: input.text,
            request: input.client_request_id,
        };
        let sent = ctx.services().chats.send(new).await.map_err(api_error)?;
        let (message, refusal) = match sent {
            Sent::Written(message) => (Some(Message(message)), None),
            Sent::NotMutual => (None, Some(MessageRefusal::NotMutual)),
        };
        Ok(SendMessagePayload { message, refusal })
    }

    /// Marks a conversation as read by the viewer, up to one of its messages. A repeat, and a message that was read before,
    /// change nothing: the mark never goes back. For users.
    ///
    /// `NOT_FOUND` when the viewer has no such conversation, or it no such message.
    #[graphql(guard = "Limited(&MARKS)")]
    async fn mark_conversation_read(
        &self,
        ctx: &Context<'_>,
        input: MarkConversationReadInput,
    ) -> Result<MarkConversationReadPayload> {
        let viewer = ctx.require_viewer()?.user_id;
        let id = parse_id(
            &input.conversation_id,
            "Conversation",
            "input.conversationId",
        )?;
        let up_to = input.up_to.map(|id| {
            let number = parse_id(&id, "Message", "input.upTo");
            number.map(MessageId)
        });
        let chats = &ctx.services().chats;
        let marked = chats.mark_read(viewer, ConversationId(id), up_to.transpose()?);
        Ok(MarkConversationReadPayload {
            conversation: Conversation(marked.await.map_err(api_error)?),
        })
    }
}

/// Hearing messages.
#[derive(Default)]
pub struct ChatSubscription;

#[Subscription]
impl ChatSubscription {
    /// Messages to the viewer from now on, and those that the viewer writes on any device; each once, and those of one
    /// conversation in their order. Read `Viewer.conversations` once it runs, for what came before. Signed-in users.
    async fn message_received(&self, ctx: &Context<'_>) -> Result<impl Stream<Item = Message>> {
        let viewer = ctx.require_viewer()?.user_id;
        let messages = ctx.services().chats.watch(viewer).await;
        Ok(messages.map_err(api_error)?.map(Message))
    }
}
