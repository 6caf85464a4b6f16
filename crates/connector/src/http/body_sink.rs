//! Bodies of answers that go elsewhere while they arrive, such as into a file, instead of into memory.

use async_trait::async_trait;
use bytes::Bytes;
use model::{ActionError, ErrorKind};

use super::{Http, RequestContext, Transport, transport_failure};

/// The bytes of such a body that a recording has.
const MAX_RECORDED: usize = 64 << 10;

/// Takes the body of a good answer while it arrives, as it was sent.
#[async_trait]
pub trait BodySink: Send + Sync {
    /// Takes the next bytes. The connection waits meanwhile.
    ///
    /// # Errors
    /// Returns the reason why it takes no more, which ends the request.
    async fn push(&self, bytes: &[u8]) -> Result<(), ActionError>;
}

impl Http {
    /// Passes a body on as it arrives. Returns its start if a recording needs it, and else nothing.
    pub(super) async fn stream_body(
        &self,
        mut response: reqwest::Response,
        sink: &dyn BodySink,
        context: &RequestContext<'_>,
    ) -> Result<Bytes, ActionError> {
        let is_recorded = matches!(self.options.transport, Transport::Cassette(_));
        let (url, idle, mut begin) = (response.url().clone(), self.options.idle_timeout, Vec::new());
        loop {
            match tokio::time::timeout(idle, response.chunk()).await {
                Err(_) => return Err(stopped(context.subject, idle)),
                Ok(Err(error)) => return Err(transport_failure::client_error(context.subject, &url, error)),
                Ok(Ok(None)) => return Ok(begin.into()),
                Ok(Ok(Some(chunk))) => {
                    if is_recorded {
                        let room = MAX_RECORDED.saturating_sub(begin.len()).min(chunk.len());
                        begin.extend(chunk.iter().take(room));
                    }
                    sink.push(&chunk).await?;
                }
            }
        }
    }
}

/// The error of an answer that came to a halt.
pub(super) fn stopped(subject: &str, idle: std::time::Duration) -> ActionError {
    let idle = text::units::format_duration(idle);
    ActionError::new(ErrorKind::Timeout, format!("the answer of {subject} stopped for {idle} in its middle"))
}
