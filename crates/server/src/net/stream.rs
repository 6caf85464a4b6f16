//! A connection's bytes: scanned as they arrive, never stuck on a peer that does not read, closed with care.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};

use super::scan::{FramingError, Scan};
use super::slots::AnonymousSlot;

/// The most bytes that a closing connection is read on for.
const LINGER_BYTES: usize = 16 << 20;

/// The framing state of a connection, for the handlers of its requests.
#[derive(Debug, Default)]
pub(crate) struct FramingState {
    fault: AtomicU8,
    request: AtomicBool,
    /// Set if unauthenticated connections are counted separately.
    anonymous: Option<AnonymousSlot>,
    trusted: AtomicBool,
    peer: Option<IpAddr>,
}

impl FramingState {
    /// The initial state of a connection from `peer`. `anonymous` is its slot until a request shows a credential.
    pub(crate) fn new(peer: IpAddr, anonymous: Option<AnonymousSlot>) -> Self {
        Self { anonymous, peer: Some(peer.to_canonical()), ..Self::default() }
    }

    /// The address of the other side of the connection, which may be a proxy.
    pub(crate) fn peer(&self) -> Option<IpAddr> {
        self.peer
    }

    /// Notes that a request has shown a credential of this owner.
    pub(crate) fn trust(&self, owner: &str) {
        if !self.trusted.swap(true, Ordering::Relaxed)
            && let Some(anonymous) = &self.anonymous
        {
            anonymous.trust(owner);
        }
    }

    /// The fault in the framing, if there is one.
    pub(crate) fn fault(&self) -> Option<FramingError> {
        match self.fault.load(Ordering::Acquire) {
            0 => None,
            found => FramingError::ALL.into_iter().find(|fault| *fault as u8 == found),
        }
    }

    fn set_fault(&self, fault: FramingError) {
        self.fault.store(fault as u8, Ordering::Release);
    }

    /// True if a request's header section has arrived completely.
    pub(crate) fn has_request(&self) -> bool {
        self.request.load(Ordering::Acquire)
    }

    pub(crate) fn set_request(&self) {
        self.request.store(true, Ordering::Release);
    }
}

/// One connection.
pub(crate) struct Stream<'s> {
    inner: TcpStream,
    scan: Scan,
    framing: &'s FramingState,
    write_stall: Duration,
    /// Set while the peer takes nothing; made only then, so that a peer that reads costs no timer.
    stalled: Option<Pin<Box<Sleep>>>,
    linger: Duration,
    closing: Closing,
}

enum Closing {
    No,
    Lingering { until: Pin<Box<Sleep>>, left: usize },
    Done,
}

impl<'s> Stream<'s> {
    pub(crate) fn new(
        inner: TcpStream,
        framing: &'s FramingState,
        write_stall: Duration,
        linger: Duration,
    ) -> Self {
        Self { inner, scan: Scan::new(), framing, write_stall, stalled: None, linger, closing: Closing::No }
    }

    fn scan(&mut self, bytes: &[u8]) {
        if let Some(fault) = self.scan.feed(bytes) {
            self.framing.set_fault(fault);
        }
    }

    /// Ends in an error once the peer has taken nothing for too long.
    fn watch<T>(&mut self, written: Poll<io::Result<T>>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let wait = self.write_stall;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(wait)));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer takes no bytes of the answer")))
    }

    /// Reads on until the request under way has arrived, the peer has closed, or enough is enough. Closing a socket
    /// with unread bytes resets the connection, and a reset can overtake the answer that explains it.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut scrap = [0; 8 << 10];
        loop {
            let Closing::Lingering { until, left } = &mut self.closing else { return Poll::Ready(()) };
            if *left == 0 || !self.scan.is_mid_request() || until.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            let mut buffer = ReadBuf::new(&mut scrap);
            let read = ready!(Pin::new(&mut self.inner).poll_read(cx, &mut buffer));
            if read.is_err() || buffer.filled().is_empty() {
                return Poll::Ready(());
            }
            *left = left.saturating_sub(buffer.filled().len());
            let filled = buffer.filled().len();
            self.scan(&scrap[..filled]);
        }
    }
}

impl AsyncRead for Stream<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buffer))?;
        self.scan(&buffer.filled()[before..]);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Stream<'_> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.watch(written, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(cx, pieces);
        self.watch(written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if matches!(this.closing, Closing::No) {
            ready!(Pin::new(&mut this.inner).poll_shutdown(cx))?;
            let until = Box::pin(tokio::time::sleep_until(Instant::now() + this.linger));
            this.closing = Closing::Lingering { until, left: LINGER_BYTES };
        }
        ready!(this.poll_linger(cx));
        this.closing = Closing::Done;
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_peer_that_reads_nothing_times_out() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
        let address = listener.local_addr().expect("an address");
        let (peer, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (_peer, (stream, _)) = (peer.expect("a peer"), accepted.expect("a connection"));
        let framing = FramingState::default();
        let short = Duration::from_millis(20);
        let mut stream = Stream::new(stream, &framing, short, short);
        let error = stream.write_all(&vec![0; 64 << 20]).await.expect_err("nobody reads");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
