//! Events between nodes: one push connection that hears every channel of the deployment and hands them on inside
//! the process. At most once; after a gap every listener is told to look again.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use deadpool_redis::redis::aio::{ConnectionManager, ConnectionManagerConfig};
use deadpool_redis::redis::{Client, ProtocolVersion, PushInfo, PushKind, RedisError, Value, cmd};
use parking_lot::Mutex;
use tokio::sync::{broadcast, mpsc};
use tokio_util::sync::CancellationToken;

/// Events a slow listener may fall behind by; one that falls further behind is told to look again.
const BACKLOG: usize = 4_096;
/// How often the connection is asked whether it lives, so that a silent death is noticed.
const HEARTBEAT: Duration = Duration::from_secs(2);
const RECONNECT_MIN: Duration = Duration::from_millis(50);
const RECONNECT_MAX: Duration = Duration::from_millis(500);

/// What a listener hears.
#[derive(Clone, Debug)]
pub enum PushEvent {
    /// Somebody published this.
    Message(Arc<str>),
    /// Something may have been missed: read the state again.
    Resync,
}

#[derive(Default)]
pub(crate) struct Events {
    channels: Arc<Mutex<HashMap<String, broadcast::Sender<PushEvent>>>>,
}

impl Events {
    pub(crate) fn subscribe(&self, channel: &str) -> broadcast::Receiver<PushEvent> {
        let mut channels = self.channels.lock();
        channels
            .entry(channel.to_owned())
            .or_insert_with(|| broadcast::channel(BACKLOG).0)
            .subscribe()
    }

    /// Hears `<prefix>*` until `stop`.
    pub(crate) fn listen(&self, client: Client, prefix: String, stop: CancellationToken) {
        let channels = Arc::clone(&self.channels);
        tokio::spawn(async move {
            let (sender, mut pushes) = mpsc::unbounded_channel();
            let keep = sender.clone();
            let connection = tokio::spawn(hold_connection(client, format!("{prefix}*"), sender));
            loop {
                let push = tokio::select! {
                    () = stop.cancelled() => break,
                    push = pushes.recv() => push,
                };
                let Some(push) = push else { break };
                hand_on(&channels, &prefix, &push);
            }
            connection.abort();
            drop(keep);
        });
    }
}

/// Keeps a subscribed connection, whatever happens to Redis.
async fn hold_connection(client: Client, pattern: String, sender: mpsc::UnboundedSender<PushInfo>) {
    loop {
        if let Err(e) = subscribed_until_broken(&client, &pattern, &sender).await {
            tracing::debug!(error = %e, "the event connection broke");
        }
        tokio::time::sleep(RECONNECT_MAX).await;
    }
}

async fn subscribed_until_broken(
    client: &Client,
    pattern: &str,
    sender: &mpsc::UnboundedSender<PushInfo>,
) -> Result<(), RedisError> {
    let info = client.get_connection_info().clone();
    let settings = info
        .redis_settings()
        .clone()
        .set_protocol(ProtocolVersion::RESP3);
    let client = Client::open(info.set_redis_settings(settings))?;
    let config = ConnectionManagerConfig::new()
        .set_push_sender(sender.clone())
        .set_automatic_resubscription()
        .set_min_delay(RECONNECT_MIN)
        .set_max_delay(RECONNECT_MAX)
        .set_response_timeout(Some(HEARTBEAT));
    let mut connection = ConnectionManager::new_with_config(client, config).await?;
    connection.psubscribe(pattern).await?;
    loop {
        tokio::time::sleep(HEARTBEAT).await;
        cmd("PING").query_async::<Value>(&mut connection).await?;
    }
}

fn hand_on(
    channels: &Mutex<HashMap<String, broadcast::Sender<PushEvent>>>,
    prefix: &str,
    push: &PushInfo,
) {
    match push.kind {
        PushKind::PMessage => {
            let [_, Value::BulkString(channel), Value::BulkString(payload)] = &push.data[..] else {
                return;
            };
            let (Ok(channel), Ok(payload)) =
                (std::str::from_utf8(channel), std::str::from_utf8(payload))
            else {
                return;
            };
            let Some(channel) = channel.strip_prefix(prefix) else {
                return;
            };
            if let Some(listeners) = channels.lock().get(channel) {
                let _ = listeners.send(PushEvent::Message(payload.into()));
            }
        }
        // After a fresh subscription whatever was published before it has been missed.
        PushKind::PSubscribe | PushKind::Disconnection => {
            for listeners in channels.lock().values() {
                let _ = listeners.send(PushEvent::Resync);
            }
        }
        _ => {}
    }
}
