//! The transport to the pool: descriptor 0 is a socket in both directions; descriptor 1 is a pipe for replies that do
//! not wake the pool.

use std::cell::Cell;
use std::io::{self, stdin, stdout};
use std::os::fd::AsFd;

use crate::protocol::{Inbox, Message};

/// The size of one read, in bytes.
const CHUNK: usize = 64 * 1024;
/// The maximum size of a message in the pipe: up to this size a write is atomic (`PIPE_BUF` on Linux).
const MAX_PIPE_MESSAGE: usize = 4096;

/// The receiving side of the socket.
pub(crate) struct RequestReader {
    inbox: Inbox,
    chunk: Box<[u8]>,
}

impl RequestReader {
    pub(super) fn new() -> Self {
        Self { inbox: Inbox::default(), chunk: vec![0; CHUNK].into_boxed_slice() }
    }

    /// The next message; `None` once the pool is gone.
    pub(crate) fn read(&mut self) -> io::Result<Option<Message>> {
        loop {
            if let Some(message) = self.inbox.next().map_err(|_| protocol_error())? {
                return Ok(Some(message));
            }
            match rustix::io::read(stdin().as_fd(), &mut self.chunk[..]) {
                Ok(0) => return Ok(None),
                Ok(count) => self.inbox.push(&self.chunk[..count]),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// The sending side, for replies and log lines. Waking the pool for each of many short runs would take longer than the
/// runs.
#[derive(Debug, Default)]
pub(super) struct ReplySender {
    uses_pipe: Cell<bool>,
}

impl ReplySender {
    /// Sends messages through the pipe from now on; the pool reads it when it is awake.
    pub(super) fn use_pipe(&self) {
        self.uses_pipe.set(true);
    }

    /// Sends messages through the socket from now on, which wakes the pool.
    pub(super) fn use_socket(&self) {
        self.uses_pipe.set(false);
    }

    /// Sends a message.
    pub(super) fn send(&self, bytes: &[u8]) -> io::Result<()> {
        if self.uses_pipe.get() && write_to_pipe(bytes)? {
            return Ok(());
        }
        // Later messages go through the socket too: the pool could not order them against those in the pipe.
        self.use_socket();
        write(bytes)
    }
}

/// Writes a message into the pipe; false if it is full.
fn write_to_pipe(bytes: &[u8]) -> io::Result<bool> {
    if bytes.len() > MAX_PIPE_MESSAGE {
        return Ok(false);
    }
    loop {
        match rustix::io::write(stdout().as_fd(), bytes) {
            Ok(count) if count == bytes.len() => return Ok(true),
            Ok(_) => return Err(protocol_error()),
            Err(rustix::io::Errno::AGAIN) => return Ok(false),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Sends bytes over the socket.
pub(crate) fn write(mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(stdin().as_fd(), bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// The error for messages that the pool never sends.
pub(crate) fn protocol_error() -> io::Error {
    io::Error::from(io::ErrorKind::InvalidData)
}
