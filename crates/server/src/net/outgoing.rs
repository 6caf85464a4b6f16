//! The body of a response: in memory, or read from disk while it is sent.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body, Frame, SizeHint};
use runtime::StreamingBody;
use value::Data;

use super::body::SMALL;
use super::spool::{Share, Spool};

/// The body of a response, of known length.
pub(crate) enum Outgoing {
    /// In memory.
    Whole(Full<Bytes>),
    /// Chunk by chunk, each read once the previous one is sent: a slow reader holds only one chunk in memory. The share is that
    /// of a spooled body.
    Streamed { body: StreamingBody, _share: Option<Share> },
}

impl Outgoing {
    /// The body of a response; a large one is spooled to disk first. Otherwise it would stay in memory as long as its reader takes.
    ///
    /// # Errors
    /// The disk fails or is full, or the spool is full.
    pub(super) async fn on_disk_if_large(data: Data, spool: &Arc<Spool>) -> io::Result<Self> {
        let bytes = match data {
            Data::InMemory(bytes) if bytes.len() > SMALL => bytes,
            data => return Ok(data.into()),
        };
        let mut spooled = spool.begin().await?;
        spooled.push(bytes).await?;
        let (data, share) = spooled.finish().await?;
        Ok(Self::Streamed { body: StreamingBody::new([data]), _share: Some(share) })
    }
}

/// The error of a body that cannot be buffered until it is sent.
pub(super) enum KeepError {
    /// The body itself failed.
    Body(String),
    /// The disk failed or is full, or the spool is full.
    Disk(io::Error),
}

impl Outgoing {
    /// A body of unknown length, which is spooled to disk chunk by chunk if it is large.
    pub(super) async fn buffered<B>(mut body: B, spool: &Arc<Spool>) -> Result<Self, KeepError>
    where
        B: Body<Data = Bytes, Error: std::fmt::Display> + Unpin,
    {
        let (mut small, mut large) = (Vec::new(), None);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| KeepError::Body(error.to_string()))?;
            let Ok(part) = frame.into_data() else { continue };
            if large.is_none() && small.len() + part.len() <= SMALL {
                small.extend_from_slice(&part);
                continue;
            }
            if large.is_none() {
                let mut spooled = spool.begin().await.map_err(KeepError::Disk)?;
                spooled.push(std::mem::take(&mut small).into()).await.map_err(KeepError::Disk)?;
                large = Some(spooled);
            }
            if let Some(spooled) = &mut large {
                spooled.push(part).await.map_err(KeepError::Disk)?;
            }
        }
        let Some(spooled) = large else { return Ok(Bytes::from(small).into()) };
        let (data, share) = spooled.finish().await.map_err(KeepError::Disk)?;
        Ok(Self::Streamed { body: StreamingBody::new([data]), _share: Some(share) })
    }
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
            Data::External(_) => Self::Streamed { body: StreamingBody::new([data]), _share: None },
        }
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match self.get_mut() {
            Self::Whole(whole) => Pin::new(whole).poll_frame(cx).map_err(|never| match never {}),
            Self::Streamed { body, .. } => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(whole) => whole.is_end_stream(),
            Self::Streamed { body, .. } => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(whole) => whole.size_hint(),
            Self::Streamed { body, .. } => body.size_hint(),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::TryStreamExt as _;
    use value::MemoryFiles;

    use super::*;

    #[tokio::test]
    async fn only_large_response_bodies_are_spooled_to_disk() {
        let spool = Spool::new(Arc::new(MemoryFiles));
        let outgoing = async |length: usize| {
            Outgoing::on_disk_if_large(Data::from(vec![7_u8; length]), &spool).await.expect("there is room")
        };
        assert!(matches!(outgoing(SMALL).await, Outgoing::Whole(_)));
        let buffered = async |parts: Vec<Result<Vec<u8>, io::Error>>| {
            let parts = futures_util::stream::iter(parts).map_ok(|part| Frame::data(Bytes::from(part)));
            Outgoing::buffered(http_body_util::StreamBody::new(parts), &spool).await
        };
        assert!(matches!(
            buffered(vec![Ok(vec![7; SMALL / 2]), Ok(vec![7; SMALL / 2])]).await,
            Ok(Outgoing::Whole(_))
        ));
        let failed = buffered(vec![Ok(vec![7; SMALL + 1]), Err(io::Error::other("gone"))]).await;
        assert!(matches!(failed, Err(KeepError::Body(error)) if error == "gone"));
        assert_eq!(spool.used(), 0);
        let parts = vec![Ok(vec![7; SMALL]), Ok(vec![7; SMALL]), Ok(vec![7; SMALL + 1])];
        let Ok(large) = buffered(parts).await else { panic!("there is room") };
        assert_eq!((large.size_hint().exact(), spool.used()), (Some(3 * SMALL as u64 + 1), 3 * SMALL + 1));
        drop(large);
        let large = outgoing(3 * SMALL + 1).await;
        assert!(matches!(large, Outgoing::Streamed { _share: Some(_), .. }));
        assert_eq!(large.size_hint().exact(), Some(3 * SMALL as u64 + 1));
        assert_eq!(spool.used(), 3 * SMALL + 1);
        let sent = large.collect().await.expect("it is read").to_bytes();
        assert!(sent.len() == 3 * SMALL + 1 && sent.iter().all(|byte| *byte == 7));
        assert_eq!(spool.used(), 0);
    }
}
