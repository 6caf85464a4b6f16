//! A stream that refuses messages of the server above a size, before they are held in memory.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::net::TcpStream;
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};

use super::RustlsConnect;
use crate::sql::rows::MAX_ROW;
use crate::watched::{Watch, Watched};

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
pub(super) type Limited<S> = Watched<S, Sizes>;

/// Returns a stream with the limit.
pub(super) fn limited<S>(stream: S, too_large: TooLarge) -> Limited<S> {
    Watched { stream, watch: Sizes { head: Vec::with_capacity(HEAD), left: 0, too_large } }
}

/// The sizes of the messages of the server.
pub(super) struct Sizes {
    head: Vec<u8>,
    /// The bytes of the current message that are to come.
    left: usize,
    too_large: TooLarge,
}

impl Watch for Sizes {
    fn check(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        let mut bytes = &*bytes;
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
        Box::pin(async move { opening.await.map(|stream| limited(stream, self.too_large)) })
    }
}
