//! What a worker answers to a call.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::{Malformed, Message, Tag, TooLong, encode};
use crate::module::Position;

/// What a worker answers to a call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    Done(Done),
    Failed(Fault),
    /// The text of the module is wanted.
    Unknown,
}

/// A result, not yet read: what is in it was written by the author's code.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Done {
    /// The result as JSON; empty for nothing.
    pub(crate) result: Bytes,
    pub(crate) writes: Vec<Write>,
    /// The bytes that the result and the writes refer to.
    pub(crate) files: Vec<Bytes>,
}

/// A write to the state, as JSON; none takes the key away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Write {
    pub(crate) key: String,
    pub(crate) value: Option<String>,
}

/// Why there is no result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fault {
    pub(crate) kind: FaultKind,
    pub(crate) message: String,
    /// The author's frames, innermost first, with positions in the module.
    pub(crate) places: Vec<Place>,
}

/// What sort of end it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum FaultKind {
    Thrown,
    Overrun,
    OutOfMemory,
    TooLarge,
}

/// A frame of the author's, with its position in the module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Place {
    pub(crate) function: Option<String>,
    pub(crate) at: Position,
}

impl Answer {
    /// The answer as it is sent.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, TooLong> {
        match self {
            Self::Unknown => encode(Tag::Unknown, &[]),
            Self::Failed(fault) => encode(Tag::Failed, &[&serde_json::to_vec(fault).map_err(|_| TooLong)?]),
            Self::Done(done) => {
                let writes = match &done.writes {
                    none if none.is_empty() => Vec::new(),
                    some => serde_json::to_vec(some).map_err(|_| TooLong)?,
                };
                let mut parts: Vec<&[u8]> = vec![&done.result, &writes];
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
            Tag::Failed if message.parts.len() == 1 => {
                serde_json::from_slice(&message.parts[0]).map(Self::Failed).map_err(|_| Malformed)
            }
            Tag::Done if message.parts.len() >= 2 => {
                let files = message.parts.split_off(2);
                let writes = match &message.parts[1] {
                    nothing if nothing.is_empty() => Vec::new(),
                    text => serde_json::from_slice(text).map_err(|_| Malformed)?,
                };
                let result = message.parts.swap_remove(0);
                Ok(Self::Done(Done { result, writes, files }))
            }
            _ => Err(Malformed),
        }
    }
}
