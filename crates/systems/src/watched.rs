//! Streams whose arriving bytes are checked before a client reads them.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Follows the bytes that arrive.
pub(crate) trait Watch: Unpin {
    /// Takes the next bytes, which it may change before the client reads them.
    ///
    /// # Errors
    /// The client must not read them; its connection fails with this error.
    fn check(&mut self, bytes: &mut [u8]) -> io::Result<()>;
}

/// A stream with a check of its arriving bytes.
#[derive(Debug)]
pub(crate) struct Watched<S, W> {
    pub(crate) stream: S,
    pub(crate) watch: W,
}

impl<S: AsyncRead + Unpin, W: Watch> AsyncRead for Watched<S, W> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        Poll::Ready(self.watch.check(buffer.filled_mut().get_mut(before..).unwrap_or_default()))
    }
}

impl<S: AsyncWrite + Unpin, W: Unpin> AsyncWrite for Watched<S, W> {
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
