//! What the host knows of the run that goes on: its deadline, what it has logged, the bytes that it gives back.

use std::cell::{Cell, RefCell};
use std::time::Instant;

use bytes::Bytes;

use crate::call::{Level, LogLine};
use crate::protocol::{MAX_MESSAGE, Nonce, Write};

/// The longest line of the log, in characters.
const MAX_LINE: usize = 4096;
/// The most lines of a run.
const MAX_LINES: usize = 1_000;
/// The most bytes of all lines of a run.
const MAX_LOG: usize = 64 * 1024;
/// The most keys of the state that a run writes.
const MAX_WRITES: usize = 1_000;

/// What the host knows of the run that goes on. Its functions are called from inside JavaScript.
#[derive(Default)]
pub(super) struct Desk {
    until: Cell<Option<Instant>>,
    is_overrun: Cell<bool>,
    mark: RefCell<String>,
    logs: RefCell<Vec<LogLine>>,
    logged: Cell<usize>,
    left_out: Cell<usize>,
    writes: RefCell<Vec<Write>>,
    files: RefCell<Vec<Bytes>>,
    kept: Cell<usize>,
}

/// What a run has left on the desk.
pub(super) struct Left {
    pub(super) logs: Vec<LogLine>,
    pub(super) writes: Vec<Write>,
    pub(super) files: Vec<Bytes>,
}

impl Desk {
    /// Clears the desk for a run.
    pub(super) fn begin(&self, until: Instant, nonce: Nonce) {
        drop(self.end());
        self.until(until);
        *self.mark.borrow_mut() = nonce.mark();
    }

    /// Sets the time when whatever runs is stopped.
    pub(super) fn until(&self, until: Instant) {
        self.until.set(Some(until));
        self.is_overrun.set(false);
    }

    /// Whether the time is up. Asked by QuickJS now and then, and between jobs.
    pub(super) fn is_over(&self) -> bool {
        let is_over = self.until.get().is_some_and(|until| Instant::now() >= until);
        if is_over {
            self.is_overrun.set(true);
        }
        is_over
    }

    /// Whether the run was stopped since its time was up.
    pub(super) fn is_overrun(&self) -> bool {
        self.is_overrun.get()
    }

    /// Takes everything off the desk.
    pub(super) fn end(&self) -> Left {
        self.until.set(None);
        let mut logs = self.logs.take();
        let left_out = self.left_out.take();
        if left_out > 0 {
            let message =
                format!("{left_out} more lines were left out: a run may log 1,000 lines and 64 KiB");
            logs.push(LogLine { level: Level::Warn, message });
        }
        self.logged.set(0);
        self.kept.set(0);
        Left { logs, writes: self.writes.take(), files: self.files.take() }
    }

    /// Takes a line into the log, cut to its length; nothing once the log is full.
    pub(super) fn log(&self, level: Level, text: &str) {
        let mut message: String = text.chars().take(MAX_LINE).collect();
        if message.len() < text.len() {
            message.pop();
            message.push('…');
        }
        let logged = self.logged.get() + message.len();
        let mut logs = self.logs.borrow_mut();
        if logs.len() >= MAX_LINES || logged > MAX_LOG {
            self.left_out.set(self.left_out.get() + 1);
            return;
        }
        self.logged.set(logged);
        logs.push(LogLine { level, message });
    }

    /// Notes a write to the state; the last of each key counts. False if there are too many.
    pub(super) fn write(&self, key: String, value: Option<String>) -> bool {
        let mut writes = self.writes.borrow_mut();
        let size = key.len() + value.as_ref().map_or(0, String::len);
        writes.retain(|write| write.key != key);
        if writes.len() >= MAX_WRITES || !self.weigh(size) {
            return false;
        }
        writes.push(Write { key, value });
        true
    }

    /// Keeps bytes to be sent beside the result, and gives the text that stands for them; none if there are too many.
    pub(super) fn keep(&self, bytes: Vec<u8>) -> Option<String> {
        let mut files = self.files.borrow_mut();
        if files.len() >= 1_000 || !self.weigh(bytes.len()) {
            return None;
        }
        files.push(bytes.into());
        Some(format!("{}f{}", self.mark.borrow(), files.len() - 1))
    }

    /// The text that stands for an integer that is no double.
    pub(super) fn integer(&self, digits: &str) -> String {
        format!("{}n{digits}", self.mark.borrow())
    }

    fn weigh(&self, bytes: usize) -> bool {
        let kept = self.kept.get().saturating_add(bytes);
        self.kept.set(kept);
        kept <= MAX_MESSAGE
    }
}
