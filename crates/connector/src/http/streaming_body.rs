//! A request body that is read while it is sent: only one chunk of it is in memory.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::task::JoinHandle;
use value::Data;

/// The bytes of a chunk. A peer that does not read holds one of them, so hundreds of slow readers must not hold large ones.
const CHUNK: usize = 32 << 10;

/// A body made of consecutive parts, each in memory or in a file. Its length is known in advance.
#[derive(Debug)]
pub struct StreamingBody {
    parts: VecDeque<Data>,
    /// The position in the first part.
    position: u64,
    bytes_left: u64,
    reading: Option<JoinHandle<io::Result<Bytes>>>,
}

impl StreamingBody {
    /// Creates a body from these parts in order.
    #[must_use]
    pub fn new(parts: impl IntoIterator<Item = Data>) -> Self {
        let parts: VecDeque<Data> = parts.into_iter().collect();
        let bytes_left = parts.iter().map(|data| data.len() as u64).sum();
        Self { parts, position: 0, bytes_left, reading: None }
    }

    /// Returns the next bytes if they are in memory, or starts to read the next chunk of a file. `None` also at the
    /// end.
    fn next_in_memory(&mut self) -> Option<Bytes> {
        loop {
            let data = self.parts.front()?;
            if let Data::InMemory(bytes) = data {
                let bytes = bytes.clone();
                self.parts.pop_front();
                if bytes.is_empty() {
                    continue;
                }
                return Some(bytes);
            }
            let length = data.len() as u64;
            if self.position >= length {
                (self.position, _) = (0, self.parts.pop_front());
                continue;
            }
            let (position, data) = (self.position, data.clone());
            let count = usize::try_from(length - position).unwrap_or(CHUNK).min(CHUNK);
            self.position += count as u64;
            // Allocated on a thread of the runtime, which frees it: an allocator keeps memory cached that another thread frees.
            let mut buffer = vec![0; count];
            let read = move || data.read_exact_at(position, &mut buffer).map(|()| Bytes::from(buffer));
            self.reading = Some(allocator::large_work(read));
            return None;
        }
    }
}

impl Body for StreamingBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = &mut *self;
        let chunk = match this.reading.is_none().then(|| this.next_in_memory()).flatten() {
            Some(bytes) => bytes,
            None => {
                let Some(reading) = &mut this.reading else { return Poll::Ready(None) };
                let read = ready!(Pin::new(reading).poll(cx));
                this.reading = None;
                read.map_err(io::Error::other)??
            }
        };
        this.bytes_left = this.bytes_left.saturating_sub(chunk.len() as u64);
        Poll::Ready(Some(Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes_left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes_left)
    }
}
