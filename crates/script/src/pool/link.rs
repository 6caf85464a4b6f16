//! A worker, as the pool sees it: a process, the socket to it, and what it has done so far.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};

use super::PoolSettings;
use super::keeper::{Order, Replace};
use crate::module::Digest;
use crate::protocol::{Inbox, Message, Tag};

/// How many modules are remembered as known to a worker; what it has dropped, it says.
const KNOWN: usize = 64;
/// How much is read at once.
const CHUNK: usize = 16 * 1024;

/// A worker. Dropping it kills the process; the keeper buries it and starts another.
pub(super) struct Link {
    child: Option<Child>,
    /// None while a conversation goes on.
    socket: Option<UnixStream>,
    keeper: Sender<Order>,
    inbox: Inbox,
    known: VecDeque<Digest>,
    is_ready: bool,
    runs: u32,
    born: Instant,
    rests_since: Instant,
    replace: Replace,
}

/// Why a worker is of no use any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// It did not answer in time.
    Late,
    /// It ended.
    Ended,
    /// It said what no worker says.
    Garbled,
    /// It cannot be confined on this machine.
    Refused(String),
}

impl Broken {
    pub(super) fn as_str(&self) -> &'static str {
        match self {
            Self::Late => "did not answer in time",
            Self::Ended => "ended",
            Self::Garbled => "sent what no worker sends",
            Self::Refused(_) => "could not be confined",
        }
    }
}

impl Link {
    pub(super) fn new(child: Child, socket: UnixStream, keeper: Sender<Order>) -> Self {
        let now = Instant::now();
        Self {
            child: Some(child),
            socket: Some(socket),
            keeper,
            inbox: Inbox::default(),
            known: VecDeque::with_capacity(KNOWN),
            is_ready: false,
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
        let message = self.converse(&[], Instant::now() + within).await?;
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

    /// Sends a message and waits for the answer until `until`. If the future is dropped, the worker is of no use any more.
    pub(super) async fn exchange(&mut self, bytes: &[u8], until: Instant) -> Result<Message, Broken> {
        self.runs += 1;
        let rest = send(self.socket()?, bytes)?;
        self.converse(rest, until).await
    }

    /// Sends the rest of a message and waits for the answer.
    async fn converse(&mut self, mut rest: &[u8], until: Instant) -> Result<Message, Broken> {
        // The socket belongs to the runtime only as long as this lasts: the next run may be another runtime's.
        let socket = self.socket.take().ok_or(Broken::Ended)?;
        let stream = tokio::net::UnixStream::from_std(socket).map_err(|_| Broken::Ended)?;
        let talk = async {
            while !rest.is_empty() {
                stream.writable().await.map_err(|_| Broken::Ended)?;
                match stream.try_write(rest) {
                    Ok(written) => rest = &rest[written..],
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    Err(_) => return Err(Broken::Ended),
                }
            }
            loop {
                stream.readable().await.map_err(|_| Broken::Ended)?;
                let mut chunk = [0; CHUNK];
                let received = stream.try_read(&mut chunk).map(|count| &chunk[..count]);
                if let Some(message) = receive(&mut self.inbox, received)? {
                    return Ok(message);
                }
            }
        };
        let message =
            tokio::time::timeout_at(until.into(), Box::pin(talk)).await.map_err(|_| Broken::Late)??;
        self.socket = stream.into_std().ok();
        Ok(message)
    }

    /// As [`Link::exchange`], for a thread that may block.
    pub(super) fn exchange_blocking(&mut self, bytes: &[u8], until: Instant) -> Result<Message, Broken> {
        self.runs += 1;
        let mut rest = send(self.socket()?, bytes)?;
        while !rest.is_empty() {
            self.wait(PollFlags::OUT, until)?;
            rest = send(self.socket()?, rest)?;
        }
        self.answer_blocking(until)
    }

    fn answer_blocking(&mut self, until: Instant) -> Result<Message, Broken> {
        loop {
            self.wait(PollFlags::IN, until)?;
            let mut chunk = [0; CHUNK];
            let received = self.socket()?.read(&mut chunk).map(|count| &chunk[..count]);
            if let Some(message) = receive(&mut self.inbox, received)? {
                return Ok(message);
            }
        }
    }

    /// Blocks until the socket is ready.
    fn wait(&self, what: PollFlags, until: Instant) -> Result<(), Broken> {
        let left = until.checked_duration_since(Instant::now()).ok_or(Broken::Late)?;
        let timeout = Timespec::try_from(left).ok();
        match rustix::event::poll(&mut [PollFd::new(self.socket()?, what)], timeout.as_ref()) {
            Ok(0) => Err(Broken::Late),
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(_) => Err(Broken::Ended),
        }
    }

    /// The socket; none is left where a conversation was broken off.
    fn socket(&self) -> Result<&UnixStream, Broken> {
        self.socket.as_ref().ok_or(Broken::Ended)
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
        if self.known.len() == KNOWN {
            self.known.pop_front();
        }
        self.known.push_back(digest);
    }

    /// Whether the process is still there.
    pub(super) fn is_alive(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    pub(super) fn rests(&mut self) {
        self.rests_since = Instant::now();
    }

    /// Whether it has done its share.
    pub(super) fn is_spent(&self, settings: &PoolSettings) -> bool {
        self.runs >= settings.runs_per_worker || self.born.elapsed() > settings.age || !self.inbox.is_empty()
    }

    /// Whether it is not worth its memory any more.
    pub(super) fn is_stale(&self, settings: &PoolSettings) -> bool {
        self.is_spent(settings) || self.rests_since.elapsed() > settings.idle
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
fn send<'bytes>(mut socket: &UnixStream, mut bytes: &'bytes [u8]) -> Result<&'bytes [u8], Broken> {
    while !bytes.is_empty() {
        match socket.write(bytes) {
            Ok(0) => return Err(Broken::Ended),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(_) => return Err(Broken::Ended),
        }
    }
    Ok(bytes)
}

/// The message that what was received completes. One is asked for at a time, so nothing may come behind it.
fn receive(inbox: &mut Inbox, received: std::io::Result<&[u8]>) -> Result<Option<Message>, Broken> {
    match received {
        Ok([]) => Err(Broken::Ended),
        Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => Ok(None),
        Err(_) => Err(Broken::Ended),
        Ok(bytes) => {
            inbox.push(bytes);
            match inbox.next() {
                Ok(Some(message)) if inbox.is_empty() => Ok(Some(message)),
                Ok(None) => Ok(None),
                Ok(Some(_)) | Err(_) => Err(Broken::Garbled),
            }
        }
    }
}
