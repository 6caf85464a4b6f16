//! Recordings of HTTP exchanges: recorded while a test calls the real system, and replayed offline afterwards.
//!
//! A cassette sits below all other layers of a request and sees the final address, headers and credentials. It
//! redacts an exchange before storing it, so that a recording may be committed to a repository. On replay it redacts
//! each request in the same way before comparing it.

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

/// The largest number of exchanges in a recording.
const MAX_EXCHANGES: usize = 10_000;
/// The largest number of reported differences between a request and a recorded one.
const MAX_DIFFERENCES: usize = 5;

/// A recording that is being made, or one that is being replayed.
#[derive(Debug)]
pub struct Tape {
    /// True if requests go to the network and are recorded; false if the recording answers them.
    records: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    exchanges: Vec<Exchange>,
    /// On replay, true at the index of each exchange that has been used.
    used: Vec<bool>,
    mask: Mask,
    unrecorded: Vec<Unrecorded>,
}

/// A request that no recorded exchange matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unrecorded {
    /// The method and the address.
    pub line: String,
    /// Differences from the most similar recorded request; empty if none is similar.
    pub differences: Vec<String>,
}

impl Tape {
    /// Creates an empty cassette for recording.
    #[must_use]
    pub fn blank() -> Self {
        Self { records: true, state: Mutex::default() }
    }

    /// Creates a cassette that replays a recording; each exchange answers one request.
    #[must_use]
    pub fn play(recording: Recording) -> Self {
        let used = vec![false; recording.exchanges.len()];
        let state = State { exchanges: recording.exchanges, used, ..State::default() };
        Self { records: false, state: Mutex::new(state) }
    }

    /// True if the cassette records.
    #[must_use]
    pub fn records(&self) -> bool {
        self.records
    }

    /// Adds a secret to remove from the recording, in every encoding in which it may be sent.
    pub fn hide(&self, secret: &str) {
        self.state().mask.hide(secret);
    }

    /// Returns the recording.
    #[must_use]
    pub fn recording(&self) -> Recording {
        Recording { exchanges: self.state().exchanges.clone() }
    }

    /// Returns the requests without a matching exchange, without duplicates.
    #[must_use]
    pub fn unrecorded(&self) -> Vec<Unrecorded> {
        self.state().unrecorded.clone()
    }

    /// Returns the recorded requests that were not sent, as method and address.
    #[must_use]
    pub fn unused(&self) -> Vec<String> {
        let state = self.state();
        let unused = state.exchanges.iter().zip(&state.used).filter(|(_, used)| !**used && !self.records);
        unused.map(|(exchange, _)| exchange.request.line()).collect()
    }

    /// Adds an exchange to the recording.
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

    /// Returns the recorded response to a request: that of the first matching exchange not yet used.
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
