//! Faults that tests inject into the writer, at the points where a disk or a crash would.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// What becomes of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitFault {
    /// It fails, and nothing was written.
    NotWritten,
    /// It fails, though all was written: an error from the sync.
    Written,
    /// The disk is full.
    Full,
}

/// Faults to inject; a handle that is shared with the store it is given to.
#[derive(Clone, Debug, Default)]
pub struct Failpoints(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    commit: Mutex<Option<CommitFault>>,
    held: Mutex<bool>,
    released: Condvar,
}

/// Holds the writer until it is dropped.
#[derive(Debug)]
pub struct Held(Arc<Inner>);

impl Failpoints {
    /// Makes the next commit fail.
    pub fn fail_next_commit(&self, fault: CommitFault) {
        *self.0.commit.lock().unwrap_or_else(PoisonError::into_inner) = Some(fault);
    }

    /// Keeps the writer from writing what it receives until the guard is dropped, so that writes queue up.
    #[must_use]
    pub fn hold_writer(&self) -> Held {
        *self.0.held.lock().unwrap_or_else(PoisonError::into_inner) = true;
        Held(self.0.clone())
    }

    pub(super) fn take_commit_fault(&self) -> Option<CommitFault> {
        self.0.commit.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(super) fn wait_until_released(&self) {
        let held = self.0.held.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.0.released.wait_while(held, |held| *held));
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        *self.0.held.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.0.released.notify_all();
    }
}
