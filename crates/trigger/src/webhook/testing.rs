//! What the tests of this crate share.

use std::time::Duration;

use model::automation::{WebhookMode, WebhookTrigger};

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
