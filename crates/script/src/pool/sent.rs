//! A call on its way to a worker, and what came back, in the caller's terms.

use std::time::Duration;

use super::link::Broken;
use crate::call::{Call, Kind, LogLine, Outcome, Shape, StateChange, StateWrite};
use crate::error::{Error, Failure, Frame};
use crate::module::{MAX_SOURCE, Origin};
use crate::protocol::{
    Answer, Done, Fault, FaultKind, Head, MAX_MESSAGE, Nonce, Place, Sender, Tag, Unreadable, encode, restore,
};
use model::Value;

/// A call in the form in which it is sent.
pub(super) struct Sent {
    context: String,
    argument: String,
    files: Vec<bytes::Bytes>,
}

impl Sent {
    pub(super) fn new(call: &Call<'_>) -> Result<Self, Error> {
        if call.module.source().len() > MAX_SOURCE {
            return Err(Error::TooLarge { what: "the code", limit: MAX_SOURCE });
        }
        let mut sender = Sender::default();
        let argument = sender.take(&["argument"], call.argument);
        let context = sender.context(&call.context);
        Ok(Self { context, argument, files: sender.files })
    }

    pub(super) fn encode(&self, call: &Call<'_>, nonce: Nonce, knows: bool) -> Result<Vec<u8>, Error> {
        let head = Head { digest: call.module.digest(), kind: call.kind, deadline: call.deadline, nonce };
        let head = head.encode();
        let source = if knows { "" } else { call.module.source() };
        let mut parts: Vec<&[u8]> =
            vec![&head, source.as_bytes(), self.context.as_bytes(), self.argument.as_bytes()];
        parts.extend(self.files.iter().map(AsRef::<[u8]>::as_ref));
        encode(Tag::Call, &parts).map_err(|_| too_large("what the code is given"))
    }
}

pub(super) fn too_large(what: &'static str) -> Error {
    Error::TooLarge { what, limit: MAX_MESSAGE }
}

/// What came of a run.
pub(super) struct Ended {
    pub(super) answer: Result<Answer, Broken>,
    pub(super) nonce: Nonce,
    /// From when the worker had the call until it had answered, or until its end was ordered.
    pub(super) took: Duration,
    pub(super) logs: Vec<LogLine>,
}

impl Ended {
    /// What it says, in the caller's terms.
    pub(super) fn read(self, call: &Call<'_>, memory: usize) -> Result<Outcome, Error> {
        let Self { answer, nonce, took, logs } = self;
        let deadline = call.deadline;
        match answer {
            Ok(Answer::Done(done)) => outcome(call, nonce, done, logs),
            Ok(Answer::Failed(fault)) => Err(match fault.kind {
                FaultKind::Overrun => Error::Overrun { deadline, took, logs },
                FaultKind::OutOfMemory => Error::OutOfMemory { limit: memory, logs },
                FaultKind::TooLarge => too_large("what the code returned"),
                FaultKind::Thrown => thrown(call, fault, logs),
            }),
            Err(Broken::Late) => Err(Error::Overrun { deadline, took, logs }),
            Err(broken) => Err(broken.into_error(logs)),
            Ok(Answer::Unknown) => Err(Broken::Garbled.into_error(logs)),
        }
    }
}

fn outcome(call: &Call<'_>, nonce: Nonce, done: Done, logs: Vec<LogLine>) -> Result<Outcome, Error> {
    let read = |text: &[u8]| restore(text, nonce, &done.files);
    let write = |write: &crate::protocol::Write| {
        let change = match &write.value {
            None => StateChange::Delete,
            Some(text) => StateChange::Set(read(text.as_bytes())?),
        };
        Ok(StateWrite { key: write.key.as_str().into(), change })
    };
    let state: Result<Vec<StateWrite>, Unreadable> = done.writes.iter().map(write).collect();
    let value = match &done.result {
        nothing if nothing.is_empty() => Ok(None),
        text => read(text).map(Some),
    };
    match (state, value) {
        (Ok(state), Ok(value)) => {
            let (value, shape) = unwrap(call.kind, value);
            Ok(Outcome { value, shape, logs, state })
        }
        (Err(why), _) | (_, Err(why)) => Err(unreadable(why, logs)),
    }
}

fn unreadable(why: Unreadable, logs: Vec<LogLine>) -> Error {
    let message = match why {
        Unreadable::Malformed => return Broken::Garbled.into_error(logs),
        Unreadable::Large => {
            "what the code returned nests deeper than 64 levels or has more than 1,000,000 items"
        }
        Unreadable::Forged => "what the code returned refers to bytes that are not there",
    };
    Error::Thrown(Box::new(Failure { message: message.to_owned(), at: None, frames: Vec::new(), logs }))
}

/// Takes `{data}` off a step's result.
fn unwrap(kind: Kind, value: Option<Value>) -> (Value, Shape) {
    let Some(value) = value else { return (Value::Null, Shape::Nothing) };
    if kind == Kind::Trigger {
        return (value, Shape::Plain);
    }
    let shape = match &value {
        // Bytes with their content type: what is under `data` belongs to them.
        Value::File(_) => Shape::Data,
        Value::Map(map) => {
            let has_data = map.contains_key("data");
            let has_status = map.get("statusCode").is_some_and(|status| status.as_i64().is_some());
            match (has_status || (map.contains_key("body") && !has_data), has_data) {
                (true, _) => Shape::Response,
                (false, true) => return (map.get("data").cloned().unwrap_or_default(), Shape::Data),
                (false, false) => Shape::Plain,
            }
        }
        _ => Shape::Plain,
    };
    (value, shape)
}

fn thrown(call: &Call<'_>, fault: Fault, logs: Vec<LogLine>) -> Error {
    let origin: &Origin = call.module.origin();
    let place = |place: Place| Frame { at: origin.place(place.at), function: place.function };
    let frames: Vec<Frame> = fault.places.into_iter().map(place).collect();
    let at = frames.first().map(|frame| frame.at);
    Error::Thrown(Box::new(Failure { message: fault.message, at, frames, logs }))
}
