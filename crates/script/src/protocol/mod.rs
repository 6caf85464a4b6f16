//! The protocol between a pool and its workers: messages of parts, each with its length before it.
//!
//! ```text
//! message   length u32 · tag u8 · count u16 · count × (length u32) · the parts, one behind the other
//! ```
//! Numbers are little-endian. JSON goes as text and is parsed inside the sandbox; bytes of files are parts of their
//! own and never pass through a string. Either side takes at most [`MAX_MESSAGE`].
//!
//! All of it goes over a socket, but for short answers to calls that others follow: a worker lays those into a pipe, which
//! wakes nobody. Whatever comes over the socket comes behind all that was laid into the pipe before, and from then on
//! everything up to the last answer comes over the socket. So the order is that of the calls, and a worker that is killed
//! leaves what it had answered.

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

/// The longest message, in bytes, each way (threat model, section 4.5).
pub(crate) const MAX_MESSAGE: usize = 8 * 1024 * 1024;
/// How many modules a worker knows at the same time, each with a context of its own (about half a megabyte). The pool
/// counts along, so that it seldom leaves out a text that is wanted.
pub(crate) const MAX_MODULES: usize = 1_024;
/// The most parts of a message: a few, and the files.
const MAX_PARTS: usize = 4096;
/// Length, tag and count.
const HEADER: usize = 4 + 1 + 2;

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Tag {
    /// To a worker: the heap of a run, in bytes. From it: it is confined and ready; its part says what confines it.
    Hello = 1,
    /// A worker cannot be confined; its part says why.
    Refused = 2,
    /// Run a module.
    Call = 3,
    /// Say what a module is made of.
    Check = 4,
    /// Send the same back: what a bare round trip costs.
    Echo = 5,
    /// A run gave a result.
    Done = 6,
    /// A run gave none.
    Failed = 7,
    /// The module of a call is not known (any more): send its text.
    Unknown = 8,
    /// The analysis of a module, or its syntax errors.
    Checked = 9,
    /// A log line of the current run.
    Line = 10,
    /// A call that follows others was not begun: one before it gave no result, or they took too long together.
    Skipped = 11,
}

/// A message, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) tag: Tag,
    pub(crate) parts: Vec<Bytes>,
}

/// Bytes that are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("sent what no worker sends")]
pub(crate) struct Malformed;

/// A message that would be longer than [`MAX_MESSAGE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

impl Tag {
    fn from_byte(byte: u8) -> Option<Self> {
        const ALL: [Tag; 11] = [
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
        ];
        ALL.into_iter().find(|tag| *tag as u8 == byte)
    }
}

/// The bytes of a message.
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

/// A length that is within [`MAX_MESSAGE`], as it is sent.
fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// Puts messages together from what arrives.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    buffer: BytesMut,
}

impl Inbox {
    /// Takes in what has arrived.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// True if a message has arrived in part, or more than one.
    pub(crate) fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// The next message, if all of it is here.
    ///
    /// # Errors
    /// The received bytes are not the beginning of a message; no later byte can be interpreted.
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

/// Takes a message apart, without its length.
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
