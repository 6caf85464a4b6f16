//! The fact that the store cannot be trusted any more: a write to disk failed in a way that leaves its outcome unknown,
//! or the file is damaged.

use std::sync::{Arc, OnceLock};

use tokio::sync::Notify;

/// Set once, by whoever meets the fault; seen by all who write, and by whoever waits for it.
#[derive(Clone, Debug, Default)]
pub(super) struct Poison(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    reason: OnceLock<String>,
    is_set: Notify,
}

impl Poison {
    /// Marks the store as one that takes no more writes.
    pub(super) fn set(&self, reason: &str) {
        if self.0.reason.set(reason.to_owned()).is_ok() {
            tracing::error!(reason, "the store takes no more writes, since it cannot be trusted any more");
            self.0.is_set.notify_waiters();
        }
    }

    /// What happened, if anything did.
    pub(super) fn reason(&self) -> Option<&str> {
        self.0.reason.get().map(String::as_str)
    }

    /// Waits for it, and gives what happened.
    pub(super) async fn wait(&self) -> String {
        loop {
            let is_set = self.0.is_set.notified();
            if let Some(reason) = self.reason() {
                return reason.to_owned();
            }
            is_set.await;
        }
    }
}
