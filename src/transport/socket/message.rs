//! The messages of graphql-transport-ws and the reasons to close. What follows from them is the socket's loop.

use async_graphql::ServerError;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::transport::caller::Credentials;
use crate::transport::envelope::Envelope;
use crate::transport::operation::Body;

/// Characters; clients use numbers or UUIDs.
const LONGEST_OPERATION_ID: usize = 128;

/// What a client says.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ClientMessage {
    ConnectionInit { payload: Option<Value> },
    Ping { payload: Option<Value> },
    Pong {},
    Subscribe { id: String, payload: Envelope },
    Complete { id: String },
}

/// What the server says.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ServerMessage<'a> {
    ConnectionAck,
    Pong {
        #[serde(skip_serializing_if = "Option::is_none")]
        payload: Option<Value>,
    },
    Next {
        id: &'a str,
        payload: Body<'a>,
    },
    /// The operation was refused; nothing follows.
    Error {
        id: &'a str,
        payload: &'a [ServerError],
    },
    Complete {
        id: &'a str,
    },
}

impl ServerMessage<'_> {
    /// As it goes over the wire; `None` only if a value cannot be written as JSON, which is logged.
    pub(super) fn text(&self) -> Option<String> {
        match serde_json::to_string(self) {
            Ok(text) => Some(text),
            Err(e) => {
                tracing::error!(error = %e, "a message cannot be written as JSON");
                None
            }
        }
    }
}

/// Why a socket is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::transport) enum Close {
    /// The other side is gone, or said goodbye itself.
    Gone,
    GoingAway,
    TooLarge,
    TryLater,
    BadMessage,
    Unauthorized,
    Forbidden,
    Protocol,
    InitTimeout,
    SameId,
    SecondInit,
    TooMany,
    TooSlow,
}

impl Close {
    /// The code of the protocol, or of WebSocket itself below 4000.
    pub(in crate::transport) fn code(self) -> u16 {
        match self {
            Self::Gone => 1000,
            Self::GoingAway => 1001,
            Self::TooSlow => 1008,
            Self::TooLarge => 1009,
            Self::TryLater => 1013,
            Self::BadMessage => 4400,
            Self::Unauthorized => 4401,
            Self::Forbidden => 4403,
            Self::Protocol => 4406,
            Self::InitTimeout => 4408,
            Self::SameId => 4409,
            Self::SecondInit | Self::TooMany => 4429,
        }
    }

    /// For the developer of the client; at most 123 bytes.
    pub(in crate::transport) fn reason(self) -> &'static str {
        match self {
            Self::Gone => "",
            Self::GoingAway => "The server is stopping",
            Self::TooSlow => "Messages are not read",
            Self::TooLarge => "The message is too large",
            Self::TryLater => "Try again later",
            Self::BadMessage => "Not a message of graphql-transport-ws",
            Self::Unauthorized => "Unauthorized",
            Self::Forbidden => "Forbidden",
            Self::Protocol => "Subprotocol not acceptable: use graphql-transport-ws",
            Self::InitTimeout => "Connection initialisation timeout",
            Self::SameId => "An operation with this id is running",
            Self::SecondInit => "Too many initialisation requests",
            Self::TooMany => "Too many sockets of this user",
        }
    }
}

/// The token in `connection_init`, under the key of the HTTP header in any case.
pub(super) fn credentials(fields: &Map<String, Value>) -> Credentials {
    match field(fields, "authorization") {
        None | Some(Value::Null) => Credentials::None,
        Some(Value::String(text)) => Credentials::parse(text),
        Some(_) => Credentials::Unusable,
    }
}

/// The device's fingerprint in `connection_init`, which browsers cannot send as a header of a socket.
pub(super) fn device_id(payload: &Value) -> Option<&str> {
    field(payload.as_object()?, "x-device-id")?.as_str()
}

/// Whether the id can be kept and sent back.
pub(super) fn is_operation_id(id: &str) -> bool {
    !id.is_empty() && id.len() <= LONGEST_OPERATION_ID
}

fn field<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    fields
        .iter()
        .find(|(key, _)| key.eq_ignore_ascii_case(name))
        .map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{ClientMessage, Close, credentials};
    use crate::transport::caller::Credentials;

    #[test]
    fn the_protocol_is_read_and_nothing_else() {
        for good in [
            json!({ "type": "connection_init" }),
            json!({ "type": "connection_init", "payload": { "Authorization": "Bearer x" } }),
            json!({ "type": "ping", "payload": {} }),
            json!({ "type": "pong", "payload": { "any": 1 } }),
            json!({ "type": "complete", "id": "1" }),
            json!({ "type": "subscribe", "id": "1", "payload": { "query": "{ a }" } }),
        ] {
            assert!(
                serde_json::from_value::<ClientMessage>(good.clone()).is_ok(),
                "{good}"
            );
        }
        for bad in [
            json!({ "type": "start", "id": "1", "payload": { "query": "{ a }" } }),
            json!({ "type": "subscribe", "id": 1, "payload": { "query": "{ a }" } }),
            json!({ "type": "subscribe", "id": "1", "payload": {} }),
            json!({ "type": "complete" }),
            json!([]),
        ] {
            assert!(
                serde_json::from_value::<ClientMessage>(bad.clone()).is_err(),
                "{bad}"
            );
        }
    }

    #[test]
    fn the_token_is_found_in_any_case() {
        let token = Credentials::Token("x".to_owned());
        for name in ["Authorization", "authorization", "AUTHORIZATION"] {
            assert_eq!(
                credentials(json!({ name: "Bearer x" }).as_object().unwrap()),
                token
            );
        }
        assert_eq!(
            credentials(json!({}).as_object().unwrap()),
            Credentials::None
        );
        assert_eq!(
            credentials(json!({ "authorization": 1 }).as_object().unwrap()),
            Credentials::Unusable
        );
    }

    #[test]
    fn a_reason_fits_its_frame() {
        let all = [
            Close::GoingAway,
            Close::BadMessage,
            Close::Protocol,
            Close::InitTimeout,
            Close::SameId,
            Close::TooMany,
        ];
        assert!(all.iter().all(|close| close.reason().len() <= 123));
    }
}
