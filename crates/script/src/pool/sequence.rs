//! Calls that are sent to one worker in a batch and answered one by one, without a round trip for each.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::OwnedSemaphorePermit;

use super::inflight::{Ended, InFlightCall};
use super::worker_handle::{WorkerFailure, WorkerHandle};
use super::{GRACE, Shared};
use crate::call::{Outcome, SequenceCall};
use crate::error::Error;
use crate::module::Digest;
use crate::protocol::{Answer, Message};

/// A sequence of runs in progress on a worker. Dropping it before its end kills the worker.
#[must_use = "dropping a sequence kills its runs"]
pub struct Sequence {
    shared: Arc<Shared>,
    /// Results that have not been read yet.
    arrived: VecDeque<CallResult>,
    running: Option<Box<Running>>,
}

/// The end of a run; `None` if it did not start.
type CallResult = Result<Option<Outcome>, Error>;

/// The state of a sequence until all its runs have ended.
struct Running {
    worker_handle: WorkerHandle,
    /// The calls without a reply, the next one first.
    inflight: VecDeque<InFlightCall>,
    has_answered: bool,
    /// The time limit, after which no further run starts.
    together: Duration,
    _slot: OwnedSemaphorePermit,
}

impl Sequence {
    /// The maximum number of runs in a batch.
    pub const MAX_CALLS: usize = 64;
    /// The maximum size of a batch, in bytes: the capacity of a socket, since a worker that replies does not read.
    pub const MAX_BYTES: usize = 64 * 1024;
    /// Sends as many members as fit into a batch, at least the first.
    pub(super) async fn begin(shared: &Arc<Shared>, members: &[SequenceCall<'_>]) -> Result<Self, Error> {
        let (mut inflight, mut bytes) = (VecDeque::with_capacity(members.len().min(Self::MAX_CALLS)), 0);
        for member in members.iter().take(Self::MAX_CALLS) {
            let call = match InFlightCall::new(member) {
                Ok(call) => call,
                Err(error) if inflight.is_empty() => return Err(error),
                Err(_) => break,
            };
            bytes += call.encoded_size();
            if bytes > Self::MAX_BYTES && !inflight.is_empty() {
                break;
            }
            inflight.push_back(call);
        }
        let slot = shared.slot().await?;
        let first = inflight.front().map(InFlightCall::digest);
        loop {
            let mut worker_handle = shared.worker(first).await?;
            let check_greeting = worker_handle.greeting(shared.settings.start_within).await;
            check_greeting.map_err(|broken| broken.into_error(Vec::new()))?;
            match send(&mut worker_handle, &mut inflight, shared.settings.together) {
                Ok(Ok(())) => {
                    let together = shared.settings.together;
                    let running =
                        Running { worker_handle, inflight, has_answered: false, together, _slot: slot };
                    let (shared, running) = (Arc::clone(shared), Some(Box::new(running)));
                    return Ok(Self { shared, arrived: VecDeque::new(), running });
                }
                // It died while idle, so nothing has run.
                Ok(Err(WorkerFailure::Unsent)) if worker_handle.was_idle() => {}
                Ok(Err(broken)) => return Err(broken.into_error(Vec::new())),
                Err(error) => {
                    shared.put_back(worker_handle);
                    return Err(error);
                }
            }
        }
    }

    /// The number of runs whose results have not been read.
    #[must_use]
    pub fn left(&self) -> usize {
        self.arrived.len() + self.running.as_ref().map_or(0, |running| running.inflight.len())
    }

    /// The result of [`Sequence::next`], if it has arrived already.
    pub fn arrived(&mut self) -> Option<Result<Option<Outcome>, Error>> {
        self.arrived.pop_front()
    }

    /// Returns the result of the next run; `None` if it did not start, or at the end. The worker starts no run after a run
    /// without a result, nor after the time limit of the sequence. After an error or `None` there is no next result. If the
    /// future is dropped, drop the sequence too.
    ///
    /// # Errors
    /// Like [`super::Pool::run`].
    pub async fn next(&mut self) -> Result<Option<Outcome>, Error> {
        if self.arrived.is_empty()
            && let Some(running) = self.running.take()
        {
            self.running = running.advance(&self.shared, &mut self.arrived).await?;
        }
        self.arrived.pop_front().unwrap_or(Ok(None))
    }
}

impl Running {
    /// Waits for the next reply, and takes the replies that arrived with it. Returns the runs in progress; after the last reply
    /// the worker is free.
    async fn advance(
        mut self: Box<Self>,
        shared: &Shared,
        arrived: &mut VecDeque<CallResult>,
    ) -> Result<Option<Box<Self>>, Error> {
        let started = Instant::now();
        let until = started + self.inflight.front().map_or(GRACE, |call| call.deadline + GRACE);
        let mut answer = self.answer(shared, until).await?;
        while let Some(call) = self.inflight.pop_front() {
            self.has_answered = true;
            let logs = self.worker_handle.take_logs();
            if matches!(answer, Ok(Answer::Unknown | Answer::Skipped)) {
                self.worker_handle.remove_module(call.digest());
                arrived.push_back(Ok(None));
                break;
            }
            let read = Ended { answer, took: started.elapsed(), logs }.read(&call, shared.settings.memory);
            // The worker has ended, or its state is unknown.
            let is_lost = matches!(
                &read,
                Err(Error::Worker { .. }
                    | Error::Start(_)
                    | Error::Overrun { .. }
                    | Error::OutOfMemory { .. })
            );
            let is_result = read.is_ok();
            arrived.push_back(read.map(Some));
            if is_lost {
                return Ok(None);
            }
            if !is_result || self.inflight.is_empty() {
                break;
            }
            answer = match self.worker_handle.next_answer() {
                Ok(None) => return Ok(Some(self)),
                Ok(Some(message)) => read_answer(message),
                Err(broken) => Err(broken),
            };
        }
        shared.release(self, until).await;
        Ok(None)
    }

    /// The reply to the next call. If the worker lacks the text of its module, or ended without having started (it may have been
    /// killed while idle), the call and the following ones are sent again, to a new worker if needed. Code has no side effects,
    /// so a repetition is harmless.
    async fn answer(
        &mut self,
        shared: &Shared,
        until: Instant,
    ) -> Result<Result<Answer, WorkerFailure>, Error> {
        loop {
            let message = self.worker_handle.answer(until).await;
            let answer = message.and_then(read_answer);
            let first = self.inflight.front().filter(|_| !self.has_answered);
            match (answer, first) {
                // It has evicted the module in the meantime.
                (Ok(Answer::Unknown), Some(call)) if !call.has_source => {
                    self.worker_handle.remove_module(call.digest());
                    let again = match self.expect_skipped(1, until).await {
                        Ok(()) => send(&mut self.worker_handle, &mut self.inflight, self.together)?,
                        broken => broken,
                    };
                    if let Err(broken) = again {
                        return Ok(Err(broken));
                    }
                }
                (Err(WorkerFailure::Ended), Some(_))
                    if self.worker_handle.was_idle() && !self.worker_handle.has_logs() =>
                {
                    self.worker_handle = shared.supervisor.start().await.map_err(Error::Start)?;
                    let check_greeting = self.worker_handle.greeting(shared.settings.start_within).await;
                    let again = match check_greeting {
                        Ok(()) => send(&mut self.worker_handle, &mut self.inflight, self.together)?,
                        broken => broken,
                    };
                    if let Err(broken) = again {
                        return Ok(Err(broken));
                    }
                }
                (Ok(Answer::Unknown | Answer::Skipped), Some(_)) => {
                    return Ok(Err(WorkerFailure::ProtocolViolation));
                }
                (answer, _) => return Ok(answer),
            }
        }
    }

    /// Reads the replies to the calls from `from` on, none of which started since an earlier one had no result.
    async fn expect_skipped(&mut self, from: usize, until: Instant) -> Result<(), WorkerFailure> {
        for call in self.inflight.iter().skip(from) {
            let message = self.worker_handle.answer(until).await?;
            if Answer::try_from(message) != Ok(Answer::Skipped) {
                return Err(WorkerFailure::ProtocolViolation);
            }
            self.worker_handle.remove_module(call.digest());
        }
        Ok(())
    }
}

impl Shared {
    /// Releases a worker after the last of its runs that started.
    async fn release(&self, mut running: Box<Running>, until: Instant) {
        if running.expect_skipped(0, until).await.is_ok() {
            self.put_back(running.worker_handle);
        }
    }
}

fn read_answer(message: Message) -> Result<Answer, WorkerFailure> {
    Answer::try_from(message).map_err(|_| WorkerFailure::ProtocolViolation)
}

/// Sends calls, with the texts of the modules that the worker lacks.
fn send(
    worker_handle: &mut WorkerHandle,
    calls: &mut VecDeque<InFlightCall>,
    together: Duration,
) -> Result<Result<(), WorkerFailure>, Error> {
    let (mut bytes, last) = (Vec::new(), calls.len().saturating_sub(1));
    for (place, call) in calls.iter_mut().enumerate() {
        let nonce = worker_handle.nonce().map_err(|error| Error::Start(error.to_string()))?;
        let digest: Digest = call.digest();
        call.has_source = !worker_handle.has_module(digest);
        let encoded = call.encode(nonce, (place > 0).then_some(together), place < last)?;
        if bytes.is_empty() {
            bytes = encoded
        } else {
            bytes.extend_from_slice(&encoded)
        }
        worker_handle.add_module(digest);
    }
    Ok(worker_handle.send(&bytes, calls.len()))
}
