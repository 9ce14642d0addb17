//! One socket that speaks graphql-transport-ws: reads messages, runs operations beside each other, writes what they
//! say in the order they say it, and knows when to close. What operations do is `schema`.

mod message;
mod operations;
mod running;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use async_graphql::Request;
use axum::extract::ws::{CloseFrame, Message, WebSocket};
use domain::users::Session;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use schema::context::RequestMeta;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};

use super::App;
use super::caller::{Credentials, parse_device_id};
use super::operation::{self, Viewer};
use super::trouble;
use super::websocket::Place;
pub(super) use message::Close;
use message::{ClientMessage, ServerMessage};
use operations::{Operations, Ticket};

/// Who connects says hello within this time.
const INIT_LIMIT: Duration = Duration::from_secs(10);
/// Proxies drop what is silent for longer; a peer that leaves two pings unanswered is gone.
const PING_EVERY: Duration = Duration::from_secs(15);
const UNANSWERED_PINGS: u32 = 2;
/// A token that died is noticed this soon.
const TOKEN_CHECK_EVERY: Duration = Duration::from_secs(4);
/// A client that reads nothing for this long is closed; its operations would fill memory.
const WRITE_LIMIT: Duration = Duration::from_secs(10);
/// How long the other side may take to close too.
const GOODBYE_LIMIT: Duration = Duration::from_secs(1);
/// Answers that wait for a slow client before the operations wait too.
const OUTBOX: usize = 16;

/// What operations and checks tell the loop of their socket.
enum Outgoing {
    /// To the client.
    Message { of: Ticket, text: String },
    /// The last word of an operation, whose id is free from here on.
    Last { of: Ticket, text: Option<String> },
    /// The token is no longer good.
    TokenDied,
}

/// The state of one socket.
struct Socket {
    app: Arc<App>,
    viewer: Viewer,
    greeted: bool,
    /// The user's place among his sockets, held as long as this one is open.
    place: Option<Place>,
    operations: Operations,
    outbox: mpsc::Sender<Outgoing>,
    unanswered_pings: u32,
}

impl Socket {
    /// One frame of the client.
    async fn hear(
        &mut self,
        frame: Option<Result<Message, axum::Error>>,
    ) -> ControlFlow<Close, Option<String>> {
        match frame {
            Some(Ok(Message::Text(text))) => self.understand(&text).await,
            Some(Ok(Message::Binary(_))) => ControlFlow::Break(Close::BadMessage),
            Some(Ok(Message::Ping(_))) => ControlFlow::Continue(None),
            Some(Ok(Message::Pong(_))) => {
                self.unanswered_pings = 0;
                ControlFlow::Continue(None)
            }
            Some(Ok(Message::Close(_))) | None => ControlFlow::Break(Close::Gone),
            Some(Err(e)) if e.to_string().contains("too long") => {
                ControlFlow::Break(Close::TooLarge)
            }
            Some(Err(_)) => ControlFlow::Break(Close::Gone),
        }
    }

    async fn understand(&mut self, text: &str) -> ControlFlow<Close, Option<String>> {
        let Ok(message) = serde_json::from_str::<ClientMessage>(text) else {
            return ControlFlow::Break(Close::BadMessage);
        };
        match message {
            ClientMessage::ConnectionInit { payload } => self.greet(payload).await,
            ClientMessage::Ping { payload } => {
                ControlFlow::Continue(ServerMessage::Pong { payload }.text())
            }
            ClientMessage::Pong { .. } => {
                self.unanswered_pings = 0;
                ControlFlow::Continue(None)
            }
            ClientMessage::Subscribe { .. } if !self.greeted => {
                ControlFlow::Break(Close::Unauthorized)
            }
            ClientMessage::Subscribe { id, .. } if !message::is_operation_id(&id) => {
                ControlFlow::Break(Close::BadMessage)
            }
            ClientMessage::Subscribe { id, .. } if self.operations.has(&id) => {
                ControlFlow::Break(Close::SameId)
            }
            ClientMessage::Subscribe { id, payload } => {
                ControlFlow::Continue(self.start(id, payload.into_request()))
            }
            ClientMessage::Complete { id } => {
                self.operations.stop(&id);
                ControlFlow::Continue(None)
            }
        }
    }

    /// Starts an operation; the answer when there are too many.
    fn start(&mut self, id: String, request: Request) -> Option<String> {
        let Some(begun) = self.operations.begin(id.clone()) else {
            let refused = trouble::refusal(
                "RATE_LIMITED",
                "this socket has as many operations as it may have",
            );
            let payload = &refused.errors;
            return ServerMessage::Error { id: &id, payload }.text();
        };
        let line = running::Line {
            operation: begun,
            outbox: self.outbox.clone(),
        };
        running::start(&self.app, self.viewer.clone(), request, line);
        None
    }

    /// `connection_init`: who is there?
    async fn greet(&mut self, payload: Option<Value>) -> ControlFlow<Close, Option<String>> {
        if self.greeted {
            return ControlFlow::Break(Close::SecondInit);
        }
        let credentials = match &payload {
            None | Some(Value::Null) => Credentials::None,
            Some(Value::Object(fields)) => message::credentials(fields),
            Some(_) => return ControlFlow::Break(Close::BadMessage),
        };
        if let Some(device) = payload.as_ref().and_then(message::device_id) {
            self.viewer.meta.device_id = parse_device_id(device);
        }
        let session = match operation::authenticate(&self.app, credentials).await {
            Ok(session) => session,
            Err(refused) if trouble::code(&refused) == Some("UNAUTHENTICATED") => {
                return ControlFlow::Break(Close::Forbidden);
            }
            Err(_) => return ControlFlow::Break(Close::TryLater),
        };
        if let Some(session) = &session {
            self.place = self.app.sockets.take(session.user_id);
            if self.place.is_none() {
                return ControlFlow::Break(Close::TooMany);
            }
        }
        self.viewer.session = session;
        self.greeted = true;
        ControlFlow::Continue(ServerMessage::ConnectionAck.text())
    }

    /// Asks in the background whether the token still lives; trouble in asking closes nobody's socket.
    fn check_token(&self) {
        let Some(session) = self.viewer.session.clone() else {
            return;
        };
        let (app, outbox) = (Arc::clone(&self.app), self.outbox.clone());
        tokio::spawn(async move {
            if is_dead(&app, &session).await {
                // A closed outbox means that the socket is gone already.
                let _ = outbox.send(Outgoing::TokenDied).await;
            }
        });
    }
}

/// A socket together with what its operations say.
pub(super) struct Conversation {
    socket: Socket,
    outgoing: mpsc::Receiver<Outgoing>,
}

impl Conversation {
    /// Nobody has said anything yet.
    pub(super) fn new(app: Arc<App>, meta: RequestMeta) -> Self {
        let (outbox, outgoing) = mpsc::channel(OUTBOX);
        let socket = Socket {
            app,
            viewer: Viewer {
                meta,
                session: None,
            },
            greeted: false,
            place: None,
            operations: Operations::new(),
            outbox,
            unanswered_pings: 0,
        };
        Self { socket, outgoing }
    }

    /// Speaks until one side closes.
    pub(super) async fn run(mut self, stream: WebSocket) {
        metrics::gauge!("lifemate_sockets").increment(1);
        let (mut sink, mut stream) = stream.split();
        let close = self.converse(&mut sink, &mut stream).await;
        tracing::debug!(request.id = self.socket.viewer.meta.request_id, close = ?close, "a socket closes");
        drop(self);
        say_goodbye(sink, stream, close).await;
        metrics::gauge!("lifemate_sockets").decrement(1);
    }

    async fn converse(
        &mut self,
        sink: &mut SplitSink<WebSocket, Message>,
        stream: &mut SplitStream<WebSocket>,
    ) -> Close {
        let closing = self.socket.app.closing.clone();
        let init_deadline = Instant::now() + INIT_LIMIT;
        let (mut pings, mut checks) = (ticks(PING_EVERY), ticks(TOKEN_CHECK_EVERY));
        loop {
            let next = tokio::select! {
                () = closing.cancelled() => ControlFlow::Break(Close::GoingAway),
                () = sleep_until(init_deadline), if !self.socket.greeted => ControlFlow::Break(Close::InitTimeout),
                _ = pings.tick() => self.ping(sink).await,
                _ = checks.tick() => {
                    self.socket.check_token();
                    ControlFlow::Continue(None)
                }
                Some(outgoing) = self.outgoing.recv() => self.pass_on(outgoing),
                frame = stream.next() => self.socket.hear(frame).await,
            };
            match next {
                ControlFlow::Break(close) => return close,
                ControlFlow::Continue(None) => {}
                ControlFlow::Continue(Some(text)) => {
                    if let Err(close) = write(sink, Message::Text(text.into())).await {
                        return close;
                    }
                }
            }
        }
    }

    fn pass_on(&mut self, outgoing: Outgoing) -> ControlFlow<Close, Option<String>> {
        match outgoing {
            // What an operation said before its client took its id for another one is not the other one's.
            Outgoing::Message { of, .. } | Outgoing::Last { of, .. }
                if !self.socket.operations.is_wanted(&of) =>
            {
                ControlFlow::Continue(None)
            }
            Outgoing::Message { text, .. } => ControlFlow::Continue(Some(text)),
            Outgoing::Last { of, text } => {
                self.socket.operations.end(&of);
                ControlFlow::Continue(text)
            }
            Outgoing::TokenDied => ControlFlow::Break(Close::Forbidden),
        }
    }

    async fn ping(
        &mut self,
        sink: &mut SplitSink<WebSocket, Message>,
    ) -> ControlFlow<Close, Option<String>> {
        if self.socket.unanswered_pings >= UNANSWERED_PINGS {
            return ControlFlow::Break(Close::Gone);
        }
        self.socket.unanswered_pings += 1;
        match write(sink, Message::Ping(Vec::new().into())).await {
            Ok(()) => ControlFlow::Continue(None),
            Err(close) => ControlFlow::Break(close),
        }
    }
}

async fn is_dead(app: &App, session: &Session) -> bool {
    matches!(app.services.users.is_alive(session).await, Ok(false))
}

async fn write(sink: &mut SplitSink<WebSocket, Message>, message: Message) -> Result<(), Close> {
    match timeout(WRITE_LIMIT, sink.send(message)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(Close::Gone),
        Err(_) => Err(Close::TooSlow),
    }
}

async fn say_goodbye(
    mut sink: SplitSink<WebSocket, Message>,
    mut stream: SplitStream<WebSocket>,
    close: Close,
) {
    let frame = CloseFrame {
        code: close.code(),
        reason: close.reason().into(),
    };
    let goodbye = async {
        if sink.send(Message::Close(Some(frame))).await.is_ok() {
            // Closing before the other side has read would take the reason away from it.
            while let Some(Ok(_)) = stream.next().await {}
        }
    };
    let _ = timeout(GOODBYE_LIMIT, goodbye).await;
}

fn ticks(period: Duration) -> tokio::time::Interval {
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.reset();
    ticks
}
