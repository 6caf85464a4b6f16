//! A worker, as the pool sees it: a process, the socket to it, the pipe with answers that woke nobody, and what it has
//! done so far.

use std::collections::VecDeque;
use std::io::{ErrorKind, PipeReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};

use super::PoolSettings;
use super::keeper::{Order, Replace};
use crate::call::LogLine;
use crate::error::Error;
use crate::module::Digest;
use crate::protocol::{Inbox, Lines, MAX_MESSAGE, MAX_MODULES, Message, Nonce, Tag};

/// How much is read at once.
const CHUNK: usize = 16 * 1024;
/// How often it is looked whether an answer lies in the pipe: the deadline of the run behind it is counted from then on.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A worker. Dropping it kills the process; the keeper buries it and starts another.
pub(super) struct Link {
    child: Option<Child>,
    socket: UnixStream,
    aside: PipeReader,
    registered: Option<Registered>,
    chunk: Box<[u8]>,
    keeper: Sender<Order>,
    /// What has not gone out yet.
    outbox: Vec<u8>,
    inbox: Inbox,
    /// How many answers were asked for, and how many are still to come.
    asked: usize,
    awaited: usize,
    /// Whether answers may come that wake nobody: as long as none came over the socket.
    is_quiet: bool,
    /// Whether the worker has closed its end of the socket: what came before that counts.
    has_ended: bool,
    lines: Lines,
    chance: Chance,
    known: VecDeque<Digest>,
    is_ready: bool,
    has_rested: bool,
    runs: u32,
    born: Instant,
    rests_since: Instant,
    replace: Replace,
}

/// The same socket as a runtime waits for it. Kept from run to run, but the next may be another runtime's.
struct Registered {
    runtime: tokio::runtime::Id,
    stream: tokio::net::UnixStream,
}

/// Why a worker is of no use any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// It did not answer in time.
    Late,
    /// It ended.
    Ended,
    /// It had ended before, so nothing was sent.
    Unsent,
    /// It said what no worker says.
    Garbled,
    /// It cannot be confined on this machine.
    Refused(String),
}

impl Broken {
    /// What it means to the caller.
    pub(super) fn into_error(self, logs: Vec<LogLine>) -> Error {
        let what = match self {
            Self::Refused(why) => return Error::Start(why),
            Self::Late => "did not answer in time",
            Self::Ended | Self::Unsent => "ended",
            Self::Garbled => "sent what no worker sends",
        };
        Error::Worker { what, logs }
    }
}

impl Link {
    pub(super) fn new(child: Child, socket: UnixStream, aside: PipeReader, keeper: Sender<Order>) -> Self {
        let now = Instant::now();
        Self {
            child: Some(child),
            socket,
            aside,
            registered: None,
            chunk: vec![0; CHUNK].into_boxed_slice(),
            keeper,
            outbox: Vec::new(),
            inbox: Inbox::default(),
            // Its greeting.
            asked: 1,
            awaited: 1,
            is_quiet: false,
            has_ended: false,
            lines: Lines::default(),
            chance: Chance::default(),
            known: VecDeque::with_capacity(MAX_MODULES),
            is_ready: false,
            has_rested: false,
            runs: 0,
            born: now,
            rests_since: now,
            replace: Replace::Yes,
        }
    }

    /// Waits until the worker is confined and ready; at once if it was before.
    pub(super) async fn greeting(&mut self, within: Duration) -> Result<(), Broken> {
        if self.is_ready {
            return Ok(());
        }
        let message = self.answer(Instant::now() + within).await?;
        self.greeted(&message)
    }

    /// As [`Link::greeting`], for a thread that may block.
    pub(super) fn greeting_blocking(&mut self, within: Duration) -> Result<(), Broken> {
        if self.is_ready {
            return Ok(());
        }
        let message = self.answer_blocking(Instant::now() + within)?;
        self.greeted(&message)
    }

    fn greeted(&mut self, message: &Message) -> Result<(), Broken> {
        match message.tag {
            Tag::Hello => {
                self.is_ready = true;
                Ok(())
            }
            Tag::Refused => {
                // Another would be refused too.
                self.replace = Replace::No;
                Err(Broken::Refused(message.text(0).unwrap_or_default().to_owned()))
            }
            _ => Err(Broken::Garbled),
        }
    }

    /// Sends messages that ask for so many answers, as far as they can be sent at once; the rest goes out while the first
    /// answer is waited for. What asks for more than one answer has to be short: a worker that answers does not read.
    pub(super) fn send(&mut self, bytes: &[u8], answers: usize) -> Result<(), Broken> {
        self.runs = self.runs.saturating_add(u32::try_from(answers).unwrap_or(u32::MAX));
        (self.asked, self.awaited, self.is_quiet) = (answers, answers, answers > 1);
        let rest = send(&self.socket, bytes)?;
        self.outbox = rest.to_vec();
        Ok(())
    }

    /// Waits for the next answer until `until`. If the future is dropped, the worker is of no use any more.
    pub(super) async fn answer(&mut self, until: Instant) -> Result<Message, Broken> {
        if let Some(message) = self.take_in()? {
            return Ok(message);
        }
        // One of several may be there: then there is no need to wait, nor for a timer.
        if self.awaited < self.asked
            && let Some(message) = self.look()?
        {
            return Ok(message);
        }
        loop {
            let next_look = if self.is_quiet { until.min(Instant::now() + LOOK_EVERY) } else { until };
            if let Ok(answer) = tokio::time::timeout_at(next_look.into(), self.converse()).await {
                return answer;
            }
            match self.look()? {
                Some(message) => return Ok(message),
                None if Instant::now() >= until => return Err(Broken::Late),
                None => {}
            }
        }
    }

    /// The next answer, if it has come.
    fn look(&mut self) -> Result<Option<Message>, Broken> {
        let received = self.socket.read(&mut self.chunk);
        self.received(received)?;
        self.take_in()
    }

    /// The answer behind the last one, if it came with it.
    pub(super) fn next_answer(&mut self) -> Result<Option<Message>, Broken> {
        self.take_in()
    }

    /// Sends a message and waits for the answer until `until`.
    pub(super) async fn exchange(&mut self, bytes: &[u8], until: Instant) -> Result<Message, Broken> {
        self.send(bytes, 1)?;
        self.answer(until).await
    }

    /// Sends the rest, and waits for an answer.
    async fn converse(&mut self) -> Result<Message, Broken> {
        self.register()?;
        loop {
            let stream = &self.registered.as_ref().ok_or(Broken::Ended)?.stream;
            if self.outbox.is_empty() {
                stream.readable().await.map_err(|_| Broken::Ended)?;
                let received = stream.try_read(&mut self.chunk);
                self.received(received)?;
                if let Some(message) = self.take_in()? {
                    return Ok(message);
                }
            } else {
                stream.writable().await.map_err(|_| Broken::Ended)?;
                match stream.try_write(&self.outbox) {
                    Ok(written) => drop(self.outbox.drain(..written)),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    Err(_) => return Err(Broken::Ended),
                }
            }
        }
    }

    /// Takes in what was received over the socket, behind what lies in the pipe.
    fn received(&mut self, received: std::io::Result<usize>) -> Result<(), Broken> {
        let count = match received {
            Ok(count) => {
                self.has_ended = count == 0;
                count
            }
            Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => 0,
            Err(_) => {
                self.has_ended = true;
                0
            }
        };
        if self.is_quiet {
            self.empty_pipe()?;
            self.is_quiet = count == 0 && !self.has_ended;
        }
        self.inbox.push(&self.chunk[..count]);
        Ok(())
    }

    /// Takes in what lies in the pipe.
    fn empty_pipe(&mut self) -> Result<(), Broken> {
        let (mut chunk, mut taken) = ([0; 4096], 0);
        loop {
            match self.aside.read(&mut chunk) {
                Ok(0) => return Ok(()),
                Ok(count) => {
                    taken += count;
                    self.inbox.push(&chunk[..count]);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // There is nothing more.
                Err(_) => return Ok(()),
            }
            // As much as a worker may lay there for a whole sequence.
            if taken > MAX_MESSAGE {
                return Err(Broken::Garbled);
            }
        }
    }

    /// The next answer, if it is all here. Lines of the log come before it; behind the last one comes nothing.
    fn take_in(&mut self) -> Result<Option<Message>, Broken> {
        match self.message()? {
            None if self.has_ended => Err(Broken::Ended),
            message => Ok(message),
        }
    }

    fn message(&mut self) -> Result<Option<Message>, Broken> {
        while let Some(message) = self.inbox.next().map_err(|_| Broken::Garbled)? {
            if message.tag == Tag::Line {
                self.lines.take_in(&message).map_err(|_| Broken::Garbled)?;
                continue;
            }
            self.awaited = self.awaited.checked_sub(1).ok_or(Broken::Garbled)?;
            if self.awaited == 0 && !self.inbox.is_empty() {
                return Err(Broken::Garbled);
            }
            return Ok(Some(message));
        }
        Ok(None)
    }

    /// Has the runtime that this is called from wait for the socket.
    fn register(&mut self) -> Result<(), Broken> {
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| Broken::Ended)?.id();
        if self.registered.as_ref().is_none_or(|registered| registered.runtime != runtime) {
            let socket = self.socket.try_clone().map_err(|_| Broken::Ended)?;
            let stream = tokio::net::UnixStream::from_std(socket).map_err(|_| Broken::Ended)?;
            self.registered = Some(Registered { runtime, stream });
        }
        Ok(())
    }

    /// As [`Link::exchange`], for a thread that may block.
    pub(super) fn exchange_blocking(&mut self, bytes: &[u8], until: Instant) -> Result<Message, Broken> {
        self.send(bytes, 1)?;
        let outbox = std::mem::take(&mut self.outbox);
        let mut rest = &outbox[..];
        while !rest.is_empty() {
            self.wait(PollFlags::OUT, until)?;
            rest = send(&self.socket, rest)?;
        }
        self.answer_blocking(until)
    }

    fn answer_blocking(&mut self, until: Instant) -> Result<Message, Broken> {
        loop {
            if let Some(message) = self.take_in()? {
                return Ok(message);
            }
            self.wait(PollFlags::IN, until)?;
            let received = self.socket.read(&mut self.chunk);
            self.received(received)?;
        }
    }

    /// Blocks until the socket is ready.
    fn wait(&self, what: PollFlags, until: Instant) -> Result<(), Broken> {
        let left = until.checked_duration_since(Instant::now()).ok_or(Broken::Late)?;
        let timeout = Timespec::try_from(left).ok();
        match rustix::event::poll(&mut [PollFd::new(&self.socket, what)], timeout.as_ref()) {
            Ok(0) => Err(Broken::Late),
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(_) => Err(Broken::Ended),
        }
    }

    /// The lines of the log that the last run has sent.
    pub(super) fn take_logs(&mut self) -> Vec<LogLine> {
        self.lines.take()
    }

    /// True where the last run has sent lines of the log.
    pub(super) fn has_logs(&self) -> bool {
        !self.lines.is_empty()
    }

    /// What marks the texts of the next run that stand for something else.
    pub(super) fn nonce(&mut self) -> Result<Nonce, getrandom::Error> {
        self.chance.draw().map(Nonce)
    }

    pub(super) fn knows(&self, digest: Digest) -> bool {
        self.known.contains(&digest)
    }

    /// Notes that the worker has a module, the one used last at the end.
    pub(super) fn learned(&mut self, digest: Digest) {
        if self.known.back() == Some(&digest) {
            return;
        }
        self.known.retain(|known| *known != digest);
        if self.known.len() == MAX_MODULES {
            self.known.pop_front();
        }
        self.known.push_back(digest);
    }

    /// Notes that the worker may not have a module.
    pub(super) fn forgets(&mut self, digest: Digest) {
        self.known.retain(|known| *known != digest);
    }

    /// Whether the process is still there.
    fn is_alive(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// Whether it has done something before: then it may have died since.
    pub(super) fn has_rested(&self) -> bool {
        self.has_rested
    }

    pub(super) fn rests(&mut self) {
        self.has_rested = true;
        self.rests_since = Instant::now();
    }

    /// Whether it has done its share.
    pub(super) fn is_spent(&self, settings: &PoolSettings) -> bool {
        self.runs >= settings.runs_per_worker || self.born.elapsed() > settings.age || !self.inbox.is_empty()
    }

    /// Whether it is not worth its memory any more.
    pub(super) fn is_stale(&mut self, settings: &PoolSettings) -> bool {
        self.is_spent(settings) || self.rests_since.elapsed() > settings.idle || !self.is_alive()
    }

    /// It may go without another in its place: the next run starts one if it needs to.
    pub(super) fn retire(&mut self) {
        self.replace = Replace::No;
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It fails if the process has ended, which is what is wanted.
            let _ = child.kill();
            // If the keeper is gone, this process ends too, and whoever adopts the child buries it.
            let _ = self.keeper.send(Order::Bury(child, self.replace));
        }
    }
}

/// Writes what can be written at once, and gives the rest.
fn send<'bytes>(mut socket: &UnixStream, bytes: &'bytes [u8]) -> Result<&'bytes [u8], Broken> {
    let mut rest = bytes;
    // Not a byte has gone out where the first attempt fails.
    let gone = |rest: &[u8]| if rest.len() == bytes.len() { Broken::Unsent } else { Broken::Ended };
    while !rest.is_empty() {
        match socket.write(rest) {
            Ok(0) => return Err(gone(rest)),
            Ok(written) => rest = &rest[written..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(_) => return Err(gone(rest)),
        }
    }
    Ok(rest)
}

/// Random bytes, fetched for many runs at once.
struct Chance {
    /// Apart, so that who holds a worker is not large.
    drawn: Box<[u8; 16 * 64]>,
    used: usize,
}

impl Default for Chance {
    fn default() -> Self {
        Self { drawn: Box::new([0; 16 * 64]), used: 16 * 64 }
    }
}

impl Chance {
    fn draw(&mut self) -> Result<[u8; 16], getrandom::Error> {
        if self.used == self.drawn.len() {
            getrandom::fill(&mut self.drawn[..])?;
            self.used = 0;
        }
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&self.drawn[self.used..self.used + 16]);
        self.used += 16;
        Ok(bytes)
    }
}
