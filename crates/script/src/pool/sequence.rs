//! Calls on one worker, sent together and answered one by one: without a way to the worker and back for each.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::OwnedSemaphorePermit;

use super::link::{Broken, Link};
use super::sent::{Ended, Sent};
use super::{GRACE, Shared};
use crate::call::{Member, Outcome};
use crate::error::Error;
use crate::module::Digest;
use crate::protocol::{Answer, Message};

/// Runs under way on a worker. Dropping it before its end kills the worker.
#[must_use = "runs that nobody waits for are killed"]
pub struct Sequence {
    shared: Arc<Shared>,
    /// What came of runs that nobody has asked for yet.
    arrived: VecDeque<Ran>,
    running: Option<Box<Running>>,
}

/// What came of a run; nothing where it was not begun.
type Ran = Result<Option<Outcome>, Error>;

/// What a sequence holds until all its runs have been answered for.
struct Running {
    link: Link,
    /// The calls that are not answered, the next one first.
    sent: VecDeque<Sent>,
    has_answered: bool,
    /// How long they may take together before no more of them is begun.
    together: Duration,
    _slot: OwnedSemaphorePermit,
}

impl Sequence {
    /// The most runs that are sent together.
    pub const MAX_CALLS: usize = 64;
    /// The most bytes that are sent together: what a socket takes at once, since a worker that answers does not read.
    pub const MAX_BYTES: usize = 64 * 1024;
    /// Sends as many of the members as can be sent together, at least the first.
    pub(super) async fn begin(shared: &Arc<Shared>, members: &[Member<'_>]) -> Result<Self, Error> {
        let (mut sent, mut bytes) = (VecDeque::with_capacity(members.len().min(Self::MAX_CALLS)), 0);
        for member in members.iter().take(Self::MAX_CALLS) {
            let call = match Sent::new(member) {
                Ok(call) => call,
                Err(error) if sent.is_empty() => return Err(error),
                Err(_) => break,
            };
            bytes += call.weight();
            if bytes > Self::MAX_BYTES && !sent.is_empty() {
                break;
            }
            sent.push_back(call);
        }
        let slot = shared.slot().await?;
        let first = sent.front().map(Sent::digest);
        loop {
            let mut link = shared.worker(first).await?;
            let greeted = link.greeting(shared.settings.start_within).await;
            greeted.map_err(|broken| broken.into_error(Vec::new()))?;
            match send(&mut link, &mut sent, shared.settings.together) {
                Ok(Ok(())) => {
                    let together = shared.settings.together;
                    let running = Running { link, sent, has_answered: false, together, _slot: slot };
                    let (shared, running) = (Arc::clone(shared), Some(Box::new(running)));
                    return Ok(Self { shared, arrived: VecDeque::new(), running });
                }
                // It has died in its rest, so nothing has run.
                Ok(Err(Broken::Unsent)) if link.has_rested() => {}
                Ok(Err(broken)) => return Err(broken.into_error(Vec::new())),
                Err(error) => {
                    shared.put_back(link);
                    return Err(error);
                }
            }
        }
    }

    /// How many runs have not been asked for.
    #[must_use]
    pub fn left(&self) -> usize {
        self.arrived.len() + self.running.as_ref().map_or(0, |running| running.sent.len())
    }

    /// What [`Sequence::next`] would give, if that is here already.
    pub fn arrived(&mut self) -> Option<Result<Option<Outcome>, Error>> {
        self.arrived.pop_front()
    }

    /// What came of the next run; `None` where it was not begun, or there is none. The worker begins no run after one that
    /// gave no result, nor once they have taken some time together. After an error, and after `None`, there is no next.
    /// If the future is dropped, so is the sequence to be.
    ///
    /// # Errors
    /// As those of [`super::Pool::run`].
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
    /// Waits for the next answer, and takes those that came with it. Gives what is still under way: once all is answered,
    /// the worker serves others.
    async fn advance(
        mut self: Box<Self>,
        shared: &Shared,
        arrived: &mut VecDeque<Ran>,
    ) -> Result<Option<Box<Self>>, Error> {
        let started = Instant::now();
        let until = started + self.sent.front().map_or(GRACE, |call| call.deadline + GRACE);
        let mut answer = self.answer(shared, until).await?;
        while let Some(call) = self.sent.pop_front() {
            self.has_answered = true;
            let logs = self.link.take_logs();
            if matches!(answer, Ok(Answer::Unknown | Answer::Skipped)) {
                self.link.forgets(call.digest());
                arrived.push_back(Ok(None));
                break;
            }
            let read = Ended { answer, took: started.elapsed(), logs }.read(&call, shared.settings.memory);
            // A worker of which nobody knows what it does any more, or that has ended.
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
            if !is_result || self.sent.is_empty() {
                break;
            }
            answer = match self.link.next_answer() {
                Ok(None) => return Ok(Some(self)),
                Ok(Some(message)) => read_answer(message),
                Err(broken) => Err(broken),
            };
        }
        shared.leave(self, until).await;
        Ok(None)
    }

    /// The answer to the next call. The first is sent again, with those behind it, if the worker wants the text of its
    /// module, or to a new worker if this one ended without a sign that it had begun: somebody else may have killed it
    /// while it had nothing to do. Code has no effect, so beginning again changes nothing.
    async fn answer(&mut self, shared: &Shared, until: Instant) -> Result<Result<Answer, Broken>, Error> {
        loop {
            let message = self.link.answer(until).await;
            let answer = message.and_then(read_answer);
            let first = self.sent.front().filter(|_| !self.has_answered);
            match (answer, first) {
                // It has made room for other modules since.
                (Ok(Answer::Unknown), Some(call)) if !call.has_source => {
                    self.link.forgets(call.digest());
                    let again = match self.skipped(1, until).await {
                        Ok(()) => send(&mut self.link, &mut self.sent, self.together)?,
                        broken => broken,
                    };
                    if let Err(broken) = again {
                        return Ok(Err(broken));
                    }
                }
                (Err(Broken::Ended), Some(_)) if self.link.has_rested() && !self.link.has_logs() => {
                    self.link = shared.keeper.start().await.map_err(Error::Start)?;
                    let greeted = self.link.greeting(shared.settings.start_within).await;
                    let again = match greeted {
                        Ok(()) => send(&mut self.link, &mut self.sent, self.together)?,
                        broken => broken,
                    };
                    if let Err(broken) = again {
                        return Ok(Err(broken));
                    }
                }
                (Ok(Answer::Unknown | Answer::Skipped), Some(_)) => return Ok(Err(Broken::Garbled)),
                (answer, _) => return Ok(answer),
            }
        }
    }

    /// Takes the answers to the calls from that place on, none of which was begun since one before them gave no result.
    async fn skipped(&mut self, from: usize, until: Instant) -> Result<(), Broken> {
        for call in self.sent.iter().skip(from) {
            let message = self.link.answer(until).await?;
            if Answer::try_from(message) != Ok(Answer::Skipped) {
                return Err(Broken::Garbled);
            }
            self.link.forgets(call.digest());
        }
        Ok(())
    }
}

impl Shared {
    /// Takes a worker back after the last of its runs that was begun.
    async fn leave(&self, mut running: Box<Running>, until: Instant) {
        if running.skipped(0, until).await.is_ok() {
            self.put_back(running.link);
        }
    }
}

fn read_answer(message: Message) -> Result<Answer, Broken> {
    Answer::try_from(message).map_err(|_| Broken::Garbled)
}

/// Sends calls, with the texts of the modules that the worker does not know.
fn send(
    link: &mut Link,
    calls: &mut VecDeque<Sent>,
    together: Duration,
) -> Result<Result<(), Broken>, Error> {
    let (mut bytes, last) = (Vec::new(), calls.len().saturating_sub(1));
    for (place, call) in calls.iter_mut().enumerate() {
        let nonce = link.nonce().map_err(|error| Error::Start(error.to_string()))?;
        let digest: Digest = call.digest();
        call.has_source = !link.knows(digest);
        let encoded = call.encode(nonce, (place > 0).then_some(together), place < last)?;
        if bytes.is_empty() {
            bytes = encoded
        } else {
            bytes.extend_from_slice(&encoded)
        }
        link.learned(digest);
    }
    Ok(link.send(&bytes, calls.len()))
}
