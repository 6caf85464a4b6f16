//! The encoding of a call: a head of fixed size, the module's text if the worker lacks it, and JSON.

use std::time::Duration;

use bytes::Bytes;

use super::{Malformed, Message, Nonce};
use crate::call::Kind;
use crate::module::Digest;

/// The head of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) digest: Digest,
    pub(crate) kind: Kind,
    pub(crate) deadline: Duration,
    pub(crate) nonce: Nonce,
    /// The time limit of a sequence: this call starts only if each call before it returned a result, within this time
    /// since the first started. `None` if it is not part of a sequence, or is its first.
    pub(crate) follows: Option<Duration>,
    /// True if calls of the same sequence follow.
    pub(crate) is_followed: bool,
}

/// A call, as read by a worker.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) head: Head,
    /// The module's text; `None` if the worker should have it.
    pub(crate) source: Option<Bytes>,
    /// `context.executionId`.
    pub(crate) execution_id: String,
    /// `context.stepId`.
    pub(crate) step_id: Option<String>,
    /// `context.startedAt`.
    pub(crate) started_at: String,
    /// The other members of `context`, and the paths of the files, if any.
    pub(crate) context: Bytes,
    /// The second parameter.
    pub(crate) argument: Bytes,
    /// The indices of the earlier calls whose results it reads, in the order of its context.
    pub(crate) earlier: Vec<usize>,
    /// The bytes of the files in both.
    pub(crate) files: Vec<Bytes>,
}

const LENGTH: usize = 32 + 1 + 4 + 4 + 16;
/// The bits of the byte after the digest.
const IS_TRIGGER: u8 = 1;
const FOLLOWS: u8 = 2;
const IS_FOLLOWED: u8 = 4;

impl Head {
    /// Encodes the head.
    pub(crate) fn encode(&self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[..32].copy_from_slice(&self.digest.0);
        bytes[32] = if self.kind == Kind::Trigger { IS_TRIGGER } else { 0 };
        bytes[32] |= if self.follows.is_some() { FOLLOWS } else { 0 };
        bytes[32] |= if self.is_followed { IS_FOLLOWED } else { 0 };
        let ms = |time: Duration| u32::try_from(time.as_millis()).unwrap_or(u32::MAX).to_le_bytes();
        bytes[33..37].copy_from_slice(&ms(self.deadline));
        bytes[37..41].copy_from_slice(&ms(self.follows.unwrap_or_default()));
        bytes[41..].copy_from_slice(&self.nonce.0);
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; LENGTH] = bytes.try_into().ok()?;
        let bits = bytes[32];
        let time = |ms: [u8; 4]| Duration::from_millis(u32::from_le_bytes(ms).into());
        if bits > IS_TRIGGER | FOLLOWS | IS_FOLLOWED {
            return None;
        }
        Some(Self {
            digest: Digest(bytes[..32].try_into().ok()?),
            kind: if bits & IS_TRIGGER == 0 { Kind::Step } else { Kind::Trigger },
            follows: if bits & FOLLOWS == 0 { None } else { Some(time(bytes[37..41].try_into().ok()?)) },
            is_followed: bits & IS_FOLLOWED != 0,
            deadline: time(bytes[33..37].try_into().ok()?),
            nonce: Nonce(bytes[41..].try_into().ok()?),
        })
    }
}

impl TryFrom<Message> for Request {
    type Error = Malformed;

    fn try_from(mut message: Message) -> Result<Self, Malformed> {
        if message.parts.len() < 8 {
            return Err(Malformed);
        }
        let files = message.parts.split_off(8);
        let [head, source, execution_id, step_id, started_at, context, argument, earlier] =
            <[Bytes; 8]>::try_from(message.parts).map_err(|_| Malformed)?;
        let text = |part: &Bytes| std::str::from_utf8(part).map(str::to_owned).map_err(|_| Malformed);
        Ok(Self {
            head: Head::decode(&head).ok_or(Malformed)?,
            source: Some(source).filter(|source| !source.is_empty()),
            execution_id: text(&execution_id)?,
            step_id: Some(text(&step_id)?).filter(|id| !id.is_empty()),
            started_at: text(&started_at)?,
            context,
            argument,
            earlier: decode_earlier(&earlier)?,
            files,
        })
    }
}

#[cfg(test)]
impl Request {
    /// A step call with this text as a known module, an empty object as the argument and a limit of one minute.
    pub(crate) fn for_module(text: &str) -> Self {
        Self {
            head: Head {
                digest: Digest::of_source(text),
                kind: Kind::Step,
                deadline: Duration::from_secs(60),
                nonce: Nonce::default(),
                follows: None,
                is_followed: false,
            },
            source: None,
            execution_id: "e".to_owned(),
            step_id: None,
            started_at: String::new(),
            context: Bytes::new(),
            argument: Bytes::from_static(b"{}"),
            earlier: Vec::new(),
            files: Vec::new(),
        }
    }
}

/// Encodes indices in a sequence.
pub(crate) fn encode_earlier(places: impl IntoIterator<Item = usize>) -> Vec<u8> {
    places.into_iter().flat_map(|place| u16::try_from(place).unwrap_or(u16::MAX).to_le_bytes()).collect()
}

fn decode_earlier(bytes: &[u8]) -> Result<Vec<usize>, Malformed> {
    let (places, rest) = bytes.as_chunks::<2>();
    if rest.is_empty() {
        Ok(places.iter().map(|place| u16::from_le_bytes(*place).into()).collect())
    } else {
        Err(Malformed)
    }
}
