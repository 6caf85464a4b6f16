//! The cells of a worker, one for each module that it knows, the one used last at the end.

use std::sync::Arc;
use std::time::Instant;

use super::cell::Cell;
use super::failure;
use super::memory::Memory;
use super::prepare;
use crate::module::Digest;
use crate::protocol::{Answer, Request};

/// How many modules are known at the same time, each with a context of its own (about half a megabyte).
const MAX_CELLS: usize = 16;
/// How many runs a cell serves: what the engine keeps of each run, it keeps until the end of the context.
const MAX_RUNS: u32 = 1_000;

/// The cells of a worker.
pub(super) struct Cells {
    memory: Memory,
    known: Vec<Known>,
}

/// A module with its cell, if it has one at the time.
struct Known {
    digest: Digest,
    source: Arc<str>,
    cell: Option<Cell>,
}

impl Cells {
    pub(super) fn new(memory: usize) -> Self {
        Self { memory: Memory::from_now(memory), known: Vec::with_capacity(MAX_CELLS + 1) }
    }

    /// Runs what is asked for; says besides whether this worker is good for another run.
    pub(super) fn run(&mut self, request: Request) -> (Answer, bool) {
        let until = Instant::now() + request.head.deadline;
        let Some(mut known) = self.find(&request) else { return (Answer::Unknown, true) };
        let cell = match known.cell.take() {
            Some(cell) => Ok(cell),
            None => prepare::prepare(&known.source)
                .map_err(failure::syntax)
                .and_then(|prepared| Cell::new(&prepared, self.memory, until)),
        };
        let (answer, goes_on) = match cell {
            Err(fault) => (Answer::Failed(fault), true),
            Ok(mut cell) => {
                let run = cell.run(request, until);
                if run.is_clean() && cell.runs() < MAX_RUNS && !cell.has_grown() {
                    known.cell = Some(cell);
                } else if run.is_fatal() {
                    // Freeing it may take longer than the end of the process, which is near.
                    std::mem::forget(cell);
                }
                let goes_on = !run.is_fatal();
                (run.into_answer(), goes_on)
            }
        };
        self.known.push(known);
        (answer, goes_on)
    }

    /// The module of a request, taken out of the list.
    fn find(&mut self, request: &Request) -> Option<Known> {
        let digest = request.head.digest;
        if let Some(index) = self.known.iter().position(|known| known.digest == digest) {
            return Some(self.known.remove(index));
        }
        let source = std::str::from_utf8(request.source.as_ref()?).ok()?.into();
        Some(Known { digest, source, cell: None })
    }

    /// Lets the module go that was not used for longest, if there are too many. After an answer, not before it.
    pub(super) fn tidy(&mut self) {
        if self.known.len() > MAX_CELLS {
            self.known.remove(0);
        }
    }
}
