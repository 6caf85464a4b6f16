//! The socket to the pool: descriptor 0, both ways.

use std::io::{self, stdin};
use std::os::fd::AsFd;

use crate::protocol::{Inbox, Message};

/// How much is read at once.
const CHUNK: usize = 64 * 1024;

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

/// Sends bytes to the pool.
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
