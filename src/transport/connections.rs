//! Connections: taken from a listener, served by a router, ended in good order or when nothing comes.

use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use axum::extract::connect_info::IntoMakeServiceWithConnectInfo;
use axum::serve::{Listener, ListenerExt};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower_service::Service;

/// A request's head comes within this time, or its connection ends; one that waits for the next request, too. A little
/// more than proxies keep idle connections: these should be the ones to close them.
const HEAD_WITHIN: Duration = Duration::from_secs(75);

/// Serves connections until `stop`; then takes no more, and waits until those there are have answered.
pub(crate) async fn serve(listener: TcpListener, router: Router, stop: CancellationToken) {
    serve_within(HEAD_WITHIN, listener, router, stop).await;
}

async fn serve_within(
    head_within: Duration,
    listener: TcpListener,
    router: Router,
    stop: CancellationToken,
) {
    // An answer is one small write: waiting to fill a packet would only cost the client 40 ms.
    let mut listener = listener.tap_io(|stream| {
        if let Err(e) = stream.set_nodelay(true) {
            tracing::debug!(error = %e, "a connection without TCP_NODELAY");
        }
    });
    let router = router.into_make_service_with_connect_info::<SocketAddr>();
    let open = TaskTracker::new();
    while let Some((stream, peer)) = stop.run_until_cancelled(listener.accept()).await {
        let (router, stop) = (router.clone(), stop.clone());
        open.spawn(converse(head_within, (stream, peer), router, stop));
    }
    drop(listener);
    open.close();
    open.wait().await;
}

async fn converse(
    head_within: Duration,
    (stream, peer): (TcpStream, SocketAddr),
    mut router: IntoMakeServiceWithConnectInfo<Router, SocketAddr>,
    stop: CancellationToken,
) {
    let Ok(service) = router.call(peer).await;
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(head_within);
    let service = TowerToHyperService::new(service);
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(e) = ended {
        tracing::trace!(error = %e, "a connection ended early");
    }
}

#[cfg(test)]
mod tests {
    use axum::extract::ConnectInfo;
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::task::JoinHandle;
    use tokio::time::timeout;

    use super::*;

    const SOON: Duration = Duration::from_secs(20);
    const ASK: &[u8] = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n";

    async fn server(head_within: Duration) -> (SocketAddr, CancellationToken, JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
        let who = async |ConnectInfo(peer): ConnectInfo<SocketAddr>| peer.to_string();
        let router = Router::new().route("/", get(who));
        let serving = serve_within(head_within, listener, router, stop.clone());
        (address, stop, tokio::spawn(serving))
    }

    async fn read_to_end(stream: &mut TcpStream) -> String {
        let mut text = String::new();
        let read = timeout(SOON, stream.read_to_string(&mut text)).await;
        read.expect("the server ends it").unwrap();
        text
    }

    #[tokio::test]
    async fn a_head_that_does_not_come_whole_ends_its_connection() {
        let (address, stop, serving) = server(Duration::from_millis(100)).await;
        let mut slow = TcpStream::connect(address).await.unwrap();
        slow.write_all(&ASK[..10]).await.unwrap();
        assert!(!read_to_end(&mut slow).await.contains("200"));
        // One that has been answered, and asks no more, ends as well.
        let mut idle = TcpStream::connect(address).await.unwrap();
        idle.write_all(ASK).await.unwrap();
        let answer = read_to_end(&mut idle).await;
        let own = idle.local_addr().unwrap().to_string();
        assert!(
            answer.contains("200 OK") && answer.ends_with(&own),
            "{answer}"
        );
        stop.cancel();
        timeout(SOON, serving).await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_stop_ends_connections_that_wait() {
        let (address, stop, serving) = server(SOON * 10).await;
        let mut idle = TcpStream::connect(address).await.unwrap();
        idle.write_all(ASK).await.unwrap();
        let mut first = [0; 12];
        idle.read_exact(&mut first).await.unwrap();
        assert_eq!(&first, b"HTTP/1.1 200");
        stop.cancel();
        timeout(SOON, serving).await.unwrap().unwrap();
    }
}
