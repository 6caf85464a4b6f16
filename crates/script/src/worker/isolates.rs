//! The isolates of a worker: one for each cached module, the one used last at the end.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use super::failure;
use super::isolate::{Isolate, Run, RunResult};
use super::memory::Memory;
use super::prepare;
use super::sequence::Sequence;
use super::transport::ReplySender;
use crate::module::Digest;
use crate::protocol::{Answer, Done, MAX_MODULES, Request};

/// The isolates of a worker.
pub(super) struct Isolates {
    memory: Memory,
    replies: Rc<ReplySender>,
    known: Vec<Known>,
    sequence: Sequence,
}

/// A cached module, with its isolate if it has one.
struct Known {
    digest: Digest,
    source: Arc<str>,
    isolate: Option<Isolate>,
}

impl Isolates {
    pub(super) fn new(memory: usize, replies: Rc<ReplySender>) -> Self {
        let known = Vec::with_capacity(MAX_MODULES + 1);
        Self { memory: Memory::from_now(memory), replies, known, sequence: Sequence::default() }
    }

    /// Runs a request. Returns the reply, and false if this worker must end.
    pub(super) fn run(&mut self, request: &Request) -> (Answer, bool) {
        let began = Instant::now();
        if request.head.follows.is_none() && request.head.is_followed {
            self.replies.use_pipe();
        }
        let Some(earlier) = self.sequence.begin(request, began) else {
            self.replies.use_socket();
            return (Answer::Skipped, true);
        };
        let run = self.run_after(request, &earlier, began);
        self.sequence.end(run.as_ref());
        let ended = Instant::now();
        if self.sequence.must_wake_pool(request, ended) {
            self.replies.use_socket();
        }
        let is_usable = run.as_ref().is_none_or(|run| !run.is_fatal());
        let answer = match run {
            None => Answer::Unknown,
            Some(Run::Faulty(fault)) => Answer::Failed(fault),
            Some(Run::Clean(given)) => {
                let RunResult { result, writes, files, has_marked } = given;
                Answer::Done(Done { result, writes, took: ended.duration_since(began), has_marked, files })
            }
        };
        (answer, is_usable)
    }

    /// Runs a call; `None` if its module is not cached.
    fn run_after(&mut self, request: &Request, earlier: &[Bytes], began: Instant) -> Option<Run> {
        let until = began + request.head.deadline;
        let mut known = self.find(request)?;
        let isolate = match known.isolate.take() {
            Some(isolate) => Ok(isolate),
            None => prepare::prepare(&known.source)
                .map_err(failure::syntax)
                .and_then(|prepared| Isolate::new(&prepared, self.memory, &self.replies, until)),
        };
        let run = match isolate {
            Err(fault) => Run::Faulty(fault),
            Ok(mut isolate) => {
                let run = isolate.run(request, earlier, until);
                if run.is_clean() && !isolate.has_grown() {
                    known.isolate = Some(isolate);
                } else if run.is_fatal() {
                    // The process ends soon, and freeing the isolate may take longer.
                    std::mem::forget(isolate);
                }
                run
            }
        };
        self.known.push(known);
        Some(run)
    }

    /// Takes the module of a request out of the cache.
    fn find(&mut self, request: &Request) -> Option<Known> {
        let digest = request.head.digest;
        if let Some(index) = self.known.iter().position(|known| known.digest == digest) {
            return Some(self.known.remove(index));
        }
        let source = std::str::from_utf8(request.source.as_ref()?).ok()?.into();
        Some(Known { digest, source, isolate: None })
    }

    /// Evicts the least recently used module, if there are too many. Called after a reply, not before it.
    pub(super) fn evict(&mut self) {
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
        Request { source, ..Request::for_module(text) }
    }

    /// The result of a run, and the number of runs of its isolate; `None` if the isolate is gone.
    fn run(isolates: &mut Isolates, request: Request) -> (String, Option<u32>) {
        let result = match isolates.run(&request).0 {
            Answer::Done(done) => String::from_utf8_lossy(&done.result).into_owned(),
            Answer::Failed(fault) => fault.message,
            Answer::Unknown => "unknown".to_owned(),
            Answer::Skipped => "skipped".to_owned(),
        };
        (result, isolates.known.last().and_then(|known| known.isolate.as_ref()).map(Isolate::runs))
    }

    #[test]
    fn a_module_is_compiled_once_and_evaluated_for_each_run() {
        const TEXT: &str = "let runs = 0;\nexport default () => { runs += 1; return runs; };";
        let mut isolates = Isolates::new(64 * 1024 * 1024, Rc::default());
        assert_eq!(run(&mut isolates, request(TEXT, false)), ("unknown".to_owned(), None));
        assert_eq!(run(&mut isolates, request(TEXT, true)), ("1".to_owned(), Some(1)));
        // Used again or not.
        assert_eq!(run(&mut isolates, request(TEXT, false)), ("1".to_owned(), Some(2)));
        assert_eq!(run(&mut isolates, request(TEXT, true)), ("1".to_owned(), Some(3)));
        assert_eq!(isolates.known.len(), 1);
        // Any other content is another module.
        assert_eq!(run(&mut isolates, request("export default () => 2;", true)), ("2".to_owned(), Some(1)));
        assert_eq!(run(&mut isolates, request(TEXT, false)), ("1".to_owned(), Some(4)));
        assert_eq!(isolates.known.len(), 2);
    }

    #[test]
    fn after_an_error_a_module_is_compiled_again_without_its_text() {
        const TEXT: &str = "export default () => { throw new Error('no'); };";
        let mut isolates = Isolates::new(64 * 1024 * 1024, Rc::default());
        assert_eq!(run(&mut isolates, request(TEXT, true)), ("no".to_owned(), None));
        assert_eq!(run(&mut isolates, request(TEXT, false)), ("no".to_owned(), None));
    }
}
