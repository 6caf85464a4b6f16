//! The pool's handle of a worker: its process, the socket to it, the pipe for batched results that do not wake the
//! daemon, and its history.

use std::collections::HashMap;
use std::io::{ErrorKind, PipeReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};

use super::PoolSettings;
use super::supervisor::{Replace, Task};
use crate::call::LogLine;
use crate::error::Error;
use crate::module::Digest;
use crate::protocol::{Inbox, Lines, MAX_MESSAGE, MAX_MODULES, Message, Nonce, Tag};

/// The maximum size of one read, in bytes.
const CHUNK: usize = 16 * 1024;
/// The interval between reads of the pipe. The deadline of the next run counts from the read that found the reply.
const PIPE_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A worker. Dropping it kills the process; the supervisor reaps it and starts another.
pub(super) struct WorkerHandle {
    child: Option<Child>,
    socket: UnixStream,
    pipe: PipeReader,
    registered: Option<Registered>,
    chunk: Box<[u8]>,
    supervisor: Sender<Task>,
    /// Bytes not sent yet.
    outbox: Vec<u8>,
    inbox: Inbox,
    /// The number of expected replies, and of those outstanding.
    asked: usize,
    awaited: usize,
    /// True while replies may arrive through the pipe, without waking the pool: until the first arrives over the
    /// socket.
    uses_pipe: bool,
    /// True once the worker has closed its end of the socket; replies before that count.
    has_ended: bool,
    lines: Lines,
    random: RandomPool,
    modules: ModuleList,
    is_ready: bool,
    /// The confinement in a few words; empty until it is ready.
    confinement: String,
    was_idle: bool,
    runs: u32,
    born: Instant,
    idle_since: Instant,
    replace: Replace,
}

/// The socket as registered with a runtime. Kept from run to run, but the next may come from another runtime.
struct Registered {
    runtime: tokio::runtime::Id,
    stream: tokio::net::UnixStream,
}

/// The reason why a worker is unusable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WorkerFailure {
    /// It did not reply in time.
    TimedOut,
    /// It ended.
    Ended,
    /// It had ended before, so nothing was sent.
    Unsent,
    /// It sent a message that breaks the protocol.
    ProtocolViolation,
    /// It cannot be confined on this machine.
    Refused(String),
}

impl WorkerFailure {
    /// Converts it into the caller's error.
    pub(super) fn into_error(self, logs: Vec<LogLine>) -> Error {
        let what = match self {
            Self::Refused(why) => return Error::Start(why),
            Self::TimedOut => "did not answer in time",
            Self::Ended | Self::Unsent => "ended",
            Self::ProtocolViolation => "sent what no worker sends",
        };
        Error::Worker { what, logs }
    }
}

impl WorkerHandle {
    pub(super) fn new(child: Child, socket: UnixStream, pipe: PipeReader, supervisor: Sender<Task>) -> Self {
        let now = Instant::now();
        Self {
            child: Some(child),
            socket,
            pipe,
            registered: None,
            chunk: vec![0; CHUNK].into_boxed_slice(),
            supervisor,
            outbox: Vec::new(),
            inbox: Inbox::default(),
            // Its greeting.
            asked: 1,
            awaited: 1,
            uses_pipe: false,
            has_ended: false,
            lines: Lines::default(),
            random: RandomPool::default(),
            modules: ModuleList::default(),
            is_ready: false,
            confinement: String::new(),
            was_idle: false,
            runs: 0,
            born: now,
            idle_since: now,
            replace: Replace::Yes,
        }
    }

    /// Waits until the worker is confined and ready; returns at once if it already is.
    pub(super) async fn greeting(&mut self, within: Duration) -> Result<(), WorkerFailure> {
        if self.is_ready {
            return Ok(());
        }
        let message = self.answer(Instant::now() + within).await?;
        self.check_greeting(&message)
    }

    /// The confinement in a few words; empty until it is ready.
    pub(super) fn confinement(&self) -> &str {
        &self.confinement
    }

    /// Blocking form of [`WorkerHandle::greeting`].
    pub(super) fn greeting_blocking(&mut self, within: Duration) -> Result<(), WorkerFailure> {
        if self.is_ready {
            return Ok(());
        }
        let message = self.answer_blocking(Instant::now() + within)?;
        self.check_greeting(&message)
    }

    fn check_greeting(&mut self, message: &Message) -> Result<(), WorkerFailure> {
        match message.tag {
            Tag::Hello => {
                self.is_ready = true;
                message.text(0).unwrap_or_default().clone_into(&mut self.confinement);
                Ok(())
            }
            Tag::Refused => {
                // Another worker would be rejected too.
                self.replace = Replace::No;
                Err(WorkerFailure::Refused(message.text(0).unwrap_or_default().to_owned()))
            }
            _ => Err(WorkerFailure::ProtocolViolation),
        }
    }

    /// Sends messages that expect this number of replies, as far as the socket accepts them; the rest is sent while waiting for
    /// the first reply. Messages with several replies have to be short: a worker that replies does not read.
    pub(super) fn send(&mut self, bytes: &[u8], answers: usize) -> Result<(), WorkerFailure> {
        self.runs = self.runs.saturating_add(u32::try_from(answers).unwrap_or(u32::MAX));
        (self.asked, self.awaited, self.uses_pipe) = (answers, answers, answers > 1);
        let rest = send(&self.socket, bytes)?;
        self.outbox = rest.to_vec();
        Ok(())
    }

    /// Waits for the next reply until `until`. If the future is dropped, the worker is unusable.
    pub(super) async fn answer(&mut self, until: Instant) -> Result<Message, WorkerFailure> {
        if let Some(message) = self.next_complete()? {
            return Ok(message);
        }
        // One of several replies may have arrived already, which saves the wait and a timer.
        if self.awaited < self.asked
            && let Some(message) = self.poll_reply()?
        {
            return Ok(message);
        }
        loop {
            let next_look =
                if self.uses_pipe { until.min(Instant::now() + PIPE_POLL_INTERVAL) } else { until };
            if let Ok(answer) = tokio::time::timeout_at(next_look.into(), self.drive_socket()).await {
                return answer;
            }
            match self.poll_reply()? {
                Some(message) => return Ok(message),
                None if Instant::now() >= until => return Err(WorkerFailure::TimedOut),
                None => {}
            }
        }
    }

    /// The next reply, if it has arrived.
    fn poll_reply(&mut self) -> Result<Option<Message>, WorkerFailure> {
        let received = self.socket.read(&mut self.chunk);
        self.received(received)?;
        self.next_complete()
    }

    /// The reply after the last one, if it arrived together with it.
    pub(super) fn next_answer(&mut self) -> Result<Option<Message>, WorkerFailure> {
        self.next_complete()
    }

    /// Sends a message and waits for the reply until `until`.
    pub(super) async fn exchange(&mut self, bytes: &[u8], until: Instant) -> Result<Message, WorkerFailure> {
        self.send(bytes, 1)?;
        self.answer(until).await
    }

    /// Sends the rest, and waits for a reply.
    async fn drive_socket(&mut self) -> Result<Message, WorkerFailure> {
        self.register()?;
        loop {
            let stream = &self.registered.as_ref().ok_or(WorkerFailure::Ended)?.stream;
            if self.outbox.is_empty() {
                stream.readable().await.map_err(|_| WorkerFailure::Ended)?;
                let received = stream.try_read(&mut self.chunk);
                self.received(received)?;
                if let Some(message) = self.next_complete()? {
                    return Ok(message);
                }
            } else {
                stream.writable().await.map_err(|_| WorkerFailure::Ended)?;
                match stream.try_write(&self.outbox) {
                    Ok(written) => drop(self.outbox.drain(..written)),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    Err(_) => return Err(WorkerFailure::Ended),
                }
            }
        }
    }

    /// Adds bytes from the socket, after those in the pipe.
    fn received(&mut self, received: std::io::Result<usize>) -> Result<(), WorkerFailure> {
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
        if self.uses_pipe {
            self.empty_pipe()?;
            self.uses_pipe = count == 0 && !self.has_ended;
        }
        self.inbox.push(&self.chunk[..count]);
        Ok(())
    }

    /// Reads the pipe until it is empty.
    fn empty_pipe(&mut self) -> Result<(), WorkerFailure> {
        let (mut chunk, mut taken) = ([0; 4096], 0);
        loop {
            match self.pipe.read(&mut chunk) {
                Ok(0) => return Ok(()),
                Ok(count) => {
                    taken += count;
                    self.inbox.push(&chunk[..count]);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // There is nothing more.
                Err(_) => return Ok(()),
            }
            // The maximum that a worker may write there for a whole sequence.
            if taken > MAX_MESSAGE {
                return Err(WorkerFailure::ProtocolViolation);
            }
        }
    }

    /// The next complete reply. Its log lines precede it; nothing follows the last reply.
    fn next_complete(&mut self) -> Result<Option<Message>, WorkerFailure> {
        match self.message()? {
            None if self.has_ended => Err(WorkerFailure::Ended),
            message => Ok(message),
        }
    }

    fn message(&mut self) -> Result<Option<Message>, WorkerFailure> {
        while let Some(message) = self.inbox.next().map_err(|_| WorkerFailure::ProtocolViolation)? {
            if message.tag == Tag::Line {
                self.lines.take_in(&message).map_err(|_| WorkerFailure::ProtocolViolation)?;
                continue;
            }
            self.awaited = self.awaited.checked_sub(1).ok_or(WorkerFailure::ProtocolViolation)?;
            if self.awaited == 0 && !self.inbox.is_empty() {
                return Err(WorkerFailure::ProtocolViolation);
            }
            return Ok(Some(message));
        }
        Ok(None)
    }

    /// Registers the socket with the current runtime.
    fn register(&mut self) -> Result<(), WorkerFailure> {
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| WorkerFailure::Ended)?.id();
        if self.registered.as_ref().is_none_or(|registered| registered.runtime != runtime) {
            let socket = self.socket.try_clone().map_err(|_| WorkerFailure::Ended)?;
            let stream = tokio::net::UnixStream::from_std(socket).map_err(|_| WorkerFailure::Ended)?;
            self.registered = Some(Registered { runtime, stream });
        }
        Ok(())
    }

    /// Blocking form of [`WorkerHandle::exchange`].
    pub(super) fn exchange_blocking(
        &mut self,
        bytes: &[u8],
        until: Instant,
    ) -> Result<Message, WorkerFailure> {
        self.send(bytes, 1)?;
        let outbox = std::mem::take(&mut self.outbox);
        let mut rest = &outbox[..];
        while !rest.is_empty() {
            self.wait(PollFlags::OUT, until)?;
            rest = send(&self.socket, rest)?;
        }
        self.answer_blocking(until)
    }

    fn answer_blocking(&mut self, until: Instant) -> Result<Message, WorkerFailure> {
        loop {
            if let Some(message) = self.next_complete()? {
                return Ok(message);
            }
            self.wait(PollFlags::IN, until)?;
            let received = self.socket.read(&mut self.chunk);
            self.received(received)?;
        }
    }

    /// Blocks until the socket is ready.
    fn wait(&self, what: PollFlags, until: Instant) -> Result<(), WorkerFailure> {
        let left = until.checked_duration_since(Instant::now()).ok_or(WorkerFailure::TimedOut)?;
        let timeout = Timespec::try_from(left).ok();
        match rustix::event::poll(&mut [PollFd::new(&self.socket, what)], timeout.as_ref()) {
            Ok(0) => Err(WorkerFailure::TimedOut),
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(_) => Err(WorkerFailure::Ended),
        }
    }

    /// The log lines of the last run.
    pub(super) fn take_logs(&mut self) -> Vec<LogLine> {
        self.lines.take()
    }

    /// True if the last run has sent log lines.
    pub(super) fn has_logs(&self) -> bool {
        !self.lines.is_empty()
    }

    /// Generates the prefix that marks texts of the next run as files or integers.
    pub(super) fn nonce(&mut self) -> Result<Nonce, getrandom::Error> {
        self.random.draw().map(Nonce)
    }

    /// True if the worker probably has a module; it may have evicted it.
    pub(super) fn has_module(&self, digest: Digest) -> bool {
        self.modules.last_use.contains_key(&digest)
    }

    /// Records that the worker has and used a module.
    pub(super) fn add_module(&mut self, digest: Digest) {
        self.modules.touch(digest);
    }

    /// Records that the worker may not have a module.
    pub(super) fn remove_module(&mut self, digest: Digest) {
        self.modules.last_use.remove(&digest);
    }

    /// True if the process is running.
    fn is_alive(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// True if it has been used before, and so may have died since.
    pub(super) fn was_idle(&self) -> bool {
        self.was_idle
    }

    pub(super) fn mark_idle(&mut self) {
        self.was_idle = true;
        self.idle_since = Instant::now();
    }

    /// True if it has reached the number of runs or the age at which workers are replaced.
    pub(super) fn is_spent(&self, settings: &PoolSettings) -> bool {
        self.runs >= settings.runs_per_worker || self.born.elapsed() > settings.age || !self.inbox.is_empty()
    }

    /// True if it should be ended to free its memory.
    pub(super) fn is_stale(&mut self, settings: &PoolSettings) -> bool {
        self.is_spent(settings) || self.idle_since.elapsed() > settings.idle || !self.is_alive()
    }

    /// Ends without a replacement: the next run starts a worker if it needs one.
    pub(super) fn drop_without_replacement(&mut self) {
        self.replace = Replace::No;
    }
}

impl Drop for WorkerHandle {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It fails if the process has ended already.
            let _ = child.kill();
            // If the supervisor is gone, this process ends too, and the child's new parent reaps it.
            let _ = self.supervisor.send(Task::Reap(child, self.replace));
        }
    }
}

/// Writes as much as the socket takes, and returns the rest.
fn send<'bytes>(mut socket: &UnixStream, bytes: &'bytes [u8]) -> Result<&'bytes [u8], WorkerFailure> {
    let mut rest = bytes;
    // If the first attempt fails, no byte was sent.
    let gone =
        |rest: &[u8]| if rest.len() == bytes.len() { WorkerFailure::Unsent } else { WorkerFailure::Ended };
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

/// The modules of a worker: at most [`MAX_MODULES`], the most recently used ones.
#[derive(Default)]
struct ModuleList {
    last_use: HashMap<Digest, u64>,
    uses: u64,
}

impl ModuleList {
    fn touch(&mut self, digest: Digest) {
        self.uses += 1;
        self.last_use.insert(digest, self.uses);
        if self.last_use.len() > MAX_MODULES {
            let oldest =
                self.last_use.iter().min_by_key(|(_, last_use)| **last_use).map(|(digest, _)| *digest);
            if let Some(oldest) = oldest {
                self.last_use.remove(&oldest);
            }
        }
    }
}

/// Random bytes, generated for many runs at once.
struct RandomPool {
    /// Boxed, so that the handle stays small.
    drawn: Box<[u8; 16 * 64]>,
    used: usize,
}

impl Default for RandomPool {
    fn default() -> Self {
        Self { drawn: Box::new([0; 16 * 64]), used: 16 * 64 }
    }
}

impl RandomPool {
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
