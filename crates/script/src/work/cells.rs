//! The cells of a worker, one for each module that it knows, the one used last at the end.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use super::cell::{Cell, Given, Run};
use super::failure;
use super::memory::Memory;
use super::prepare;
use super::sequence::Sequence;
use super::wire::Outlet;
use crate::module::Digest;
use crate::protocol::{Answer, Done, MAX_MODULES, Request};

/// The cells of a worker.
pub(super) struct Cells {
    memory: Memory,
    outlet: Rc<Outlet>,
    known: Vec<Known>,
    sequence: Sequence,
}

/// A module with its cell, if it has one at the time.
struct Known {
    digest: Digest,
    source: Arc<str>,
    cell: Option<Cell>,
}

impl Cells {
    pub(super) fn new(memory: usize, outlet: Rc<Outlet>) -> Self {
        let known = Vec::with_capacity(MAX_MODULES + 1);
        Self { memory: Memory::from_now(memory), outlet, known, sequence: Sequence::default() }
    }

    /// Runs what is asked for; says besides whether this worker is good for another run.
    pub(super) fn run(&mut self, request: &Request) -> (Answer, bool) {
        let began = Instant::now();
        if request.head.follows.is_none() && request.head.is_followed {
            self.outlet.hush();
        }
        let Some(earlier) = self.sequence.begin(request, began) else {
            self.outlet.ring();
            return (Answer::Skipped, true);
        };
        let run = self.run_after(request, &earlier, began);
        self.sequence.end(run.as_ref());
        let ended = Instant::now();
        if self.sequence.is_told(request, ended) {
            self.outlet.ring();
        }
        let goes_on = run.as_ref().is_none_or(|run| !run.is_fatal());
        let answer = match run {
            None => Answer::Unknown,
            Some(Run::Faulty(fault)) => Answer::Failed(fault),
            Some(Run::Clean(given)) => {
                let Given { result, writes, files, has_marked } = given;
                Answer::Done(Done { result, writes, took: ended.duration_since(began), has_marked, files })
            }
        };
        (answer, goes_on)
    }

    /// Runs a call; none if its module is not known.
    fn run_after(&mut self, request: &Request, earlier: &[Bytes], began: Instant) -> Option<Run> {
        let until = began + request.head.deadline;
        let mut known = self.find(request)?;
        let cell = match known.cell.take() {
            Some(cell) => Ok(cell),
            None => prepare::prepare(&known.source)
                .map_err(failure::syntax)
                .and_then(|prepared| Cell::new(&prepared, self.memory, &self.outlet, until)),
        };
        let run = match cell {
            Err(fault) => Run::Faulty(fault),
            Ok(mut cell) => {
                let run = cell.run(request, earlier, until);
                if run.is_clean() && !cell.has_grown() {
                    known.cell = Some(cell);
                } else if run.is_fatal() {
                    // Freeing it may take longer than the end of the process, which is near.
                    std::mem::forget(cell);
                }
                run
            }
        };
        self.known.push(known);
        Some(run)
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
        if self.known.len() > MAX_MODULES {
            self.known.remove(0);
        }
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    /// A call of a module, with its text or without.
    fn request(text: &'static str, is_sent: bool) -> Request {
        let source = is_sent.then(|| Bytes::from_static(text.as_bytes()));
        Request { source, ..Request::of(text) }
    }

    /// The result of a run, and how many its cell has served; none where there is no cell any more.
    fn run(cells: &mut Cells, request: Request) -> (String, Option<u32>) {
        let result = match cells.run(&request).0 {
            Answer::Done(done) => String::from_utf8_lossy(&done.result).into_owned(),
            Answer::Failed(fault) => fault.message,
            Answer::Unknown => "unknown".to_owned(),
            Answer::Skipped => "skipped".to_owned(),
        };
        (result, cells.known.last().and_then(|known| known.cell.as_ref()).map(Cell::runs))
    }

    #[test]
    fn a_module_is_compiled_once_and_evaluated_for_each_run() {
        const TEXT: &str = "let runs = 0;\nexport default () => { runs += 1; return runs; };";
        let mut cells = Cells::new(64 * 1024 * 1024, Rc::default());
        assert_eq!(run(&mut cells, request(TEXT, false)), ("unknown".to_owned(), None));
        assert_eq!(run(&mut cells, request(TEXT, true)), ("1".to_owned(), Some(1)));
        // Whether its text comes again or not.
        assert_eq!(run(&mut cells, request(TEXT, false)), ("1".to_owned(), Some(2)));
        assert_eq!(run(&mut cells, request(TEXT, true)), ("1".to_owned(), Some(3)));
        assert_eq!(cells.known.len(), 1);
        // Any other content is another module.
        assert_eq!(run(&mut cells, request("export default () => 2;", true)), ("2".to_owned(), Some(1)));
        assert_eq!(run(&mut cells, request(TEXT, false)), ("1".to_owned(), Some(4)));
        assert_eq!(cells.known.len(), 2);
    }

    #[test]
    fn after_an_error_a_module_is_compiled_again_without_its_text() {
        const TEXT: &str = "export default () => { throw new Error('no'); };";
        let mut cells = Cells::new(64 * 1024 * 1024, Rc::default());
        assert_eq!(run(&mut cells, request(TEXT, true)), ("no".to_owned(), None));
        assert_eq!(run(&mut cells, request(TEXT, false)), ("no".to_owned(), None));
    }
}
