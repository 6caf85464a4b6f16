//! The pool: who may run, on which worker, and what becomes of a worker afterwards.
//!
//! A run borrows a worker for itself and speaks with it from its own task: no hop to another thread. Runs wait in a
//! bounded queue, first come first served. A worker that overran, died or said what no worker says is killed by
//! dropping it, and another is started in its place at once.

mod checking;
mod keeper;
mod link;
mod settings;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use model::Value;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::call::{Call, Kind, Outcome, Shape, StateChange, StateWrite};
use crate::error::{Error, Failure, Frame};
use crate::module::{MAX_SOURCE, Module, Origin};
use crate::protocol::{
    Answer, Done, Fault, FaultKind, Head, MAX_MESSAGE, Message, Nonce, Sender, Tag, Unreadable, encode,
    restore,
};

use keeper::Keeper;
use link::{Broken, Link};
pub use settings::PoolSettings;

/// How long after its deadline a run that has not ended by itself is killed. What asks the interrupt handler needs
/// a millisecond or two; the rest is for a busy machine.
const GRACE: Duration = Duration::from_millis(50);

/// A pool of worker processes. Cheap to clone; starts nothing before it is needed; its workers end with it.
#[derive(Clone)]
pub struct Pool {
    shared: Arc<Shared>,
}

/// What the pool's handles and its keeper share.
struct Shared {
    settings: PoolSettings,
    /// Workers with nothing to do, the one used last at the end.
    idle: Mutex<Vec<Link>>,
    /// One for each run at a time.
    slots: Semaphore,
    waiting: AtomicUsize,
    checks: checking::Gate,
    keeper: Keeper,
}

impl Pool {
    /// A pool by these settings. No process is started before the first run.
    #[must_use]
    pub fn new(settings: PoolSettings) -> Self {
        let settings = settings.sane();
        let workers = settings.workers;
        let shared = Arc::new_cyclic(|weak| Shared {
            idle: Mutex::new(Vec::with_capacity(workers)),
            slots: Semaphore::new(workers),
            waiting: AtomicUsize::new(0),
            checks: checking::Gate::new(workers),
            keeper: Keeper::new(weak.clone(), settings.clone()),
            settings,
        });
        Self { shared }
    }

    /// Runs a module once. Dropping the future kills the worker.
    ///
    /// # Errors
    /// The code threw, overran or ran out of memory; its worker ended; no worker was to be had.
    pub async fn run(&self, call: Call<'_>) -> Result<Outcome, Error> {
        let limits = &self.shared.settings;
        let sent = Sent::new(&call)?;
        let slot = self.slot().await?;
        let mut link = self.shared.worker(Some(call.module)).await?;
        link.greeting(limits.start_within).await.map_err(|broken| self.shared.gone(broken, call.deadline))?;
        let until = Instant::now() + call.deadline + GRACE;
        let mut knows = link.knows(call.module.digest());
        let answer = loop {
            let bytes = sent.encode(&call, knows)?;
            let message = link.exchange(&bytes, until).await;
            match self.shared.answer(message, &call)? {
                // It has made room for other modules since.
                Answer::Unknown if knows => knows = false,
                Answer::Unknown => return Err(Error::Worker(Broken::Garbled.as_str())),
                answer => break answer,
            }
        };
        link.learned(call.module.digest());
        let read = read(&call, sent.nonce, answer, limits.memory);
        if !matches!(read, Err(Error::Worker(_) | Error::Overrun { .. } | Error::OutOfMemory { .. })) {
            self.shared.put_back(link);
        }
        drop(slot);
        read
    }

    /// Sends bytes to a worker and back: what a run costs at the least.
    ///
    /// # Errors
    /// No worker was to be had, or it ended.
    #[doc(hidden)]
    pub async fn echo(&self, bytes: &[u8]) -> Result<usize, Error> {
        let _slot = self.slot().await?;
        let mut link = self.shared.worker(None).await?;
        let limits = &self.shared.settings;
        let broken = |broken: Broken| Error::Worker(broken.as_str());
        link.greeting(limits.start_within).await.map_err(broken)?;
        let message = encode(Tag::Echo, &[bytes]).map_err(|_| too_large("what is sent"))?;
        let answer = link.exchange(&message, Instant::now() + limits.start_within).await.map_err(broken)?;
        self.shared.put_back(link);
        Ok(answer.parts.first().map_or(0, bytes::Bytes::len))
    }

    /// How many worker processes there are with nothing to do.
    #[must_use]
    pub fn idle_workers(&self) -> usize {
        self.shared.idle().len()
    }

    /// The place of one run. Whoever comes first has it first.
    async fn slot(&self) -> Result<SemaphorePermit<'_>, Error> {
        let shared = &self.shared;
        if let Ok(permit) = shared.slots.try_acquire() {
            return Ok(permit);
        }
        let queue = Queued::enter(shared)?;
        let waited = shared.settings.wait_at_most;
        let permit = tokio::time::timeout(waited, shared.slots.acquire()).await;
        drop(queue);
        permit.ok().and_then(Result::ok).ok_or(Error::Waited { waited })
    }
}

/// A place in the queue, given back however the waiting ends.
struct Queued<'pool>(&'pool Shared);

impl<'pool> Queued<'pool> {
    fn enter(shared: &'pool Shared) -> Result<Self, Error> {
        let waiting = shared.waiting.fetch_add(1, Ordering::Relaxed);
        let queued = Self(shared);
        if waiting < shared.settings.queue { Ok(queued) } else { Err(Error::Busy { waiting }) }
    }
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Shared {
    /// A poisoned lock is no harm: a list of workers is whole after every step.
    fn idle(&self) -> MutexGuard<'_, Vec<Link>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A worker: one that rests, or a new one.
    async fn worker(&self, module: Option<&Module>) -> Result<Link, Error> {
        match self.resting(module) {
            Some(link) => Ok(link),
            None => self.keeper.start().await.map_err(Error::Start),
        }
    }

    /// A worker that rests: one that knows the module if there is one, else the one used last. One that has died in
    /// its rest is passed over.
    fn resting(&self, module: Option<&Module>) -> Option<Link> {
        let mut idle = self.idle();
        idle.retain_mut(Link::is_alive);
        let known = module.and_then(|module| idle.iter().rposition(|link| link.knows(module.digest())));
        let index = known.or_else(|| idle.len().checked_sub(1))?;
        Some(idle.remove(index))
    }

    /// Takes a worker back, unless its time is over or there are enough.
    fn put_back(&self, mut link: Link) {
        if link.is_spent(&self.settings) {
            link.retire();
            return;
        }
        link.rests();
        let mut idle = self.idle();
        if idle.len() < self.settings.workers {
            idle.push(link);
        } else {
            link.retire();
        }
    }

    /// The workers that have had nothing to do for long, or have lived for long, end.
    fn sweep(&self) {
        let over: Vec<Link> = self.idle().extract_if(.., |link| link.is_stale(&self.settings)).collect();
        over.into_iter().for_each(|mut link| link.retire());
    }

    fn answer(&self, message: Result<Message, Broken>, call: &Call<'_>) -> Result<Answer, Error> {
        let message = message.map_err(|broken| self.gone(broken, call.deadline))?;
        Answer::try_from(message).map_err(|_| Error::Worker(Broken::Garbled.as_str()))
    }

    /// What it means to the caller that its worker is of no use any more.
    fn gone(&self, broken: Broken, deadline: Duration) -> Error {
        match broken {
            Broken::Late => Error::Overrun { deadline, logs: Vec::new() },
            Broken::Refused(why) => Error::Start(why),
            other => Error::Worker(other.as_str()),
        }
    }
}

/// A call in the form in which it is sent.
struct Sent {
    nonce: Nonce,
    context: String,
    argument: String,
    files: Vec<bytes::Bytes>,
}

impl Sent {
    fn new(call: &Call<'_>) -> Result<Self, Error> {
        if call.module.source().len() > MAX_SOURCE {
            return Err(Error::TooLarge { what: "the code", limit: MAX_SOURCE });
        }
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|error| Error::Start(error.to_string()))?;
        let mut sender = Sender::default();
        let argument = sender.take(&["argument"], call.argument);
        let context = sender.context(&call.context);
        Ok(Self { nonce: Nonce(random), context, argument, files: sender.files })
    }

    fn encode(&self, call: &Call<'_>, knows: bool) -> Result<Vec<u8>, Error> {
        let head = Head {
            digest: call.module.digest(),
            kind: call.kind,
            deadline: call.deadline,
            nonce: self.nonce,
        };
        let head = head.encode();
        let source = if knows { "" } else { call.module.source() };
        let mut parts: Vec<&[u8]> =
            vec![&head, source.as_bytes(), self.context.as_bytes(), self.argument.as_bytes()];
        parts.extend(self.files.iter().map(AsRef::<[u8]>::as_ref));
        encode(Tag::Call, &parts).map_err(|_| too_large("what the code is given"))
    }
}

fn too_large(what: &'static str) -> Error {
    Error::TooLarge { what, limit: MAX_MESSAGE }
}

/// What a worker's answer says, in the caller's terms.
fn read(call: &Call<'_>, nonce: Nonce, answer: Answer, memory: usize) -> Result<Outcome, Error> {
    match answer {
        Answer::Done(done) => outcome(call, nonce, done),
        Answer::Failed(fault) => Err(failed(call, fault, memory)),
        Answer::Unknown => Err(Error::Worker(Broken::Garbled.as_str())),
    }
}

fn outcome(call: &Call<'_>, nonce: Nonce, done: Done) -> Result<Outcome, Error> {
    let unreadable = |why: Unreadable| {
        let message = match why {
            Unreadable::Malformed => return Error::Worker(Broken::Garbled.as_str()),
            Unreadable::Large => {
                "what the code returned nests deeper than 64 levels or has more than 1,000,000 items"
            }
            Unreadable::Forged => "what the code returned refers to bytes that are not there",
        };
        let (message, logs) = (message.to_owned(), done.logs.clone());
        Error::Thrown(Box::new(Failure { message, at: None, frames: Vec::new(), logs }))
    };
    let mut state = Vec::with_capacity(done.writes.len());
    for write in &done.writes {
        let change = match &write.value {
            None => StateChange::Delete,
            Some(text) => StateChange::Set(restore(text.as_bytes(), nonce, &done.files).map_err(unreadable)?),
        };
        state.push(StateWrite { key: write.key.as_str().into(), change });
    }
    let value = match &done.result {
        nothing if nothing.is_empty() => None,
        text => Some(restore(text, nonce, &done.files).map_err(unreadable)?),
    };
    let (value, shape) = unwrap(call.kind, value);
    Ok(Outcome { value, shape, logs: done.logs, state })
}

/// Takes `{data}` off a step's result.
fn unwrap(kind: Kind, value: Option<Value>) -> (Value, Shape) {
    let Some(value) = value else { return (Value::Null, Shape::Nothing) };
    if kind == Kind::Trigger {
        return (value, Shape::Plain);
    }
    let shape = match &value {
        // Bytes with their content type: what is under `data` belongs to them.
        Value::File(_) => Shape::Data,
        Value::Map(map) => {
            let has_data = map.contains_key("data");
            let has_status = map.get("statusCode").is_some_and(|status| status.as_i64().is_some());
            match (has_status || (map.contains_key("body") && !has_data), has_data) {
                (true, _) => Shape::Response,
                (false, true) => return (map.get("data").cloned().unwrap_or_default(), Shape::Data),
                (false, false) => Shape::Plain,
            }
        }
        _ => Shape::Plain,
    };
    (value, shape)
}

fn failed(call: &Call<'_>, fault: Fault, memory: usize) -> Error {
    match fault.kind {
        FaultKind::Overrun => Error::Overrun { deadline: call.deadline, logs: fault.logs },
        FaultKind::OutOfMemory => Error::OutOfMemory { limit: memory, logs: fault.logs },
        FaultKind::TooLarge => too_large("what the code returned"),
        FaultKind::Thrown => {
            let origin: &Origin = call.module.origin();
            let place = |place: crate::protocol::Place| Frame {
                at: origin.place(place.at),
                function: place.function,
            };
            let frames: Vec<Frame> = fault.places.into_iter().map(place).collect();
            let at = frames.first().map(|frame| frame.at);
            Error::Thrown(Box::new(Failure { message: fault.message, at, frames, logs: fault.logs }))
        }
    }
}
