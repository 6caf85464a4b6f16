//! A request body that is held back while requests must not leave the process.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::streaming_body::StreamingBody;
use super::{GATE_CHECK, Gate, Timer};

/// A body whose bytes pass the gate right before the connection writes them. A request without its body has no effect, so this is
/// the last moment at which a process that was frozen can notice that it may be dead.
pub(super) struct GatedBody {
    inner: StreamingBody,
    gate: Arc<dyn Gate>,
    timer: Arc<dyn Timer>,
    /// The pause until the gate is polled again. The lock is never taken: it makes the body `Sync`, as `reqwest` wants it.
    pause: Mutex<Option<Pause>>,
}

type Pause = Pin<Box<dyn Future<Output = ()> + Send>>;

impl GatedBody {
    pub(super) fn new(inner: StreamingBody, gate: Arc<dyn Gate>, timer: Arc<dyn Timer>) -> Self {
        Self { inner, gate, timer, pause: Mutex::default() }
    }
}

impl Body for GatedBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = &mut *self;
        let pause = this.pause.get_mut().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(pausing) = pause {
                ready!(pausing.as_mut().poll(cx));
                *pause = None;
            }
            if this.gate.is_open() {
                return Pin::new(&mut this.inner).poll_frame(cx);
            }
            let timer = this.timer.clone();
            *pause = Some(Box::pin(async move { timer.pause(GATE_CHECK).await }));
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
