//! A call, as it is sent: a head of fixed size, the module's text if the worker does not know it, and JSON.

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
}

/// A call, as a worker reads it.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) head: Head,
    /// The module's text; none if the worker should know it.
    pub(crate) source: Option<Bytes>,
    /// What becomes `context`, and where the files go.
    pub(crate) context: Bytes,
    /// The second parameter.
    pub(crate) argument: Bytes,
    /// The bytes of the files in both.
    pub(crate) files: Vec<Bytes>,
}

const LENGTH: usize = 32 + 1 + 4 + 16;

impl Head {
    /// The head as bytes.
    pub(crate) fn encode(&self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[..32].copy_from_slice(&self.digest.0);
        bytes[32] = u8::from(self.kind == Kind::Trigger);
        let deadline = u32::try_from(self.deadline.as_millis()).unwrap_or(u32::MAX);
        bytes[33..37].copy_from_slice(&deadline.to_le_bytes());
        bytes[37..].copy_from_slice(&self.nonce.0);
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; LENGTH] = bytes.try_into().ok()?;
        let kind = match bytes[32] {
            0 => Kind::Step,
            1 => Kind::Trigger,
            _ => return None,
        };
        Some(Self {
            digest: Digest(bytes[..32].try_into().ok()?),
            kind,
            deadline: Duration::from_millis(u32::from_le_bytes(bytes[33..37].try_into().ok()?).into()),
            nonce: Nonce(bytes[37..].try_into().ok()?),
        })
    }
}

impl TryFrom<Message> for Request {
    type Error = Malformed;

    fn try_from(mut message: Message) -> Result<Self, Malformed> {
        if message.parts.len() < 4 {
            return Err(Malformed);
        }
        let files = message.parts.split_off(4);
        let [head, source, context, argument] =
            <[Bytes; 4]>::try_from(message.parts).map_err(|_| Malformed)?;
        let head = Head::decode(&head).ok_or(Malformed)?;
        Ok(Self { head, source: Some(source).filter(|source| !source.is_empty()), context, argument, files })
    }
}
