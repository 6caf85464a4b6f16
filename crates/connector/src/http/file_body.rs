//! The body of an answer that becomes a file while it arrives.

use async_trait::async_trait;
use model::ActionError;
use tokio::sync::Mutex;
use value::Data;

use super::body_sink::BodySink;
use crate::file_sink::FileSink;

/// The body of an answer that becomes a file.
pub struct FileBody(Mutex<FileSink>);

impl FileBody {
    /// Writes the body to this file.
    #[must_use]
    pub fn new(file: FileSink) -> Self {
        Self(Mutex::new(file))
    }

    /// Completes the file.
    ///
    /// # Errors
    /// As [`FileSink::finish`].
    pub async fn finish(self) -> Result<Data, ActionError> {
        self.0.into_inner().finish().await
    }
}

#[async_trait]
impl BodySink for FileBody {
    async fn push(&self, bytes: &[u8]) -> Result<(), ActionError> {
        self.0.lock().await.push(bytes).await
    }
}
