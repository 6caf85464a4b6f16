//! The fact that a write to disk failed in a way that leaves its outcome unknown.

use std::sync::{Arc, OnceLock};

/// Set once, by whoever meets the fault; seen by all who write.
#[derive(Clone, Debug, Default)]
pub(super) struct Poison(Arc<OnceLock<String>>);

impl Poison {
    /// Marks the store as one that takes no more writes.
    pub(super) fn set(&self, reason: &str) {
        if self.0.set(reason.to_owned()).is_ok() {
            tracing::error!(reason, "the store takes no more writes, since the outcome of one is unknown");
        }
    }

    /// What happened, if anything did.
    pub(super) fn reason(&self) -> Option<&str> {
        self.0.get().map(String::as_str)
    }
}
