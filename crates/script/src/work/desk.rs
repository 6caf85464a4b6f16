//! What the host knows of the run that goes on: its deadline, how much it has logged, the bytes that it gives back.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Instant;

use bytes::Bytes;

use super::memory::Memory;
use super::wire::Outlet;
use crate::call::Level;
use crate::protocol::{
    FaultKind, MAX_LINES, MAX_LOG, MAX_MESSAGE, MAX_TEXT, Nonce, Write, encode_line, excerpt,
};

/// The most keys of the state that a run writes.
const MAX_WRITES: usize = 1_000;

/// What the host knows of the run that goes on. Its functions are called from inside JavaScript.
#[derive(Default)]
pub(super) struct Desk {
    memory: Memory,
    outlet: Rc<Outlet>,
    until: Cell<Option<Instant>>,
    stopped: Cell<Option<FaultKind>>,
    nonce: Cell<Nonce>,
    lines: Cell<usize>,
    logged: Cell<usize>,
    left_out: Cell<usize>,
    writes: RefCell<Vec<Write>>,
    files: RefCell<Vec<Bytes>>,
    kept: Cell<usize>,
    has_marked: Cell<bool>,
}

/// What a run has left on the desk.
pub(super) struct Left {
    pub(super) writes: Vec<Write>,
    pub(super) files: Vec<Bytes>,
    /// Whether some texts of the result stand for something else.
    pub(super) has_marked: bool,
}

impl Desk {
    /// The desk of a cell in a process with this memory.
    pub(super) fn new(memory: Memory, outlet: Rc<Outlet>) -> Self {
        Self { memory, outlet, ..Self::default() }
    }

    /// Whether the process has touched so much memory that some may have been refused to it.
    pub(super) fn has_used_much(&self) -> bool {
        self.memory.has_used_much()
    }

    /// Clears the desk for a run.
    pub(super) fn begin(&self, until: Instant, nonce: Nonce) {
        drop(self.end());
        self.until(until);
        self.nonce.set(nonce);
    }

    /// Sets the time when whatever runs is stopped.
    pub(super) fn until(&self, until: Instant) {
        self.until.set(Some(until));
        self.stopped.set(None);
    }

    /// Whether the run is to end: its time is up, or memory was refused to it. Asked by QuickJS now and then, and
    /// between jobs.
    pub(super) fn is_over(&self) -> bool {
        let is_late = || self.until.get().is_some_and(|until| Instant::now() >= until);
        if self.stopped.get().is_none() && is_late() {
            self.stopped.set(Some(FaultKind::Overrun));
        }
        self.stopped.get().is_some()
    }

    /// Notes that the engine had no memory for something. Whatever the code makes of that, the run has failed.
    pub(super) fn refused(&self) {
        self.stopped.set(Some(FaultKind::OutOfMemory));
    }

    /// Why the run was stopped, if it was.
    pub(super) fn stopped(&self) -> Option<FaultKind> {
        self.stopped.get()
    }

    /// Takes everything off the desk.
    pub(super) fn end(&self) -> Left {
        self.until.set(None);
        let left_out = self.left_out.take();
        if left_out > 0 {
            let told = format!("{left_out} more lines were left out: a run may log 1,000 lines and 64 KiB");
            self.tell(Level::Warn, &told);
        }
        self.lines.set(0);
        self.logged.set(0);
        self.kept.set(0);
        Left { writes: self.writes.take(), files: self.files.take(), has_marked: self.has_marked.take() }
    }

    /// Takes a line into the log, cut to what the daemon reads of it; nothing once the log is full.
    pub(super) fn log(&self, level: Level, text: &str) {
        let message = excerpt(text);
        let kept = text.char_indices().nth(MAX_TEXT).map_or(text.len(), |(at, _)| at);
        let logged = self.logged.get() + kept;
        if self.lines.get() >= MAX_LINES || logged > MAX_LOG {
            self.left_out.set(self.left_out.get() + 1);
            return;
        }
        self.logged.set(logged);
        self.tell(level, &message);
    }

    /// Sends a line at once: whoever is killed for what it does next has said it.
    fn tell(&self, level: Level, message: &str) {
        self.lines.set(self.lines.get() + 1);
        if let Ok(bytes) = encode_line(level, message) {
            // If nobody listens any more, the process ends with the next read.
            let _ = self.outlet.send(&bytes);
        }
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
        self.has_marked.set(true);
        Some(format!("{}f{}", self.nonce.get().mark(), files.len() - 1))
    }

    /// The text that stands for an integer that is no double.
    pub(super) fn integer(&self, digits: &str) -> String {
        self.has_marked.set(true);
        format!("{}n{digits}", self.nonce.get().mark())
    }

    fn weigh(&self, bytes: usize) -> bool {
        let kept = self.kept.get().saturating_add(bytes);
        self.kept.set(kept);
        kept <= MAX_MESSAGE
    }
}
