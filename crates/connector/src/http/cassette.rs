//! Recordings of HTTP exchanges: made while a test calls the real system, and played back offline from then on.
//!
//! The tape sits below everything else of a request: address, headers and credentials are as they would be sent. What is
//! kept of them is redacted first, so that a recording can stand in a repository; what is played back is redacted in the
//! same way before it is compared.

mod exchange;
mod mask;
#[cfg(test)]
mod tests;

use std::sync::{Mutex, MutexGuard, PoisonError};

use ::http::HeaderMap;
use model::{ActionError, ErrorKind};
use url::Url;

use super::request::Request;
use super::response::Response;
use super::{Context, Sent};

pub use exchange::{
    Exchange, HeaderValues, RecordedBody, RecordedPart, RecordedRequest, RecordedResponse, Recording,
};
use mask::Mask;

/// The most exchanges of one recording.
const MAX_EXCHANGES: usize = 10_000;
/// The most differences of a request to one that was recorded that are told.
const MAX_DIFFERENCES: usize = 5;

/// A recording in a recorder.
#[derive(Debug)]
pub struct Tape {
    /// Whether requests go out and are recorded; else they are answered from the recording.
    records: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    exchanges: Vec<Exchange>,
    /// Of a recording that is played back, which exchanges have been used.
    used: Vec<bool>,
    mask: Mask,
    unrecorded: Vec<Unrecorded>,
}

/// A request that the recording has no answer for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unrecorded {
    /// Method and address.
    pub line: String,
    /// How it differs from the recorded request that is nearest to it; empty where there is none like it.
    pub differences: Vec<String>,
}

impl Tape {
    /// An empty tape, to record on.
    #[must_use]
    pub fn blank() -> Self {
        Self { records: true, state: Mutex::default() }
    }

    /// A recording, to be played back: each exchange answers one request.
    #[must_use]
    pub fn play(recording: Recording) -> Self {
        let used = vec![false; recording.exchanges.len()];
        let state = State { exchanges: recording.exchanges, used, ..State::default() };
        Self { records: false, state: Mutex::new(state) }
    }

    /// Whether it records.
    #[must_use]
    pub fn records(&self) -> bool {
        self.records
    }

    /// Keeps a secret out of what is recorded, in whatever form it is sent.
    pub fn hide(&self, secret: &str) {
        self.state().mask.hide(secret);
    }

    /// What is on it.
    #[must_use]
    pub fn recording(&self) -> Recording {
        Recording { exchanges: self.state().exchanges.clone() }
    }

    /// Requests that were not recorded, each once.
    #[must_use]
    pub fn unrecorded(&self) -> Vec<Unrecorded> {
        self.state().unrecorded.clone()
    }

    /// Recorded requests that nobody sent: method and address.
    #[must_use]
    pub fn unused(&self) -> Vec<String> {
        let state = self.state();
        let unused = state.exchanges.iter().zip(&state.used).filter(|(_, used)| !**used && !self.records);
        unused.map(|(exchange, _)| exchange.request.line()).collect()
    }

    /// Takes an exchange down.
    pub(super) fn record(
        &self,
        request: &Request,
        url: &Url,
        headers: &HeaderMap,
        response: &Response,
        context: &Context<'_>,
    ) {
        let mut state = self.state();
        state.mask.hide_all(context);
        if state.exchanges.len() < MAX_EXCHANGES {
            let request = RecordedRequest::of(request, url, headers, &state.mask);
            let response = RecordedResponse::of(response, &state.mask);
            state.exchanges.push(Exchange { request, response });
        }
    }

    /// The recorded answer to a request: that of the first recorded one which is the same and has not been used.
    pub(super) fn answer(
        &self,
        request: &Request,
        url: &Url,
        headers: &HeaderMap,
        context: &Context<'_>,
    ) -> Sent {
        let mut state = self.state();
        state.mask.hide_all(context);
        let asked = RecordedRequest::of(request, url, headers, &state.mask);
        let free = |index: &usize| !state.used[*index];
        let same =
            (0..state.exchanges.len()).filter(free).find(|index| state.exchanges[*index].request.is(&asked));
        if let Some(index) = same {
            state.used[index] = true;
            return state.exchanges[index].response.to_response(url).map_err(|message| {
                ActionError::new(ErrorKind::Internal, format!("the recording cannot be played: {message}"))
            });
        }
        let line = asked.line();
        let unused = state.exchanges.iter().zip(&state.used).filter(|(_, used)| !**used);
        let alike = unused.map(|(exchange, _)| &exchange.request).filter(|other| other.is_like(&asked));
        let nearest = alike.map(|other| other.differences(&asked)).min_by_key(Vec::len);
        let mut differences = nearest.unwrap_or_default();
        differences.truncate(MAX_DIFFERENCES);
        let unrecorded = Unrecorded { line: line.clone(), differences };
        if !state.unrecorded.contains(&unrecorded) {
            state.unrecorded.push(unrecorded);
        }
        let message = format!("the recording has no answer to `{line}`");
        Err(ActionError::new(ErrorKind::Internal, message))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
