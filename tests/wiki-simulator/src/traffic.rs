//! The log of requests, and the budget of requests per credential.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;

use super::faults::matches_pattern;
use super::model::Moment;

const MAX_REQUESTS: usize = 1_000;
const MAX_BODY: usize = 64 * 1024;

/// A request as it came.
#[derive(Clone, Debug)]
pub struct LoggedRequest {
    /// Upper case.
    pub method: String,
    /// As it was sent, with the gateway's prefix.
    pub path: String,
    /// Decoded, in order.
    pub query: Vec<(String, String)>,
    /// In order; names in lower case.
    pub headers: Vec<(String, String)>,
    /// The first 64 KiB.
    pub body: Bytes,
    /// The status of the answer; `None` before it and after a reset.
    pub status: Option<u16>,
}

impl LoggedRequest {
    /// The first header of this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The first query parameter of this name.
    pub fn query(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The body as JSON; null when it is not.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    pub(super) fn is(&self, method: &str, path: &str) -> bool {
        (method == "*" || method == self.method) && matches_pattern(path, &self.path)
    }
}

/// The last requests.
#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) requests: VecDeque<LoggedRequest>,
    total: u64,
}

impl Log {
    /// Adds a request and returns its number, from 1.
    pub(super) fn add(&mut self, mut request: LoggedRequest) -> u64 {
        if request.body.len() > MAX_BODY {
            // Copied: a slice would keep the whole body alive.
            request.body = Bytes::copy_from_slice(&request.body[..MAX_BODY]);
        }
        self.requests.push_back(request);
        if self.requests.len() > MAX_REQUESTS {
            self.requests.pop_front();
        }
        self.total += 1;
        self.total
    }

    /// Sets the status of the answer to a request.
    pub(super) fn answered(&mut self, number: u64, status: u16) {
        let age = usize::try_from(self.total - number).unwrap_or(usize::MAX);
        let index = self.requests.len().checked_sub(age + 1);
        if let Some(request) = index.and_then(|index| self.requests.get_mut(index)) {
            request.status = Some(status);
        }
    }
}

const MAX_CREDENTIALS: usize = 10_000;

/// A budget of requests in a window of time, for each credential on its own.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RateLimit {
    requests: u32,
    /// Begins with its first request.
    window: Duration,
}

impl RateLimit {
    /// A burst limit.
    pub fn new(requests: u32, window: Duration) -> Self {
        Self { requests, window }
    }
}

#[derive(Clone, Copy, Debug)]
struct Count {
    ends_at: Moment,
    used: u32,
    /// The announced wait, once a call was refused. Until `ends_at` every further call restarts it.
    refused: Option<Duration>,
}

/// The counts of all credentials.
#[derive(Debug, Default)]
pub(super) struct Limits {
    limit: Option<RateLimit>,
    counts: HashMap<String, Count>,
}

/// The headers with the budget left after a call, and whether the call is over it.
pub(super) type Budget = (Vec<(&'static str, String)>, bool);

impl Limits {
    /// Sets or lifts the budget, and forgets the counts.
    pub(super) fn set(&mut self, limit: Option<RateLimit>) {
        *self = Self { limit, counts: HashMap::new() };
    }

    /// Counts a call of a credential.
    pub(super) fn count(&mut self, credential: &str, now: Moment) -> Budget {
        let Some(RateLimit { requests, window }) = self.limit else { return Budget::default() };
        if self.counts.len() >= MAX_CREDENTIALS {
            self.counts.clear();
        }
        let fresh = Count { ends_at: now.plus(window), used: 0, refused: None };
        let count = self.counts.entry(credential.to_owned()).or_insert(fresh);
        if now >= count.ends_at {
            *count = fresh;
        }
        let over = count.refused.is_some() || count.used >= requests;
        let mut headers = Vec::new();
        if over {
            let left_ms = u64::try_from(count.ends_at.millis() - now.millis()).unwrap_or(0);
            // Rounded up to the whole seconds of `Retry-After`.
            let wait = *count.refused.get_or_insert(Duration::from_secs(left_ms.div_ceil(1_000)));
            count.ends_at = count.ends_at.max(now.plus(wait));
            headers.push(("retry-after", wait.as_secs().to_string()));
            headers.push(("ratelimit-reason", "wiki-burst-based".to_owned()));
        } else {
            count.used += 1;
        }
        let left = if over { 0 } else { requests - count.used };
        headers.push(("x-ratelimit-limit", requests.to_string()));
        headers.push(("x-ratelimit-remaining", left.to_string()));
        // A date in words, not seconds since 1970.
        headers.push(("x-ratelimit-reset", count.ends_at.to_string()));
        headers.push(("x-ratelimit-nearlimit", (u64::from(left) * 5 < u64::from(requests)).to_string()));
        (headers, over)
    }
}
