//! Poisoning of the store after a fatal failure: a write to disk with an unknown outcome, or damage to the file.

use std::sync::{Arc, OnceLock};

use tokio::sync::Notify;

/// The first fatal failure, if any. All clones share it; once set, every write fails.
#[derive(Clone, Debug, Default)]
pub struct Poison(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    reason: OnceLock<String>,
    is_set: Notify,
}

impl Poison {
    /// Poisons the store, unless it is poisoned already.
    pub fn set(&self, reason: &str) {
        if self.0.reason.set(reason.to_owned()).is_ok() {
            tracing::error!(reason, "the store accepts no more writes, since it is no longer reliable");
            self.0.is_set.notify_waiters();
        }
    }

    /// Returns the reason; `None` if the store is not poisoned.
    pub fn reason(&self) -> Option<&str> {
        self.0.reason.get().map(String::as_str)
    }

    /// Waits until the store is poisoned, and returns the reason.
    pub async fn wait(&self) -> String {
        loop {
            let is_set = self.0.is_set.notified();
            if let Some(reason) = self.reason() {
                return reason.to_owned();
            }
            is_set.await;
        }
    }
}
