//! Recordings of HTTP exchanges, and of calls of actions without HTTP: recorded while a test calls the real system, and replayed offline afterwards.
//!
//! A cassette sits below all other layers of a request and sees the final address, headers and credentials. It
//! redacts an exchange before storing it, so that a recording may be committed to a repository. On replay it redacts
//! each request in the same way before comparing it.

mod call;
mod exchange;
mod mask;
#[cfg(test)]
mod tests;

use std::sync::{Mutex, MutexGuard, PoisonError};

use ::http::HeaderMap;
use model::{ActionError, ErrorKind};
use url::Url;
use value::{Data, Value};

use super::request::Request;
use super::response::Response;
use super::{RequestContext, SendResult};

pub(crate) use call::MadeCall;
pub use call::RecordedCall;
pub use exchange::{
    Exchange, HeaderValues, RecordedBody, RecordedPart, RecordedRequest, RecordedResponse, Recording,
};
use mask::Mask;

/// The largest number of exchanges in a recording.
const MAX_EXCHANGES: usize = 10_000;
/// The largest number of reported differences between a request and a recorded one.
const MAX_DIFFERENCES: usize = 5;

/// A recording in progress, or a replay of a recording.
#[derive(Debug)]
pub struct Cassette {
    /// True if requests go to the network and are recorded; false if the recording answers them.
    is_recording: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    exchanges: Vec<Exchange>,
    calls: Vec<RecordedCall>,
    /// As `used`, of the calls.
    used_calls: Vec<bool>,
    /// On replay, true at the index of each exchange that has been used.
    used: Vec<bool>,
    mask: Mask,
    unmatched: Vec<UnmatchedRequest>,
}

/// A request that no recorded exchange matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnmatchedRequest {
    /// The method and the address.
    pub line: String,
    /// Differences from the most similar recorded request; empty if none is similar.
    pub differences: Vec<String>,
}

impl Cassette {
    /// Creates an empty cassette for recording.
    #[must_use]
    pub fn for_recording() -> Self {
        Self { is_recording: true, state: Mutex::default() }
    }

    /// Creates a cassette that replays a recording; each exchange answers one request.
    #[must_use]
    pub fn for_replay(recording: Recording) -> Self {
        let used = vec![false; recording.exchanges.len()];
        let used_calls = vec![false; recording.calls.len()];
        let Recording { exchanges, calls } = recording;
        let state = State { exchanges, used, calls, used_calls, ..State::default() };
        Self { is_recording: false, state: Mutex::new(state) }
    }

    /// True if the cassette records.
    #[must_use]
    pub fn is_recording(&self) -> bool {
        self.is_recording
    }

    /// Adds a secret to remove from the recording, in every encoding in which it may be sent.
    pub fn add_secret(&self, secret: &str) {
        self.state().mask.add_secret(secret);
    }

    /// Returns the recording. Secrets that were added after an exchange are removed from it too.
    #[must_use]
    pub fn recording(&self) -> Recording {
        let state = self.state();
        let recording = Recording { exchanges: state.exchanges.clone(), calls: state.calls.clone() };
        let masked = serde_json::to_value(&recording).map(|json| state.mask.mask_json(json));
        masked.and_then(serde_json::from_value).unwrap_or(recording)
    }

    /// Returns the requests without a matching exchange, without duplicates.
    #[must_use]
    pub fn unmatched_requests(&self) -> Vec<UnmatchedRequest> {
        self.state().unmatched.clone()
    }

    /// Returns the recorded requests that were not sent, as method and address, and the calls that were not made.
    #[must_use]
    pub fn unused_exchanges(&self) -> Vec<String> {
        let state = self.state();
        let unused =
            state.exchanges.iter().zip(&state.used).filter(|(_, used)| !**used && !self.is_recording);
        let lines = unused.map(|(exchange, _)| exchange.request.line());
        let calls = state.calls.iter().zip(&state.used_calls);
        let calls = calls.filter(|(_, used)| !**used && !self.is_recording);
        lines.chain(calls.map(|(call, _)| call.action.clone())).collect()
    }

    /// Adds an exchange to the recording.
    pub(super) fn record(
        &self,
        request: &Request<Data>,
        url: &Url,
        headers: &HeaderMap,
        response: &Response,
        context: &RequestContext<'_>,
    ) {
        let mut state = self.state();
        state.mask.add_connection_secrets(context);
        if state.exchanges.len() < MAX_EXCHANGES {
            let request = RecordedRequest::new(request, url, headers, &state.mask);
            let response = RecordedResponse::new(response, &state.mask);
            state.exchanges.push(Exchange { request, response });
        }
    }

    /// Returns the recorded response to a request: that of the first matching exchange not yet used.
    pub(super) fn replay(
        &self,
        request: &Request<Data>,
        url: &Url,
        headers: &HeaderMap,
        context: &RequestContext<'_>,
    ) -> SendResult {
        let mut state = self.state();
        state.mask.add_connection_secrets(context);
        let sent = RecordedRequest::new(request, url, headers, &state.mask);
        let free = |index: &usize| !state.used[*index];
        let same = (0..state.exchanges.len())
            .filter(free)
            .find(|index| state.exchanges[*index].request.matches(&sent));
        if let Some(index) = same {
            state.used[index] = true;
            return state.exchanges[index].response.to_response(url).map_err(|message| {
                ActionError::new(ErrorKind::Internal, format!("the recording cannot be played: {message}"))
            });
        }
        let line = sent.line();
        let unused = state.exchanges.iter().zip(&state.used).filter(|(_, used)| !**used);
        let alike = unused.map(|(exchange, _)| &exchange.request).filter(|other| other.is_similar(&sent));
        let nearest = alike.map(|other| other.differences(&sent)).min_by_key(Vec::len);
        let mut differences = nearest.unwrap_or_default();
        differences.truncate(MAX_DIFFERENCES);
        let unmatched = UnmatchedRequest { line: line.clone(), differences };
        if !state.unmatched.contains(&unmatched) {
            state.unmatched.push(unmatched);
        }
        let message = format!("the recording has no answer to `{line}`");
        Err(ActionError::new(ErrorKind::Internal, message))
    }

    /// Adds a call of an action without HTTP to the recording, unless its system was not reached.
    pub(crate) fn record_call(&self, made: &MadeCall<'_>, answer: &Result<Value, ActionError>) {
        let is_unsent = |error: &ActionError| error.not_sent || error.kind == ErrorKind::Connection;
        if answer.as_ref().is_err_and(is_unsent) {
            return;
        }
        let mut state = self.state();
        if state.calls.len() + state.exchanges.len() < MAX_EXCHANGES {
            let call = RecordedCall::new(made, answer, &|json| state.mask.mask_json(json));
            state.calls.push(call);
        }
    }

    /// Returns the recorded answer to a call, from the first matching entry that is not yet used.
    pub(crate) fn replay_call(&self, made: &MadeCall<'_>) -> Result<Value, ActionError> {
        let mut state = self.state();
        let asked = state.mask.mask_json(call::inputs_of(made.inputs));
        let same = |index: &usize| {
            let call = &state.calls[*index];
            !state.used_calls[*index] && call.action == made.action && call.inputs == asked
        };
        if let Some(index) = (0..state.calls.len()).find(same) {
            state.used_calls[index] = true;
            return state.calls[index].answer();
        }
        let line = made.action.to_owned();
        let unused = state.calls.iter().zip(&state.used_calls).filter(|(_, used)| !**used);
        let alike = unused.map(|(call, _)| call).filter(|call| call.action == made.action);
        let nearest =
            alike.map(|call| exchange::input_differences(&call.inputs, &asked)).min_by_key(Vec::len);
        let mut differences = nearest.unwrap_or_default();
        differences.truncate(MAX_DIFFERENCES);
        let unmatched = UnmatchedRequest { line: line.clone(), differences };
        if !state.unmatched.contains(&unmatched) {
            state.unmatched.push(unmatched);
        }
        let message = format!("the recording has no answer to this call of {line}");
        Err(ActionError::new(ErrorKind::Internal, message))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
