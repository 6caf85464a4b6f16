//! Reads and writes of a job, over the channel to the daemon: the process has no other way to anything.

use std::cell::{Cell, RefCell};
use std::io::{self, Read, Seek, SeekFrom, Write};

use bytes::Bytes;
use script::Channel;

use super::super::job::{InputInfo, Message};

/// The bytes of one read, which the daemon answers as a whole.
const CHUNK: usize = 128 << 10;

/// The way to the daemon.
pub(super) trait Link {
    /// Sends a message with its bytes.
    fn send(&mut self, message: &Message, body: &[u8]) -> io::Result<()>;

    /// Waits for the bytes that a message asked for.
    fn receive(&mut self) -> io::Result<Bytes>;
}

impl Link for Channel {
    fn send(&mut self, message: &Message, body: &[u8]) -> io::Result<()> {
        Self::send(self, &[&serde_json::to_vec(message)?, body])
    }

    fn receive(&mut self) -> io::Result<Bytes> {
        Self::receive(self)?.into_iter().next().ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

/// The daemon, as the job sees it.
pub(super) struct Daemon<'c> {
    link: RefCell<&'c mut dyn Link>,
    inputs: Vec<InputInfo>,
    /// The input that is in work.
    current: Cell<usize>,
}

impl<'c> Daemon<'c> {
    pub(super) fn new(link: &'c mut dyn Link, inputs: Vec<InputInfo>) -> Self {
        Self { link: RefCell::new(link), inputs, current: Cell::new(0) }
    }

    /// Sends a message with its bytes.
    pub(super) fn send(&self, message: &Message, body: &[u8]) -> io::Result<()> {
        self.link.borrow_mut().send(message, body)
    }

    /// The name of the input that is in work, for messages.
    pub(super) fn subject(&self) -> &str {
        self.inputs.get(self.current.get()).map_or("the document", |input| &input.name)
    }

    /// The facts about an input, which is in work from now on.
    pub(super) fn info(&self, input: usize) -> io::Result<&InputInfo> {
        self.current.set(input);
        self.inputs.get(input).ok_or_else(|| io::ErrorKind::InvalidInput.into())
    }

    /// The bytes of an input.
    pub(super) fn input(&self, index: usize) -> io::Result<Input<'_, 'c>> {
        Ok(Input {
            size: self.info(index)?.size,
            daemon: self,
            index,
            position: 0,
            start: 0,
            chunk: Bytes::new(),
        })
    }

    /// Begins a file of the result.
    pub(super) fn file(&self, name: Option<String>, content_type: &str) -> io::Result<Output<'_, 'c>> {
        self.send(&Message::File { name, content_type: content_type.to_owned() }, &[])?;
        Ok(Output { daemon: self, buffer: Vec::with_capacity(CHUNK) })
    }

    fn read(&self, input: usize, offset: u64) -> io::Result<Bytes> {
        self.send(&Message::Read { input, offset, count: CHUNK }, &[])?;
        self.link.borrow_mut().receive()
    }
}

/// An input, read in chunks.
pub(super) struct Input<'d, 'c> {
    daemon: &'d Daemon<'c>,
    index: usize,
    size: u64,
    position: u64,
    /// The offset of the chunk in memory.
    start: u64,
    chunk: Bytes,
}

impl Read for Input<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.position >= self.size || buffer.is_empty() {
            return Ok(0);
        }
        let is_in = (self.start..self.start + self.chunk.len() as u64).contains(&self.position);
        if !is_in {
            self.start = self.position - self.position % CHUNK as u64;
            self.chunk = self.daemon.read(self.index, self.start)?;
        }
        let at = usize::try_from(self.position - self.start).unwrap_or(usize::MAX);
        let rest = self.chunk.get(at..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.position += count as u64;
        Ok(count)
    }
}

impl Seek for Input<'_, '_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::End(by) => self.size.checked_add_signed(by),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
        };
        self.position = position.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}

/// A file of the result, written in chunks. [`Output::finish`] sends the last one.
pub(super) struct Output<'d, 'c> {
    daemon: &'d Daemon<'c>,
    buffer: Vec<u8>,
}

impl Output<'_, '_> {
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.flush()
    }
}

impl Write for Output<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.buffer.len() + bytes.len() > CHUNK {
            self.flush()?;
        }
        let count = bytes.len().min(CHUNK);
        self.buffer.extend_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.buffer.is_empty() {
            self.daemon.send(&Message::Bytes, &self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }
}
