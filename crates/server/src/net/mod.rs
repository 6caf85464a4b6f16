//! The accept loop of both listeners: connections within limits, deadlines for everything, and a shutdown in which
//! responses in progress finish.
//!
//! It is our own because the ready-made one has no deadline for header sections, no limit on connections, and no
//! access to framing that the parser normalizes.

mod body;
mod guard;
mod head;
mod outgoing;
mod refusal;
mod scan;
mod slots;
mod spool;
mod stream;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::options::{Deadlines, Limits};
use head::{HeadDeadline, HeadTimer};
use slots::{Slot, Slots};
use stream::Stream;

pub(crate) use body::{Budget, BufferedBody, arrive, read};
pub(crate) use guard::{check, split_host};
pub(crate) use outgoing::Outgoing;
pub(crate) use refusal::Refusal;
pub(crate) use spool::Spool;
pub(crate) use stream::FramingState;

/// Additional parser buffer for the method, the version and line ends.
const HEAD_SLACK: usize = 8 << 10;
/// The maximum size of one read from a connection, in bytes.
const BUFFER: usize = 32 << 10;
/// The pause of accepting when the system has no file descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// The response to a connection over the limits.
const OVERLOADED: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\n\
    content-length: 55\r\nconnection: close\r\n\r\n{\"error\":\"too many connections\",\"code\":\"connections\"}\r\n";

/// A handler of the requests of one listener.
pub(crate) trait Respond: Send + Sync + 'static {
    /// The body type of its responses.
    type Body: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>
        + From<Bytes>
        + Send
        + 'static;

    /// Responds to one request, with the framing state of its connection.
    fn respond(
        &self,
        request: Request<Incoming>,
        framing: &FramingState,
    ) -> impl Future<Output = Response<Self::Body>> + Send;
}

/// A listener with its handler.
pub(crate) struct Listener<R> {
    pub(crate) name: &'static str,
    pub(crate) socket: TcpListener,
    pub(crate) respond: R,
    pub(crate) limits: Limits,
    pub(crate) deadlines: Deadlines,
    /// The grace period for responses in progress at shutdown.
    pub(crate) grace: Duration,
    /// The treatment of a peer that closes its sending side.
    pub(crate) on_half_close: HalfClose,
}

/// The treatment of a peer that has closed its sending side while it waits for a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HalfClose {
    /// It may still read, so its request is completed. A request that starts an execution is then never
    /// dropped between commit and start, whatever the caller does.
    Finish,
    /// It is gone, so its request is dropped, and an endless response ends with its reader.
    Drop,
}

impl<R: Respond> Listener<R> {
    /// Accepts until `closing`, then lets responses finish within the grace period. On return, every connection is
    /// closed.
    pub(crate) async fn run(self, closing: CancellationToken) {
        let Self { name, socket, respond, limits, deadlines, grace, on_half_close } = self;
        let slots = Slots::new(&limits);
        let shared =
            Arc::new(Shared { http: http(&limits, &deadlines, on_half_close), respond, deadlines, closing });
        let mut connections = JoinSet::new();
        {
            let mut closed = pin!(shared.closing.cancelled());
            loop {
                tokio::select! {
                    biased;
                    () = &mut closed => break,
                    Some(ended) = connections.join_next(), if !connections.is_empty() => note(name, ended),
                    accepted = socket.accept() => match accepted {
                        Ok((stream, peer)) => match slots.take(peer.ip()) {
                            Some(slot) => {
                                connections.spawn(connection(Arc::clone(&shared), stream, peer, slot));
                            }
                            None => refuse(name, &stream),
                        },
                        Err(error) => failed_accept(name, &error).await,
                    },
                }
            }
        }
        // The operating system refuses connections from here on.
        drop(socket);
        let finished = tokio::time::timeout(grace, async {
            while let Some(ended) = connections.join_next().await {
                note(name, ended);
            }
        });
        if finished.await.is_err() {
            tracing::warn!(
                listener = name,
                open = connections.len(),
                "closed connections whose answers took too long"
            );
            connections.shutdown().await;
        }
    }
}

/// The state that all connections of a listener share.
struct Shared<R> {
    http: http1::Builder,
    respond: R,
    deadlines: Deadlines,
    closing: CancellationToken,
}

fn http(limits: &Limits, deadlines: &Deadlines, on_half_close: HalfClose) -> http1::Builder {
    let mut http = http1::Builder::new();
    http.half_close(on_half_close == HalfClose::Finish)
        .header_read_timeout(deadlines.keep_alive)
        .max_header_size(limits.target_bytes + limits.header_bytes + HEAD_SLACK)
        .max_buf_size(BUFFER.max(limits.target_bytes + limits.header_bytes + HEAD_SLACK));
    http
}

/// Serves one connection until it ends.
async fn connection<R: Respond>(shared: Arc<Shared<R>>, stream: TcpStream, peer: SocketAddr, slot: Slot) {
    let Deadlines { head: first, keep_alive, write_stall, linger, .. } = shared.deadlines;
    // A response is one small write: waiting to fill a packet would only delay it.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%peer, %error, "cannot switch off delayed sending");
    }
    let framing = FramingState::new(peer.ip(), slot.anonymous());
    let service = service_fn(|request| {
        framing.set_request();
        // An `async` block would hold the future twice, and hyper moves it for each request.
        AssertUnwindSafe(shared.respond.respond(request, &framing)).catch_unwind().map(or_fault)
    });
    let io = TokioIo::new(Stream::new(stream, &framing, write_stall, linger));
    let head = HeadDeadline::new();
    let mut http = shared.http.clone();
    let mut serving = pin!(http.timer(HeadTimer(head.clone())).serve_connection(io, service));
    let mut look = pin!(tokio::time::sleep(first.min(keep_alive)));
    let mut closing = pin!(shared.closing.cancelled());
    let mut evicted = pin!(slot.evicted());
    let mut open = true;
    loop {
        tokio::select! {
            biased;
            ended = serving.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%peer, %error, "a connection broke");
                }
                break;
            }
            () = &mut look => match head.next_look(&framing, &shared.deadlines, Instant::now()) {
                Some(next) => look.as_mut().reset(next),
                None => {
                    tracing::debug!(%peer, "no request arrived in time");
                    break;
                }
            },
            () = &mut evicted => {
                tracing::debug!(%peer, "closed for a newer connection: it has shown no credential");
                break;
            }
            () = &mut closing, if open => {
                open = false;
                serving.as_mut().graceful_shutdown();
            }
        }
    }
}

/// The response of a handler, or of the fault that made it panic.
fn or_fault<B: From<Bytes>>(answer: std::thread::Result<Response<B>>) -> Result<Response<B>, Infallible> {
    Ok(answer.unwrap_or_else(|_| Refusal::fault().into_response()))
}

/// Sends a short response to a connection over the limits if that does not block, and closes it.
fn refuse(name: &'static str, stream: &TcpStream) {
    tracing::debug!(listener = name, "a connection over the limits was closed");
    let _ = stream.try_write(OVERLOADED);
}

/// Accepting fails for a connection that disconnected, or because the system has no descriptor left; the latter
/// repeats immediately, so it is not retried in a busy loop.
async fn failed_accept(name: &'static str, error: &std::io::Error) {
    tracing::warn!(listener = name, %error, "cannot accept a connection");
    tokio::time::sleep(ACCEPT_PAUSE).await;
}

fn note(name: &'static str, ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(listener = name, "a connection ended in a fault of the daemon");
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    struct Faulty;

    impl Respond for Faulty {
        type Body = http_body_util::Full<Bytes>;

        async fn respond(&self, request: Request<Incoming>, _: &FramingState) -> Response<Self::Body> {
            assert_eq!(request.uri().path(), "/good", "a fault");
            Response::new(Bytes::from_static(b"good").into())
        }
    }

    #[tokio::test]
    async fn a_handler_panic_gets_a_response_and_closes_only_its_connection() {
        let socket = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
        let address = socket.local_addr().expect("an address");
        let listener = Listener {
            name: "test",
            socket,
            respond: Faulty,
            limits: Limits::default(),
            deadlines: Deadlines::default(),
            grace: Duration::from_secs(10),
            on_half_close: HalfClose::Finish,
        };
        let closing = CancellationToken::new();
        let talk = async |path: &str| {
            let mut stream = TcpStream::connect(address).await.expect("a connection");
            let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n");
            stream.write_all(request.repeat(2).as_bytes()).await.expect("a request");
            stream.shutdown().await.expect("an end");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.expect("an answer");
            answer
        };
        let talks = async {
            let answer = talk("/bad").await;
            assert!(
                answer.starts_with("HTTP/1.1 500 ") && answer.matches("HTTP/1.1").count() == 1,
                "{answer}"
            );
            assert_eq!(talk("/good").await.matches("HTTP/1.1 200 OK").count(), 2);
            closing.cancel();
        };
        tokio::join!(listener.run(closing.clone()), talks);
    }

    #[test]
    fn the_overload_response_has_its_declared_content_length() {
        let text = std::str::from_utf8(OVERLOADED).expect("text");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        assert!(head.contains(&format!("content-length: {}\r\n", body.len())), "{}", body.len());
    }
}
