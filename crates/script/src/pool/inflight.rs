//! An in-flight call, and the conversion of its reply into the caller's result.

use std::time::Duration;

use super::worker_handle::WorkerFailure;
use crate::call::{Kind, Level, LogLine, Outcome, SequenceCall, Shape, StateChange, StateWrite};
use crate::error::{Error, Failure, Frame};
use crate::module::{Digest, MAX_SOURCE, Module};
use crate::protocol::{
    Answer, Done, FailureKind, FrameLocation, Head, MAX_MESSAGE, Nonce, RunFailure, Sender, Tag, Unreadable,
    encode, encode_earlier, restore,
};
use value::Value;

/// An encoded call, with the data needed to decode its reply.
pub(super) struct InFlightCall {
    module: Module,
    kind: Kind,
    pub(super) deadline: Duration,
    /// `executionId`, `stepId` and `startedAt`.
    names: [String; 3],
    context: String,
    argument: String,
    earlier: Vec<u8>,
    files: Vec<bytes::Bytes>,
    /// An integer that the code sees rounded.
    rounded: Option<String>,
    nonce: Nonce,
    /// True if the text of the module is sent too.
    pub(super) has_source: bool,
}

impl InFlightCall {
    pub(super) fn new(member: &SequenceCall<'_>) -> Result<Self, Error> {
        let call = &member.call;
        if call.module.source().len() > MAX_SOURCE {
            return Err(Error::TooLarge { what: "the code", limit: MAX_SOURCE });
        }
        let mut sender = Sender::default();
        let argument = sender.take(&["argument"], call.argument);
        let context = sender.context(&call.context, member.earlier);
        let given = &call.context;
        let names = [given.execution_id, given.step_id.unwrap_or_default(), given.started_at];
        Ok(Self {
            module: call.module.clone(),
            kind: call.kind,
            deadline: call.deadline,
            names: names.map(str::to_owned),
            context,
            argument,
            earlier: encode_earlier(member.earlier.iter().map(|(_, place)| *place)),
            files: sender.files,
            rounded: sender.rounded,
            nonce: Nonce::default(),
            has_source: true,
        })
    }

    pub(super) fn digest(&self) -> Digest {
        self.module.digest()
    }

    /// The approximate size of its message, in bytes.
    pub(super) fn encoded_size(&self) -> usize {
        let files: usize = self.files.iter().map(bytes::Bytes::len).sum();
        self.module.source().len() + self.context.len() + self.argument.len() + files + 128
    }

    /// Encodes the message, with the module's text if [`Self::has_source`] is set.
    pub(super) fn encode(
        &mut self,
        nonce: Nonce,
        follows: Option<Duration>,
        is_followed: bool,
    ) -> Result<Vec<u8>, Error> {
        self.nonce = nonce;
        let (digest, kind, deadline) = (self.digest(), self.kind, self.deadline);
        let head = Head { digest, kind, deadline, nonce, follows, is_followed }.encode();
        let source = if self.has_source { self.module.source() } else { "" };
        let [execution_id, step_id, started_at] = self.names.each_ref().map(|name| name.as_bytes());
        let (context, argument) = (self.context.as_bytes(), self.argument.as_bytes());
        let mut parts: Vec<&[u8]> = Vec::with_capacity(8 + self.files.len());
        parts.extend([
            &head,
            source.as_bytes(),
            execution_id,
            step_id,
            started_at,
            context,
            argument,
            &self.earlier,
        ]);
        parts.extend(self.files.iter().map(AsRef::<[u8]>::as_ref));
        encode(Tag::Call, &parts).map_err(|_| too_large("what the code is given"))
    }
}

pub(super) fn too_large(what: &'static str) -> Error {
    Error::TooLarge { what, limit: MAX_MESSAGE }
}

/// The end of a run.
pub(super) struct Ended {
    pub(super) answer: Result<Answer, WorkerFailure>,
    /// The time from the sending of the call to the reply, or to the kill of the worker.
    pub(super) took: Duration,
    pub(super) logs: Vec<LogLine>,
}

impl Ended {
    /// Converts it into the caller's result.
    pub(super) fn read(self, inflight: &InFlightCall, memory: usize) -> Result<Outcome, Error> {
        let Self { answer, took, mut logs } = self;
        if let Some(integer) = &inflight.rounded {
            let message = format!(
                "an input of the code has the integer {integer}, of which JavaScript keeps about 16 digits; give it as text \
                 to keep all"
            );
            logs.insert(0, LogLine { level: Level::Warn, message });
        }
        let deadline = inflight.deadline;
        match answer {
            Ok(Answer::Done(done)) => outcome(inflight, done, logs),
            Ok(Answer::Failed(fault)) => Err(match fault.kind {
                FailureKind::Overrun => Error::Overrun { deadline, took, logs },
                FailureKind::OutOfMemory => Error::OutOfMemory { limit: memory, logs },
                FailureKind::TooLarge => too_large("what the code returned"),
                FailureKind::Thrown => thrown(inflight, fault, logs),
            }),
            Err(WorkerFailure::TimedOut) => Err(Error::Overrun { deadline, took, logs }),
            Err(broken) => Err(broken.into_error(logs)),
            Ok(Answer::Unknown | Answer::Skipped) => Err(WorkerFailure::ProtocolViolation.into_error(logs)),
        }
    }
}

fn outcome(inflight: &InFlightCall, done: Done, logs: Vec<LogLine>) -> Result<Outcome, Error> {
    let marked = done.has_marked.then_some((inflight.nonce, &done.files[..]));
    let read = |text: &[u8]| restore(text, marked);
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
            let (value, shape) = unwrap(inflight.kind, value);
            Ok(Outcome { value, shape, logs, state, took: done.took })
        }
        (Err(why), _) | (_, Err(why)) => Err(unreadable(why, logs)),
    }
}

fn unreadable(why: Unreadable, logs: Vec<LogLine>) -> Error {
    let message = match why {
        Unreadable::Malformed => return WorkerFailure::ProtocolViolation.into_error(logs),
        Unreadable::Large => {
            "what the code returned nests deeper than 64 levels or has more than 1,000,000 items"
        }
        Unreadable::Forged => "what the code returned refers to bytes that are not there",
    };
    Error::Thrown(Box::new(Failure { message: message.to_owned(), at: None, frames: Vec::new(), logs }))
}

/// Unwraps `{data}` of a step's result. Later runs of a sequence do the same themselves: see `resultOf` in
/// `worker/js/run.js`.
fn unwrap(kind: Kind, value: Option<Value>) -> (Value, Shape) {
    let Some(value) = value else { return (Value::Null, Shape::Nothing) };
    if kind == Kind::Trigger {
        return (value, Shape::Plain);
    }
    let shape = match &value {
        // Bytes with their content type, of which `data` is a part.
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

fn thrown(inflight: &InFlightCall, fault: RunFailure, logs: Vec<LogLine>) -> Error {
    let origin = inflight.module.origin();
    let place = |place: FrameLocation| Frame { at: origin.place(place.at), function: place.function };
    let frames: Vec<Frame> = fault.places.into_iter().map(place).collect();
    let at = frames.first().map(|frame| frame.at);
    Error::Thrown(Box::new(Failure { message: fault.message, at, frames, logs }))
}
