//! The host's state of the current run: its deadline, its log, the files that it returns.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Instant;

use bytes::Bytes;

use super::memory::Memory;
use super::transport::ReplySender;
use crate::call::Level;
use crate::protocol::{
    FailureKind, MAX_LINES, MAX_LOG, MAX_MESSAGE, MAX_TEXT, Nonce, Write, encode_line, excerpt,
};

/// The maximum number of state keys that a run may write.
const MAX_WRITES: usize = 1_000;

/// The host's state of the current run. JavaScript calls its functions.
#[derive(Default)]
pub(super) struct HostState {
    memory: Memory,
    replies: Rc<ReplySender>,
    until: Cell<Option<Instant>>,
    stopped: Cell<Option<FailureKind>>,
    nonce: Cell<Nonce>,
    lines: Cell<usize>,
    logged: Cell<usize>,
    left_out: Cell<usize>,
    writes: RefCell<Vec<Write>>,
    files: RefCell<Vec<Bytes>>,
    kept: Cell<usize>,
    has_marked: Cell<bool>,
}

/// The host's part of a run's result.
pub(super) struct HostOutput {
    pub(super) writes: Vec<Write>,
    pub(super) files: Vec<Bytes>,
    /// True if some texts of the result are marked as files or integers.
    pub(super) has_marked: bool,
}

impl HostState {
    /// The state of a context in a process with this memory.
    pub(super) fn new(memory: Memory, replies: Rc<ReplySender>) -> Self {
        Self { memory, replies, ..Self::default() }
    }

    /// True if the process has touched so much memory that an allocation may have failed.
    pub(super) fn has_touched_half(&self) -> bool {
        self.memory.has_touched_half()
    }

    /// Resets the state for a run.
    pub(super) fn begin(&self, until: Instant, nonce: Nonce) {
        drop(self.end());
        self.until(until);
        self.nonce.set(nonce);
    }

    /// Sets the deadline of the run.
    pub(super) fn until(&self, until: Instant) {
        self.until.set(Some(until));
        self.stopped.set(None);
    }

    /// True if the run must end: its deadline has passed, or an allocation failed. QuickJS calls it regularly, and the
    /// job loop between jobs.
    pub(super) fn must_end(&self) -> bool {
        let is_late = || self.until.get().is_some_and(|until| Instant::now() >= until);
        if self.stopped.get().is_none() && is_late() {
            self.stopped.set(Some(FailureKind::Overrun));
        }
        self.stopped.get().is_some()
    }

    /// Records a failed allocation. The run has failed, even if the code catches the error.
    pub(super) fn record_refused_memory(&self) {
        self.stopped.set(Some(FailureKind::OutOfMemory));
    }

    /// The reason why the run was stopped, if it was.
    pub(super) fn stopped(&self) -> Option<FailureKind> {
        self.stopped.get()
    }

    /// Ends the run, and takes its part of the result.
    pub(super) fn end(&self) -> HostOutput {
        self.until.set(None);
        let left_out = self.left_out.take();
        if left_out > 0 {
            let told = format!("{left_out} more lines were left out: a run may log 1,000 lines and 64 KiB");
            self.send_line(Level::Warn, &told);
        }
        self.lines.set(0);
        self.logged.set(0);
        self.kept.set(0);
        HostOutput {
            writes: self.writes.take(),
            files: self.files.take(),
            has_marked: self.has_marked.take(),
        }
    }

    /// Logs a line, truncated to what the daemon reads; does nothing once the log is full.
    pub(super) fn log(&self, level: Level, text: &str) {
        let message = excerpt(text);
        let kept = text.char_indices().nth(MAX_TEXT).map_or(text.len(), |(at, _)| at);
        let logged = self.logged.get() + kept;
        if self.lines.get() >= MAX_LINES || logged > MAX_LOG {
            self.left_out.set(self.left_out.get() + 1);
            return;
        }
        self.logged.set(logged);
        self.send_line(level, &message);
    }

    /// Sends a line immediately, so that it survives if the process is killed.
    fn send_line(&self, level: Level, message: &str) {
        self.lines.set(self.lines.get() + 1);
        if let Ok(bytes) = encode_line(level, message) {
            // If the pool is gone, the process ends with the next read.
            let _ = self.replies.send(&bytes);
        }
    }

    /// Records a write to the state; the last write of each key counts. False if there are too many.
    pub(super) fn write(&self, key: String, value: Option<String>) -> bool {
        let mut writes = self.writes.borrow_mut();
        let size = key.len() + value.as_ref().map_or(0, String::len);
        writes.retain(|write| write.key != key);
        if writes.len() >= MAX_WRITES || !self.charge(size) {
            return false;
        }
        writes.push(Write { key, value });
        true
    }

    /// Keeps bytes to send with the result, and returns the text that refers to them; `None` if there are too many.
    pub(super) fn add_file(&self, bytes: Vec<u8>) -> Option<String> {
        let mut files = self.files.borrow_mut();
        if files.len() >= 1_000 || !self.charge(bytes.len()) {
            return None;
        }
        files.push(bytes.into());
        self.has_marked.set(true);
        Some(format!("{}f{}", self.nonce.get().mark(), files.len() - 1))
    }

    /// The marked text for an integer that a double cannot represent.
    pub(super) fn mark_integer(&self, digits: &str) -> String {
        self.has_marked.set(true);
        format!("{}n{digits}", self.nonce.get().mark())
    }

    fn charge(&self, bytes: usize) -> bool {
        let kept = self.kept.get().saturating_add(bytes);
        self.kept.set(kept);
        kept <= MAX_MESSAGE
    }
}
