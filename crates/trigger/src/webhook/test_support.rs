//! Shared helpers of the tests.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use model::automation::{WebhookMode, WebhookTrigger};
use value::{Blob, Data, ExternalBytes};

/// External bytes in memory, with a maximum number of bytes per read.
#[derive(Debug)]
struct ExternalBlob(Bytes, usize);

impl Blob for ExternalBlob {
    fn digest(&self) -> [u8; 32] {
        Data::from(self.0.clone()).digest()
    }

    fn length(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let count = buffer.len().min(self.1);
        Data::from(self.0.clone()).read_at(at, &mut buffer[..count])
    }
}

/// Creates external bytes.
pub(crate) fn external(bytes: &[u8], at_once: usize) -> Data {
    Data::from(ExternalBytes::new(Arc::new(ExternalBlob(Bytes::copy_from_slice(bytes), at_once))))
}

/// A webhook trigger that accepts bodies of up to 4 KiB.
pub(crate) fn trigger() -> WebhookTrigger {
    WebhookTrigger {
        mode: WebhookMode::Async,
        methods: Vec::new(),
        respond: None,
        timeout: Duration::from_secs(30),
        max_body: 4096,
        verify: None,
        schema: None,
        challenge: None,
        dedup: None,
        rate_limit: None,
        code: None,
    }
}
