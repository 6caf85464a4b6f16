//! A stream that refuses messages of the server above a size, before they are held in memory.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};

use super::RustlsConnect;
use crate::sql::rows::MAX_ROW;

/// The bytes before the content of a message: its kind, and its length with the length itself.
const HEAD: usize = 5;

/// Tells that a message was refused. The client itself only tells that the connection is closed.
#[derive(Clone, Default)]
pub(super) struct TooLarge(Arc<AtomicBool>);

impl TooLarge {
    pub(super) fn is_so(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The stream of a connection, in which the messages of the server have at most [`MAX_ROW`] bytes.
pub(super) struct Limited<S> {
    stream: S,
    head: Vec<u8>,
    /// The bytes of the current message that are to come.
    left: usize,
    too_large: TooLarge,
}

impl<S> Limited<S> {
    pub(super) fn new(stream: S, too_large: TooLarge) -> Self {
        Self { stream, head: Vec::with_capacity(HEAD), left: 0, too_large }
    }

    /// Follows the messages through bytes that have arrived.
    fn check(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let skipped = self.left.min(bytes.len());
            self.left -= skipped;
            let (head, rest) = bytes[skipped..].split_at((HEAD - self.head.len()).min(bytes.len() - skipped));
            self.head.extend_from_slice(head);
            bytes = rest;
            if let [_, length @ ..] = &*self.head
                && let Ok(length) = <[u8; 4]>::try_from(length)
            {
                let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
                self.left = length.saturating_sub(4);
                self.head.clear();
                if self.left > MAX_ROW {
                    self.too_large.0.store(true, Ordering::Relaxed);
                    return Err(io::Error::other("a message of the server is too large"));
                }
            }
        }
        Ok(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Limited<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        Poll::Ready(self.check(buffer.filled().get(before..).unwrap_or_default()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Limited<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

impl<S: TlsStream + Unpin> TlsStream for Limited<S> {
    fn channel_binding(&self) -> ChannelBinding {
        self.stream.channel_binding()
    }
}

/// Opens TLS, with the limit for what it decrypts.
pub(super) struct LimitedTls {
    tls: RustlsConnect,
    too_large: TooLarge,
}

impl LimitedTls {
    pub(super) fn new(tls: RustlsConnect, too_large: TooLarge) -> Self {
        Self { tls, too_large }
    }
}

type Opened = Limited<<RustlsConnect as TlsConnect<TcpStream>>::Stream>;
type Refused = <RustlsConnect as TlsConnect<TcpStream>>::Error;

impl TlsConnect<TcpStream> for LimitedTls {
    type Stream = Opened;
    type Error = Refused;
    type Future = Pin<Box<dyn Future<Output = Result<Opened, Refused>> + Send>>;

    fn connect(self, stream: TcpStream) -> Self::Future {
        let opening = self.tls.connect(stream);
        Box::pin(async move { opening.await.map(|stream| Limited::new(stream, self.too_large)) })
    }
}
