//! Opens WebSockets for graphql-transport-ws and keeps count of them. What is said on one is `socket`.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use domain::users::UserId;
use parking_lot::Mutex;
use schema::context::RequestMeta;

use super::App;
use super::http::plain;
use super::socket::{Close, Conversation};

/// The only subprotocol spoken.
const PROTOCOL: &str = "graphql-transport-ws";
/// Bytes of one message, as for a POST body.
const LARGEST_MESSAGE: usize = 64 * 1024;
/// Bytes; the library's 128 KiB each way would be most of what an idle socket costs.
const BUFFER: usize = 4 * 1024;
/// More would be a program gone wild: a page needs one.
const SOCKETS_PER_USER: u32 = 10;

/// Answers an upgrade of `/graphql`.
pub(super) fn upgrade(
    app: Arc<App>,
    meta: RequestMeta,
    headers: &HeaderMap,
    upgrade: WebSocketUpgrade,
) -> Response {
    if !app.origins.admit(headers) {
        return plain(
            StatusCode::FORBIDDEN,
            "pages of this origin may not open a socket",
        );
    }
    if app.closing.is_cancelled() {
        return plain(StatusCode::SERVICE_UNAVAILABLE, "the server is stopping");
    }
    let upgrade = upgrade
        .max_message_size(LARGEST_MESSAGE)
        .max_frame_size(LARGEST_MESSAGE)
        .read_buffer_size(BUFFER)
        .write_buffer_size(0)
        .on_failed_upgrade(|e| tracing::debug!(error = %e, "a socket was not opened"));
    let asked = protocols(headers);
    if asked.iter().any(|protocol| protocol == PROTOCOL) {
        let tasks = app.tasks.clone();
        return upgrade.protocols([PROTOCOL]).on_upgrade(move |stream| {
            tasks.track_future(Conversation::new(app, meta).run(stream))
        });
    }
    // A browser only tells its page why a socket was closed if the handshake worked out, so that is done first.
    let upgrade = match asked.into_iter().next() {
        Some(protocol) => upgrade.protocols([protocol]),
        None => upgrade,
    };
    upgrade.on_upgrade(refuse_protocol)
}

/// How many sockets each user has open on this node.
#[derive(Default)]
pub(super) struct Sockets {
    users: Arc<Mutex<HashMap<UserId, u32>>>,
}

/// One of a user's places; free again when dropped.
pub(super) struct Place {
    users: Arc<Mutex<HashMap<UserId, u32>>>,
    user: UserId,
}

impl Sockets {
    /// A place for one more socket, or `None` when the user has all of his.
    pub(super) fn take(&self, user: UserId) -> Option<Place> {
        let mut users = self.users.lock();
        let open = users.entry(user).or_default();
        if *open >= SOCKETS_PER_USER {
            return None;
        }
        *open += 1;
        Some(Place {
            users: Arc::clone(&self.users),
            user,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut users = self.users.lock();
        if let Some(open) = users.get_mut(&self.user) {
            *open -= 1;
            if *open == 0 {
                users.remove(&self.user);
            }
        }
    }
}

async fn refuse_protocol(mut stream: WebSocket) {
    let close = Close::Protocol;
    let frame = CloseFrame {
        code: close.code(),
        reason: close.reason().into(),
    };
    // Who does not even wait for the reason does not get it.
    let _ = stream.send(Message::Close(Some(frame))).await;
}

fn protocols(headers: &HeaderMap) -> Vec<String> {
    let values = headers
        .get_all(header::SEC_WEBSOCKET_PROTOCOL)
        .iter()
        .filter_map(|value: &HeaderValue| value.to_str().ok());
    values
        .flat_map(|value| value.split(','))
        .map(|protocol| protocol.trim().to_owned())
        .filter(|protocol| !protocol.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use domain::users::UserId;

    use super::{SOCKETS_PER_USER, Sockets};

    #[test]
    fn a_user_has_ten_places_and_gets_them_back() {
        let sockets = Sockets::default();
        let mut places: Vec<_> = (0..SOCKETS_PER_USER)
            .map(|_| sockets.take(UserId(1)).unwrap())
            .collect();
        assert!(sockets.take(UserId(1)).is_none());
        assert!(sockets.take(UserId(2)).is_some());
        places.pop();
        assert!(sockets.take(UserId(1)).is_some());
        drop(places);
        assert!(sockets.users.lock().is_empty());
    }
}
