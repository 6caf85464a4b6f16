//! The protocol between a pool and its workers: length-prefixed messages of length-prefixed parts.
//!
//! ```text
//! message   length u32 · tag u8 · count u16 · count × (length u32) · the concatenated parts
//! ```
//! Numbers are little-endian. JSON is sent as text and parsed inside the sandbox; bytes of files are separate parts and
//! never pass through a string. Either side accepts at most [`MAX_MESSAGE`].
//!
//! Messages use a socket. Short replies within a batch use a pipe that does not wake the daemon. A message on the socket is
//! ordered after everything written to the pipe before it; from then on all replies of the batch use the socket. So replies
//! keep the order of the calls, and the replies of a killed worker are not lost.

mod answer;
mod call;
mod line;
mod value;

use bytes::{Buf, Bytes, BytesMut};

pub(crate) use answer::{Answer, Done, FailureKind, FrameLocation, RunFailure, Write};
pub(crate) use call::{Head, Request, encode_earlier};
pub use line::MAX_TEXT;
pub(crate) use line::{Lines, MAX_LINES, MAX_LOG, encode_line, excerpt};
pub(crate) use value::{Nonce, Sender, Unreadable, restore};

/// The maximum size of a message in either direction, in bytes (threat model, section 4.5).
pub(crate) const MAX_MESSAGE: usize = 8 * 1024 * 1024;
/// The maximum number of modules of a worker, each with its own context (about half a megabyte). The pool mirrors the cache,
/// so that it seldom omits a text that the worker lacks.
pub(crate) const MAX_MODULES: usize = 1_024;
/// The maximum number of parts of a message: a few, and the files.
const MAX_PARTS: usize = 4096;
/// Length, tag and count.
const HEADER: usize = 4 + 1 + 2;

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Tag {
    /// To a worker: the heap limit of a run, in bytes. From it: it is confined and ready; its part describes the confinement.
    Hello = 1,
    /// A worker cannot be confined; its part has the reason.
    Refused = 2,
    /// Run a module.
    Call = 3,
    /// Analyse a module.
    Check = 4,
    /// Echo the message, to measure the cost of a round trip.
    Echo = 5,
    /// A run returned a result.
    Done = 6,
    /// A run returned no result.
    Failed = 7,
    /// The worker lacks the module of a call: send its text.
    Unknown = 8,
    /// The analysis of a module, or its syntax errors.
    Checked = 9,
    /// A log line of the current run.
    Line = 10,
    /// A call of a batch did not start: an earlier one had no result, or the batch exceeded its time limit.
    Skipped = 11,
    /// To a worker, first: the name of a task, and the memory that it may take, in bytes.
    Task = 12,
    /// Data of a task, in either direction.
    Piece = 13,
}

/// A decoded message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) tag: Tag,
    pub(crate) parts: Vec<Bytes>,
}

/// Malformed bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("sent what no worker sends")]
pub(crate) struct Malformed;

/// A message over [`MAX_MESSAGE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

impl Tag {
    fn from_byte(byte: u8) -> Option<Self> {
        const ALL: [Tag; 13] = [
            Tag::Hello,
            Tag::Refused,
            Tag::Call,
            Tag::Check,
            Tag::Echo,
            Tag::Done,
            Tag::Failed,
            Tag::Unknown,
            Tag::Checked,
            Tag::Line,
            Tag::Skipped,
            Tag::Task,
            Tag::Piece,
        ];
        ALL.into_iter().find(|tag| *tag as u8 == byte)
    }
}

/// Encodes a message.
pub(crate) fn encode(tag: Tag, parts: &[&[u8]]) -> Result<Vec<u8>, TooLong> {
    let content: usize = parts.iter().map(|part| part.len() + 4).sum();
    let total = HEADER + content;
    let count = u16::try_from(parts.len()).ok().filter(|count| usize::from(*count) <= MAX_PARTS);
    let (Some(count), true) = (count, total <= MAX_MESSAGE) else { return Err(TooLong) };
    let mut bytes = Vec::with_capacity(total);
    bytes.extend_from_slice(&length(total - 4).to_le_bytes());
    bytes.push(tag as u8);
    bytes.extend_from_slice(&count.to_le_bytes());
    for part in parts {
        bytes.extend_from_slice(&length(part.len()).to_le_bytes());
    }
    for part in parts {
        bytes.extend_from_slice(part);
    }
    Ok(bytes)
}

/// Encodes a length within [`MAX_MESSAGE`].
fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// Reassembles messages from received bytes.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    buffer: BytesMut,
}

impl Inbox {
    /// Appends received bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// True unless bytes of a message are buffered.
    pub(crate) fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// The next message, if it is complete.
    ///
    /// # Errors
    /// The received bytes are not the start of a message; no later byte can be interpreted.
    pub(crate) fn next(&mut self) -> Result<Option<Message>, Malformed> {
        let Some(length) = self.buffer.get(..4).and_then(|bytes| bytes.try_into().ok()) else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(length) as usize;
        if !(HEADER - 4..=MAX_MESSAGE - 4).contains(&length) {
            return Err(Malformed);
        }
        if self.buffer.len() < 4 + length {
            return Ok(None);
        }
        let mut message = self.buffer.split_to(4 + length).freeze();
        message.advance(4);
        decode(message).map(Some)
    }
}

/// Decodes a message without its length.
pub(crate) fn decode(mut bytes: Bytes) -> Result<Message, Malformed> {
    if bytes.len() < HEADER - 4 {
        return Err(Malformed);
    }
    let tag = Tag::from_byte(bytes.get_u8()).ok_or(Malformed)?;
    let count = usize::from(bytes.get_u16_le());
    if count > MAX_PARTS || bytes.len() < count * 4 {
        return Err(Malformed);
    }
    let mut lengths = bytes.split_to(count * 4);
    let mut parts = Vec::with_capacity(count);
    for _ in 0..count {
        let length = lengths.get_u32_le() as usize;
        if length > bytes.len() {
            return Err(Malformed);
        }
        parts.push(bytes.split_to(length));
    }
    if bytes.is_empty() { Ok(Message { tag, parts }) } else { Err(Malformed) }
}

impl Message {
    /// The part at `index`, as text.
    pub(crate) fn text(&self, index: usize) -> Result<&str, Malformed> {
        let part = self.parts.get(index).ok_or(Malformed)?;
        std::str::from_utf8(part).map_err(|_| Malformed)
    }
}

#[cfg(test)]
mod tests;
