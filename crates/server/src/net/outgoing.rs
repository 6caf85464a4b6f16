//! The body of an answer: in memory, or read from disk while it is sent.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use engine::StreamingBody;
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};
use model::value::Data;

/// The body of a response, of known length.
pub(crate) enum Outgoing {
    /// At once.
    Whole(Full<Bytes>),
    /// One piece at a time, each read when the one before it is gone: a slow reader holds no more memory than that.
    Streamed(StreamingBody),
}

impl From<Bytes> for Outgoing {
    fn from(bytes: Bytes) -> Self {
        Self::Whole(Full::new(bytes))
    }
}

impl From<Data> for Outgoing {
    fn from(data: Data) -> Self {
        match data {
            Data::InMemory(bytes) => bytes.into(),
            Data::External(_) => Self::Streamed(StreamingBody::new([data])),
        }
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match self.get_mut() {
            Self::Whole(whole) => Pin::new(whole).poll_frame(cx).map_err(|never| match never {}),
            Self::Streamed(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(whole) => whole.is_end_stream(),
            Self::Streamed(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(whole) => whole.size_hint(),
            Self::Streamed(body) => body.size_hint(),
        }
    }
}
