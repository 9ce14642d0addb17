//! A wire that can be cut: stands between a node and one of its stores.

use std::sync::Arc;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Forwards connections to one address until it is cut.
pub(crate) struct Proxy {
    port: u16,
    whole: Arc<watch::Sender<bool>>,
}

impl Proxy {
    /// Listens on a free port for connections to `target`, a `host:port`.
    pub(crate) async fn to(target: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (target, whole) = (target.to_owned(), Arc::new(watch::Sender::new(true)));
        let wire = Arc::clone(&whole);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(forward(client, target.clone(), wire.subscribe()));
            }
        });
        Self { port, whole }
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
}

async fn forward(mut client: TcpStream, target: String, mut whole: watch::Receiver<bool>) {
    if !*whole.borrow_and_update() {
        return;
    }
    let Ok(mut server) = TcpStream::connect(target).await else {
        return;
    };
    tokio::select! {
        _ = copy_bidirectional(&mut client, &mut server) => {}
        _ = whole.wait_for(|whole| !whole) => {}
    }
}
