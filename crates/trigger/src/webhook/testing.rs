//! What the tests of this crate share.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use model::automation::{WebhookMode, WebhookTrigger};
use model::value::{Blob, Data, ExternalBytes};

/// Bytes that are read as if they were kept outside of memory, no more of them at one time than this.
#[derive(Debug)]
struct Outside(Bytes, usize);

impl Blob for Outside {
    fn digest(&self) -> [u8; 32] {
        Data::from(self.0.clone()).digest()
    }

    fn length(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min(self.1);
        Data::from(self.0.clone()).read_at(at, &mut buffer[..most])
    }
}

/// These bytes, kept outside of memory.
pub(crate) fn outside(bytes: &[u8], at_once: usize) -> Data {
    Data::from(ExternalBytes::new(Arc::new(Outside(Bytes::copy_from_slice(bytes), at_once))))
}

/// A webhook that takes everything that is not larger than 4 KiB.
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
