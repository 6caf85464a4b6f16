//! The listener and its connections.

use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::task::TaskTracker;

use super::pipeline::{Shared, handle};

/// The most connections at a time; further ones wait to be accepted.
const MOST_CONNECTIONS: usize = 1_024;
/// How long the head of a request may take.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);
/// How long connections may take to end once the simulator stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);
/// How long to rest when the system cannot accept, for want of file descriptors.
const ACCEPT_REST: Duration = Duration::from_millis(50);

/// Serves until the simulator is told to stop, and returns when every connection has ended.
pub(super) async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let connections = TaskTracker::new();
    let slots = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    while let Some((stream, peer, slot)) = next(&listener, &slots, &shared).await {
        connections.spawn(connection(stream, peer, shared.clone(), slot));
    }
    connections.close();
    // Unfinished tasks end with the runtime.
    let _ = tokio::time::timeout(STOP_TIMEOUT, connections.wait()).await;
}

async fn next(
    listener: &TcpListener,
    slots: &Arc<Semaphore>,
    shared: &Shared,
) -> Option<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    let accept = async {
        let slot = slots.clone().acquire_owned().await.ok()?;
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => return Some((stream, peer, slot)),
                Err(_) => drop(tokio::time::timeout(ACCEPT_REST, shared.stop.cancelled()).await),
            }
        }
    };
    tokio::select! {
        accepted = accept => accepted,
        () = shared.stop.cancelled() => None,
    }
}

async fn connection(stream: TcpStream, peer: SocketAddr, shared: Arc<Shared>, _slot: OwnedSemaphorePermit) {
    // Small answers must not wait for one another.
    let _ = stream.set_nodelay(true);
    let reset = Arc::new(AtomicBool::new(false));
    let io = TokioIo::new(Resettable { stream, reset: reset.clone() });
    let served = shared.clone();
    let service = service_fn(move |request| {
        let (shared, reset) = (served.clone(), reset.clone());
        async move { handle(&shared, peer, request, &reset).await }
    });
    let mut http = http1::Builder::new();
    let connection =
        http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).serve_connection(io, service);
    let mut connection = pin!(connection);
    // An error of a connection is what the fault script asked for, or the client's going away: neither is ours to tell.
    tokio::select! {
        _ = connection.as_mut() => {}
        () = shared.stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            let _ = tokio::time::timeout(STOP_TIMEOUT, connection).await;
        }
    }
}

/// A connection that can end in a reset in place of an orderly close.
struct Resettable {
    stream: TcpStream,
    reset: Arc<AtomicBool>,
}

impl Drop for Resettable {
    fn drop(&mut self) {
        if self.reset.load(Ordering::Acquire) {
            // With nothing to linger for, closing throws away what is unsent and sends a reset.
            let _ = self.stream.set_zero_linger();
        }
    }
}

impl AsyncRead for Resettable {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for Resettable {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, from)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
