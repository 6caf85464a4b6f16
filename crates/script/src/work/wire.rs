//! The way to the pool: descriptor 0 is a socket, both ways; descriptor 1 is a pipe, at which the pool looks when it is awake.

use std::cell::Cell;
use std::io::{self, stdin, stdout};
use std::os::fd::AsFd;

use crate::protocol::{Inbox, Message};

/// How much is read at once.
const CHUNK: usize = 64 * 1024;
/// The longest message for the pipe: up to this length a pipe takes all of it or nothing (`PIPE_BUF` on Linux).
const MAX_ASIDE: usize = 4096;

/// What comes from the pool.
pub(super) struct Wire {
    inbox: Inbox,
    chunk: Box<[u8]>,
}

impl Wire {
    pub(super) fn new() -> Self {
        Self { inbox: Inbox::default(), chunk: vec![0; CHUNK].into_boxed_slice() }
    }

    /// The next message; none when the pool has gone.
    pub(super) fn read(&mut self) -> io::Result<Option<Message>> {
        loop {
            if let Some(message) = self.inbox.next().map_err(|_| strange())? {
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

/// Where answers go, and the lines before them. Waking the pool for each of many small runs takes longer than the runs.
#[derive(Debug, Default)]
pub(super) struct Outlet {
    is_quiet: Cell<bool>,
}

impl Outlet {
    /// What is sent from now on waits in the pipe until the pool looks there.
    pub(super) fn hush(&self) {
        self.is_quiet.set(true);
    }

    /// What is sent from now on wakes the pool.
    pub(super) fn ring(&self) {
        self.is_quiet.set(false);
    }

    /// Sends a message.
    pub(super) fn send(&self, bytes: &[u8]) -> io::Result<()> {
        if self.is_quiet.get() && lay_aside(bytes)? {
            return Ok(());
        }
        // All that comes behind it, too: of what lies in the pipe, nobody could tell whether it was there before.
        self.ring();
        write(bytes)
    }
}

/// Lays a message into the pipe; false if it has no room for it.
fn lay_aside(bytes: &[u8]) -> io::Result<bool> {
    if bytes.len() > MAX_ASIDE {
        return Ok(false);
    }
    loop {
        match rustix::io::write(stdout().as_fd(), bytes) {
            Ok(count) if count == bytes.len() => return Ok(true),
            Ok(_) => return Err(strange()),
            Err(rustix::io::Errno::AGAIN) => return Ok(false),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Sends bytes over the socket.
pub(super) fn write(mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(stdin().as_fd(), bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// What the pool never sends.
pub(super) fn strange() -> io::Error {
    io::Error::from(io::ErrorKind::InvalidData)
}
