//! The module cache of a worker: the texts of modules, and the isolate in which they are compiled.

use std::collections::HashMap;
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
use crate::protocol::{Answer, Done, MAX_MODULES, Request, RunFailure};

/// Maximum number of bytes of the cached texts.
const MAX_SOURCES: usize = 8 * 1024 * 1024;

/// The modules of a worker, and their isolate.
pub(super) struct Isolates {
    memory: Memory,
    replies: Rc<ReplySender>,
    cached: HashMap<Digest, Cached>,
    /// The bytes of the cached texts.
    sources: usize,
    /// The number of uses of any module.
    uses: u64,
    isolate: Option<Isolate>,
    sequence: Sequence,
}

/// The text of a module.
struct Cached {
    source: Arc<str>,
    /// The value of [`Isolates::uses`] at its last use.
    last_use: u64,
}

impl Isolates {
    pub(super) fn new(memory: usize, replies: Rc<ReplySender>) -> Self {
        Self {
            memory: Memory::from_now(memory),
            replies,
            cached: HashMap::new(),
            sources: 0,
            uses: 0,
            isolate: None,
            sequence: Sequence::default(),
        }
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
            Some(Run::Failed(fault)) => Answer::Failed(fault),
            Some(Run::Succeeded(given)) => {
                let RunResult { result, writes, files, has_marked } = given;
                Answer::Done(Done { result, writes, took: ended.duration_since(began), has_marked, files })
            }
        };
        (answer, is_usable)
    }

    /// Runs a call; `None` if its module is not cached.
    fn run_after(&mut self, request: &Request, earlier: &[Bytes], began: Instant) -> Option<Run> {
        let until = began + request.head.deadline;
        let source = self.find(request)?;
        let run = match self.isolate_with(request.head.digest, &source, until) {
            Err(fault) => Run::Failed(fault),
            Ok(isolate) => isolate.run(request, earlier, until),
        };
        if let Some(mut isolate) = self.isolate.take() {
            if isolate.is_reusable(&run) {
                self.isolate = Some(isolate);
            } else if run.is_fatal() {
                // The process ends soon, and freeing the isolate may take longer.
                std::mem::forget(isolate);
            }
        }
        Some(run)
    }

    /// The isolate, with this module compiled.
    fn isolate_with(
        &mut self,
        digest: Digest,
        source: &str,
        until: Instant,
    ) -> Result<&mut Isolate, RunFailure> {
        let isolate = match self.isolate.take() {
            Some(isolate) => isolate,
            None => Isolate::new(self.memory, &self.replies, until)?,
        };
        let isolate = self.isolate.insert(isolate);
        if !isolate.has(digest) {
            let prepared = prepare::prepare(source).map_err(failure::syntax)?;
            isolate.compile(digest, &prepared, until)?;
        }
        Ok(isolate)
    }

    /// The text of a request's module: from the cache, or from the request, which is then cached.
    fn find(&mut self, request: &Request) -> Option<Arc<str>> {
        self.uses += 1;
        let (digest, last_use) = (request.head.digest, self.uses);
        if let Some(cached) = self.cached.get_mut(&digest) {
            cached.last_use = last_use;
            return Some(Arc::clone(&cached.source));
        }
        let source: Arc<str> = std::str::from_utf8(request.source.as_ref()?).ok()?.into();
        self.sources += source.len();
        self.cached.insert(digest, Cached { source: Arc::clone(&source), last_use });
        Some(source)
    }

    /// Evicts the least recently used modules, if there are too many. Called after a reply, not before it.
    pub(super) fn evict(&mut self) {
        while self.cached.len() > MAX_MODULES || (self.sources > MAX_SOURCES && self.cached.len() > 1) {
            let oldest =
                self.cached.iter().min_by_key(|(_, cached)| cached.last_use).map(|(digest, _)| *digest);
            let Some((digest, cached)) = oldest.and_then(|digest| self.cached.remove_entry(&digest)) else {
                return;
            };
            self.sources -= cached.source.len();
            if let Some(isolate) = &mut self.isolate {
                isolate.evict(digest);
            }
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

    fn isolates() -> Isolates {
        Isolates::new(64 * 1024 * 1024, Rc::default())
    }

    /// The result of a run, and the number of runs of the isolate; `None` if it was discarded.
    fn run(isolates: &mut Isolates, request: Request) -> (String, Option<u32>) {
        let result = match isolates.run(&request).0 {
            Answer::Done(done) => String::from_utf8_lossy(&done.result).into_owned(),
            Answer::Failed(fault) => fault.message,
            Answer::Unknown => "unknown".to_owned(),
            Answer::Skipped => "skipped".to_owned(),
        };
        (result, isolates.isolate.as_ref().map(Isolate::runs))
    }

    #[test]
    fn a_module_is_compiled_once_and_evaluated_for_each_run() {
        const TEXT: &str = "let runs = 0;\nexport default () => { runs += 1; return runs; };";
        let mut isolates = isolates();
        assert_eq!(run(&mut isolates, request(TEXT, false)), ("unknown".to_owned(), None));
        assert_eq!(run(&mut isolates, request(TEXT, true)), ("1".to_owned(), Some(1)));
        // Used again or not.
        assert_eq!(run(&mut isolates, request(TEXT, false)), ("1".to_owned(), Some(2)));
        assert_eq!(run(&mut isolates, request(TEXT, true)), ("1".to_owned(), Some(3)));
        assert_eq!(isolates.cached.len(), 1);
        // Any other content is another module, in the same isolate.
        assert_eq!(run(&mut isolates, request("export default () => 2;", true)), ("2".to_owned(), Some(4)));
        assert_eq!(run(&mut isolates, request(TEXT, false)), ("1".to_owned(), Some(5)));
        assert_eq!(isolates.cached.len(), 2);
    }

    #[test]
    fn an_isolate_survives_an_error_unless_it_leaves_a_pending_job() {
        const THROWS: &str = "export default () => { throw new Error('no'); };";
        const LEAVES: &str =
            "export default () => { Promise.resolve().then(() => {}); throw new Error('no'); };";
        const OTHER: &str = "export default () => 1;";
        let mut isolates = isolates();
        assert_eq!(run(&mut isolates, request(OTHER, true)), ("1".to_owned(), Some(1)));
        assert_eq!(run(&mut isolates, request(THROWS, true)), ("no".to_owned(), Some(2)));
        assert_eq!(run(&mut isolates, request(LEAVES, true)), ("no".to_owned(), None));
        // Without their texts: these are still cached.
        assert_eq!(run(&mut isolates, request(OTHER, false)), ("1".to_owned(), Some(1)));
        assert_eq!(run(&mut isolates, request(THROWS, false)), ("no".to_owned(), Some(2)));
    }

    #[test]
    fn the_least_recently_used_module_is_evicted() {
        let mut isolates = isolates();
        let texts: Vec<String> =
            (0..=MAX_MODULES).map(|number| format!("export default () => {number};")).collect();
        let request = |text: &str, is_sent: bool| Request {
            source: is_sent.then(|| Bytes::copy_from_slice(text.as_bytes())),
            ..Request::for_module(text)
        };
        for (number, text) in texts.iter().enumerate() {
            assert_eq!(run(&mut isolates, request(text, true)).0, number.to_string());
            // The first one stays in use.
            assert_eq!(run(&mut isolates, request(&texts[0], false)).0, "0");
            isolates.evict();
        }
        assert_eq!(isolates.cached.len(), MAX_MODULES);
        assert_eq!(run(&mut isolates, request(&texts[1], false)).0, "unknown");
        assert_eq!(run(&mut isolates, request(&texts[0], false)).0, "0");
        assert_eq!(run(&mut isolates, request(&texts[2], false)).0, "2");
    }
}
