//! A worker's reply to a call.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::{Malformed, Message, Tag, TooLong, encode};
use crate::module::Position;

/// A worker's reply to a call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    Done(Done),
    Failed(RunFailure),
    /// The worker needs the text of the module.
    Unknown,
    /// The call did not start, since an earlier one had no result.
    Skipped,
}

/// A result, not parsed yet: its content was written by the author's code.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Done {
    /// The result as JSON; empty for nothing.
    pub(crate) result: Bytes,
    pub(crate) writes: Vec<Write>,
    /// The run time.
    pub(crate) took: Duration,
    /// True if texts of the result or of the writes are marked as files or integers.
    pub(crate) has_marked: bool,
    /// The bytes that the result and the writes refer to.
    pub(crate) files: Vec<Bytes>,
}

/// A write to the state, as JSON; `None` deletes the key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Write {
    pub(crate) key: String,
    pub(crate) value: Option<String>,
}

/// The reason why there is no result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunFailure {
    pub(crate) kind: FailureKind,
    pub(crate) message: String,
    /// The author's frames, innermost first, with positions in the module.
    pub(crate) places: Vec<FrameLocation>,
}

/// The kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum FailureKind {
    Thrown,
    Overrun,
    OutOfMemory,
    TooLarge,
}

/// A frame of the author's code, with its position in the module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FrameLocation {
    pub(crate) function: Option<String>,
    pub(crate) at: Position,
}

/// The length of the run time in microseconds and the marker flag.
const FACTS: usize = 8 + 1;

impl Answer {
    /// Encodes the answer.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, TooLong> {
        match self {
            Self::Unknown => encode(Tag::Unknown, &[]),
            Self::Skipped => encode(Tag::Skipped, &[]),
            Self::Failed(fault) => encode(Tag::Failed, &[&serde_json::to_vec(fault).map_err(|_| TooLong)?]),
            Self::Done(done) => {
                let writes = match &done.writes {
                    none if none.is_empty() => Vec::new(),
                    some => serde_json::to_vec(some).map_err(|_| TooLong)?,
                };
                let mut module_info = [0; FACTS];
                let took = u64::try_from(done.took.as_micros()).unwrap_or(u64::MAX);
                module_info[..8].copy_from_slice(&took.to_le_bytes());
                module_info[8] = u8::from(done.has_marked);
                let mut parts: Vec<&[u8]> = vec![&done.result, &writes, &module_info];
                parts.extend(done.files.iter().map(AsRef::<[u8]>::as_ref));
                encode(Tag::Done, &parts)
            }
        }
    }
}

impl TryFrom<Message> for Answer {
    type Error = Malformed;

    fn try_from(mut message: Message) -> Result<Self, Malformed> {
        match message.tag {
            Tag::Unknown if message.parts.is_empty() => Ok(Self::Unknown),
            Tag::Skipped if message.parts.is_empty() => Ok(Self::Skipped),
            Tag::Failed if message.parts.len() == 1 => {
                serde_json::from_slice(&message.parts[0]).map(Self::Failed).map_err(|_| Malformed)
            }
            Tag::Done if message.parts.len() >= 3 => {
                let files = message.parts.split_off(3);
                let (took, [marked]) = message.parts[2].split_first_chunk().ok_or(Malformed)? else {
                    return Err(Malformed);
                };
                let (took, has_marked) = (Duration::from_micros(u64::from_le_bytes(*took)), *marked != 0);
                let writes = match &message.parts[1] {
                    nothing if nothing.is_empty() => Vec::new(),
                    text => serde_json::from_slice(text).map_err(|_| Malformed)?,
                };
                let result = message.parts.swap_remove(0);
                Ok(Self::Done(Done { result, writes, took, has_marked, files }))
            }
            _ => Err(Malformed),
        }
    }
}
