//! Subscriptions over graphql-transport-ws, and the bare socket below them for tests of the protocol.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use super::client::Client;

/// How long the server may take to greet.
const GREETING_LIMIT: Duration = Duration::from_secs(10);
/// The one operation that a [`Subscription`] runs on its socket.
const OPERATION: &str = "1";

/// What came over a socket.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Frame {
    /// A message of the protocol.
    Json(Value),
    /// The server closed, with its code (1005 when it gave none, 1006 when the connection broke).
    Closed(u16, String),
    /// Nothing within the limit.
    Silence,
}

/// A socket that speaks only when told to. Answers pings by itself.
pub(crate) struct RawSocket {
    stream: WebSocketStream<MaybeTlsStream<TcpStream>>,
}

impl RawSocket {
    /// Connects under a subprotocol; `Err` holds the HTTP status of a refused upgrade.
    pub(crate) async fn connect(
        client: &Client,
        subprotocol: &str,
        headers: &[(&'static str, &str)],
    ) -> Result<Self, u16> {
        let url = format!("{}/graphql", client.base_url().replacen("http", "ws", 1));
        let mut request = url.into_client_request().unwrap();
        request
            .headers_mut()
            .insert("Sec-WebSocket-Protocol", subprotocol.parse().unwrap());
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        match connect_async(request).await {
            Ok((stream, _)) => Ok(Self { stream }),
            Err(tokio_tungstenite::tungstenite::Error::Http(response)) => {
                Err(response.status().as_u16())
            }
            Err(e) => panic!("no socket at {}: {e}", client.base_url()),
        }
    }

    /// Sends one message of the protocol.
    pub(crate) async fn send(&mut self, message: Value) {
        self.send_text(message.to_string()).await;
    }

    /// Sends any text.
    pub(crate) async fn send_text(&mut self, text: String) {
        self.stream.send(Message::text(text)).await.unwrap();
    }

    /// The next frame that is no ping.
    pub(crate) async fn receive(&mut self, limit: Duration) -> Frame {
        let deadline = Instant::now() + limit;
        loop {
            let Ok(message) = timeout_at(deadline, self.stream.next()).await else {
                return Frame::Silence;
            };
            match message {
                Some(Ok(Message::Text(text))) => {
                    return Frame::Json(serde_json::from_str(&text).unwrap());
                }
                Some(Ok(Message::Close(Some(CloseFrame { code, reason })))) => {
                    return Frame::Closed(code.into(), reason.to_string());
                }
                Some(Ok(Message::Close(None))) => {
                    return Frame::Closed(CloseCode::Status.into(), String::new());
                }
                Some(Ok(_)) => {}
                Some(Err(e)) => return Frame::Closed(CloseCode::Abnormal.into(), e.to_string()),
                None => {
                    return Frame::Closed(
                        CloseCode::Abnormal.into(),
                        "the connection ended".to_owned(),
                    );
                }
            }
        }
    }

    /// Says hello as the client's user, and waits for the server's greeting.
    pub(crate) async fn greet(&mut self, client: &Client) {
        let payload = client
            .token()
            .map(|token| json!({ "Authorization": format!("Bearer {token}") }));
        self.send(json!({ "type": "connection_init", "payload": payload }))
            .await;
        let answer = self.receive(GREETING_LIMIT).await;
        let Frame::Json(Value::Object(greeting)) = &answer else {
            panic!("no greeting but {answer:?}")
        };
        assert_eq!(greeting.get("type"), Some(&json!("connection_ack")));
    }

    /// Asks the server to close, as a browser does when its page goes.
    pub(crate) async fn close(mut self) {
        // A server that closed first is as good.
        let _ = self.stream.close(None).await;
    }
}

/// What a subscription said.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
    /// The `data` of a result without errors.
    Data(Value),
    /// The errors of a result, or of a refused operation.
    Errors(Value),
    /// The server has nothing more to say.
    Complete,
    /// The socket was closed, with its code.
    Closed(u16),
    /// Nothing within the limit.
    Silence,
}

/// One running subscription on a socket of its own.
pub(crate) struct Subscription {
    socket: RawSocket,
}

impl Subscription {
    /// Connects as the client's user, and starts the operation. Errors of it show in the first event.
    pub(crate) async fn open(client: &Client, query: &str, variables: Value) -> Self {
        let mut socket = RawSocket::connect(client, "graphql-transport-ws", &[])
            .await
            .unwrap();
        socket.greet(client).await;
        let payload = json!({ "query": query, "variables": variables });
        socket
            .send(json!({ "id": OPERATION, "type": "subscribe", "payload": payload }))
            .await;
        Self { socket }
    }

    /// The next event; `Silence` at the limit.
    pub(crate) async fn event(&mut self, limit: Duration) -> Event {
        let deadline = Instant::now() + limit;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let message = match self.socket.receive(left).await {
                Frame::Json(message) => message,
                Frame::Closed(code, _) => return Event::Closed(code),
                Frame::Silence => return Event::Silence,
            };
            match message["type"].as_str() {
                Some("next") if message["payload"].get("errors").is_some() => {
                    return Event::Errors(message["payload"]["errors"].clone());
                }
                Some("next") => return Event::Data(message["payload"]["data"].clone()),
                Some("error") => return Event::Errors(message["payload"].clone()),
                Some("complete") => return Event::Complete,
                Some("ping") => self.socket.send(json!({ "type": "pong" })).await,
                _ => panic!("a message that a server never sends: {message}"),
            }
        }
    }

    /// The next result's data; panics on anything else, and at the limit.
    pub(crate) async fn next(&mut self, limit: Duration) -> Value {
        match self.event(limit).await {
            Event::Data(data) => data,
            other => panic!("expected a result within {limit:?}, got {other:?}"),
        }
    }

    /// Reads results until one satisfies the condition, and hands out all that were read, that one last.
    pub(crate) async fn until(
        &mut self,
        limit: Duration,
        mut wanted: impl FnMut(&Value) -> bool,
    ) -> Vec<Value> {
        let deadline = Instant::now() + limit;
        let mut seen = Vec::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.event(left).await {
                Event::Data(data) => seen.push(data),
                other => panic!("not within {limit:?}; last came {other:?}, before it {seen:?}"),
            }
            if seen.last().is_some_and(&mut wanted) {
                return seen;
            }
        }
    }

    /// Asserts that the server completes now, with no result before.
    pub(crate) async fn completes(&mut self, limit: Duration) {
        assert_eq!(self.event(limit).await, Event::Complete);
    }

    /// Ends the operation, and the connection in good order.
    pub(crate) async fn stop(mut self) {
        self.socket
            .send(json!({ "id": OPERATION, "type": "complete" }))
            .await;
        self.socket.close().await;
    }
}
