//! A wire that can be cut, or be long: stands between a node and one of its stores.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Forwards connections to one address until it is cut.
pub(crate) struct Proxy {
    port: u16,
    whole: Arc<watch::Sender<bool>>,
    delay_ms: Arc<AtomicU64>,
    /// Grows with each loss of the connections there are.
    losses: Arc<watch::Sender<u64>>,
}

impl Proxy {
    /// Listens on a free port for connections to `target`, a `host:port`.
    pub(crate) async fn to(target: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (target, whole) = (target.to_owned(), Arc::new(watch::Sender::new(true)));
        let delay_ms = Arc::new(AtomicU64::new(0));
        let (wire, length) = (Arc::clone(&whole), Arc::clone(&delay_ms));
        let losses = Arc::new(watch::Sender::new(0));
        let lost = Arc::clone(&losses);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(forward(
                    client,
                    target.clone(),
                    wire.subscribe(),
                    Arc::clone(&length),
                    lost.subscribe(),
                ));
            }
        });
        Self {
            port,
            whole,
            delay_ms,
            losses,
        }
    }

    /// Where to connect to.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Breaks every connection, and every new one at once.
    pub(crate) fn cut(&self) {
        self.whole.send_replace(false);
    }

    /// Lets connections through again.
    pub(crate) fn mend(&self) {
        self.whole.send_replace(true);
    }

    /// The connections there are go on without a word from the other end, as when its host is gone. New ones are whole.
    pub(crate) fn lose(&self) {
        self.losses.send_modify(|losses| *losses += 1);
    }

    /// Every answer of the store comes so much later.
    pub(crate) fn slow(&self, delay: Duration) {
        let delay_ms = u64::try_from(delay.as_millis()).unwrap();
        self.delay_ms.store(delay_ms, Ordering::SeqCst);
    }
}

async fn forward(
    client: TcpStream,
    target: String,
    mut whole: watch::Receiver<bool>,
    delay_ms: Arc<AtomicU64>,
    lost: watch::Receiver<u64>,
) {
    if !*whole.borrow_and_update() {
        return;
    }
    let Ok(server) = TcpStream::connect(target).await else {
        return;
    };
    let ((from_client, to_client), (from_server, to_server)) =
        (client.into_split(), server.into_split());
    let answers = Some(&*delay_ms);
    tokio::select! {
        () = pass(from_client, to_server, None, &lost) => {}
        () = pass(from_server, to_client, answers, &lost) => {}
        _ = whole.wait_for(|whole| !whole) => {}
    }
}

/// One direction of a wire, until either end is gone.
async fn pass(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    delay_ms: Option<&AtomicU64>,
    lost: &watch::Receiver<u64>,
) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        if lost.has_changed().unwrap_or_default() {
            std::future::pending::<()>().await;
        }
        let delay_ms = delay_ms.map_or(0, |delay| delay.load(Ordering::SeqCst));
        if delay_ms > 0 {
            tokio::time::sleep(Duration::from_millis(delay_ms)).await;
        }
        if to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}
