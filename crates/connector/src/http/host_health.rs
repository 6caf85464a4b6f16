//! The state of called hosts: rate limits, back-off, and a circuit breaker per host.
//!
//! A host that responds with 429 or `Retry-After` receives no call with the same connection until its back-off ends;
//! calling it earlier would make the back-off longer. A host that does not respond opens its circuit after several
//! consecutive failures: calls then fail at once, and single probes test whether it has recovered.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use model::{ActionError, ErrorKind, RetryPolicy};
use serde::Serialize;
use url::Url;
use value::redact::LengthLimit;

use super::host_limits::origin;
use super::request::{RateHeaders, RateUnit};
use super::response::Response;
use super::{HostPolicy, failure, transport_failure};

/// Above this number of hosts, the one called longest ago is removed.
const MAX_HOSTS: usize = 1024;
/// The number of consecutive failures that opens the circuit.
pub const FAILURES_TO_OPEN: u32 = 20;
/// The time for which the circuit opens at first; doubled after each failed probe.
pub const INITIAL_OPEN_TIME: Duration = Duration::from_secs(30);
/// The longest time for which the circuit opens.
pub const MAX_OPEN_TIME: Duration = Duration::from_secs(300);
/// The longest back-off that a call waits out itself. Beyond it the call fails, and the step's `retry` waits.
const MAX_INLINE_WAIT: Duration = Duration::from_secs(5);
/// The back-off after a 429 without `Retry-After`; doubled after each consecutive one.
const INITIAL_BACKOFF: Duration = Duration::from_secs(1);
/// The longest such back-off.
const MAX_BACKOFF: Duration = Duration::from_secs(30);
/// The length at which the message of the last failure is cut, in characters.
const MAX_CAUSE: usize = 300;
/// The length at which stored headers are cut.
const MAX_HEADER: LengthLimit = LengthLimit::Chars(80);

/// The state of a called host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Host)]
pub struct HostHealth {
    /// Scheme, host and port.
    pub host: String,
    /// The connection of the calls; absent for calls without a connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection: Option<String>,
    /// The time of the last response or failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub called_at: Option<Timestamp>,
    /// The status of the last response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The number of consecutive failures: no response, 502, 503, 504.
    pub failures: u32,
    /// The end of the time in which the circuit is open; absent if it is closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_until: Option<Timestamp>,
    /// The end of the back-off that the host requested.
    #[serde(rename = "heldUntil", skip_serializing_if = "Option::is_none")]
    pub backoff_until: Option<Timestamp>,
    /// The rate limit that the host last reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<RateLimit>,
}

/// The rate limit that a host reports in `X-RateLimit-…` or `RateLimit-…` headers. A reset is seconds, a timestamp or
/// Unix seconds, depending on the service, and therefore stays text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RateLimit {
    /// The number of calls per window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// The number of calls left in the window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remaining: Option<String>,
    /// The end of the window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reset: Option<String>,
    /// The reason why a call was rejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The health of a host with the internal state of its circuit breaker and back-off.
#[derive(Default)]
struct HostState {
    health: HostHealth,
    /// True if the last response had a `Retry-After`.
    has_retry_after: bool,
    /// The number of consecutive 429 responses without `Retry-After`.
    throttle_count: u32,
    /// The number of times that the circuit has opened since the last success.
    open_count: u32,
    /// True while a probe passes the open circuit.
    is_probing: bool,
    /// The last of the consecutive failures, in words; empty if there was none.
    last_failure: String,
}

/// The states of all hosts, by origin and connection.
#[derive(Default)]
pub(crate) struct HostTable(Mutex<HashMap<(String, String), HostState>>);

/// The outcome of a call.
pub(crate) enum CallOutcome<'a> {
    /// A response, and the headers in which its service reports how many calls are left.
    Response(&'a Response, Option<&'a RateHeaders>),
    /// A connection of another protocol was made.
    Connected,
    Failure(&'a ActionError),
}

impl HostTable {
    /// Returns the time to wait before calling the host.
    ///
    /// # Errors
    /// Returns an error with `not_sent` if the circuit is open or the back-off is too long to wait out.
    pub(crate) fn admit(
        &self,
        url: &Url,
        connection: Option<&str>,
        subject: &str,
        host_policy: HostPolicy,
        now: Timestamp,
    ) -> Result<Duration, ActionError> {
        let mut hosts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(host) = hosts.get_mut(&key(url, connection)) else { return Ok(Duration::ZERO) };
        if host_policy == HostPolicy::RetryAfterOnly {
            let owed = host
                .health
                .backoff_until
                .filter(|_| host.has_retry_after)
                .and_then(|until| Some((remaining(until, now)?, until)));
            return owed.map_or(Ok(Duration::ZERO), |(wait, until)| Err(backoff_error(subject, wait, until)));
        }
        if let Some(until) = host.health.open_until {
            if let Some(wait) = remaining(until, now) {
                return Err(circuit_open_error(subject, url, host, (wait, until)));
            }
            // This call is the probe. If its outcome is never recorded, the next probe follows after the same time.
            host.health.open_until = now.checked_add(INITIAL_OPEN_TIME).ok();
            host.is_probing = true;
        }
        let Some(until) = host.health.backoff_until else { return Ok(Duration::ZERO) };
        match remaining(until, now) {
            Some(wait) if wait > MAX_INLINE_WAIT => Err(backoff_error(subject, wait, until)),
            wait => Ok(wait.unwrap_or_default()),
        }
    }

    /// Records the outcome of a call.
    pub(crate) fn record(
        &self,
        url: &Url,
        connection: Option<&str>,
        outcome: &CallOutcome<'_>,
        now: Timestamp,
    ) {
        let key = key(url, connection);
        let mut hosts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if hosts.len() >= MAX_HOSTS && !hosts.contains_key(&key) {
            let oldest =
                hosts.iter().min_by_key(|(_, host)| host.health.called_at).map(|(key, _)| key.clone());
            oldest.and_then(|oldest| hosts.remove(&oldest));
        }
        let (origin, name) = key.clone();
        let host = hosts.entry(key).or_insert_with(|| {
            let connection = Some(name).filter(|name| !name.is_empty());
            HostState {
                health: HostHealth { host: origin, connection, ..HostHealth::default() },
                ..HostState::default()
            }
        });
        host.health.called_at = Some(now);
        match outcome {
            CallOutcome::Response(response, rate) => host.on_response(response, *rate, now),
            CallOutcome::Connected => host.on_success(),
            CallOutcome::Failure(error) => {
                host.last_failure = text::truncate(&error.message, MAX_CAUSE).into_owned();
                host.on_failure(now);
            }
        }
    }

    /// Returns the health of all hosts, sorted by host and connection.
    pub(super) fn health(&self) -> Vec<HostHealth> {
        let hosts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<HostHealth> = hosts.values().map(|host| host.health.clone()).collect();
        all.sort_by(|one, other| (&one.host, &one.connection).cmp(&(&other.host, &other.connection)));
        all
    }
}

impl HostState {
    fn on_response(&mut self, response: &Response, rate: Option<&RateHeaders>, now: Timestamp) {
        let status = response.status.as_u16();
        self.health.status = Some(status);
        self.health.rate_limit = RateLimit::from_response(response, rate).or(self.health.rate_limit.take());
        let retry_after = failure::retry_after(response, now);
        self.has_retry_after = retry_after.is_some();
        let window = rate.and_then(|rate| rate.window(response, now)).filter(|_| retry_after.is_none());
        let wait = match (status, retry_after.or(window)) {
            (429 | 503, Some(wait)) => Some(wait.min(RetryPolicy::MAX_RETRY_AFTER)),
            (429, None) => {
                let wait = INITIAL_BACKOFF.saturating_mul(2_u32.saturating_pow(self.throttle_count));
                self.throttle_count = self.throttle_count.saturating_add(1);
                Some(wait.min(MAX_BACKOFF))
            }
            _ => {
                self.throttle_count = 0;
                window.map(|wait| wait.min(RetryPolicy::MAX_RETRY_AFTER))
            }
        };
        self.health.backoff_until = wait.and_then(|wait| now.checked_add(wait).ok());
        if matches!(status, 502..=504) {
            self.last_failure = format!("it answered {status}");
            return self.on_failure(now);
        }
        self.on_success();
    }

    fn on_success(&mut self) {
        self.last_failure.clear();
        self.health.failures = 0;
        self.health.open_until = None;
        self.open_count = 0;
        self.is_probing = false;
    }

    fn on_failure(&mut self, now: Timestamp) {
        self.health.failures = self.health.failures.saturating_add(1);
        // Failures of calls that began before the circuit opened carry no new information.
        let is_open = self.health.open_until.is_some() && !self.is_probing;
        if self.health.failures < FAILURES_TO_OPEN || is_open {
            return;
        }
        self.is_probing = false;
        let wait = INITIAL_OPEN_TIME.saturating_mul(2_u32.saturating_pow(self.open_count)).min(MAX_OPEN_TIME);
        self.open_count = self.open_count.saturating_add(1);
        self.health.open_until = now.checked_add(wait).ok();
    }
}

impl RateHeaders {
    /// Returns the time until the window ends; `None` while calls are left, or if a header is missing or malformed.
    fn window(&self, response: &Response, now: Timestamp) -> Option<Duration> {
        let remaining: f64 = response.header(&self.remaining)?.trim().parse().ok()?;
        if remaining >= 1.0 {
            return None;
        }
        let text = response.header(&self.reset)?.trim();
        let until = |at: Timestamp| Duration::try_from(at.duration_since(now)).unwrap_or_default();
        let wait = match self.unit {
            RateUnit::Seconds => Duration::try_from_secs_f64(text.parse().ok()?).ok()?,
            RateUnit::Milliseconds => Duration::from_millis(text.parse().ok()?),
            RateUnit::Epoch => until(Timestamp::from_second(text.split('.').next()?.parse().ok()?).ok()?),
            RateUnit::Time => until(text.parse().ok()?),
        };
        Some(wait)
    }
}

impl RateLimit {
    fn from_response(response: &Response, rate: Option<&RateHeaders>) -> Option<Self> {
        let (own_remaining, own_reset) = rate
            .map_or(("x-ratelimit-remaining", "x-ratelimit-reset"), |rate| (&rate.remaining, &rate.reset));
        let first = |names: &[&str]| {
            let text = names.iter().find_map(|name| response.header(name))?;
            Some(response.redactor.redact_excerpt(text, MAX_HEADER).into_owned())
        };
        let found = Self {
            limit: first(&["x-ratelimit-limit", "ratelimit-limit"]),
            remaining: first(&[own_remaining, "ratelimit-remaining"]),
            reset: first(&[own_reset, "ratelimit-reset"]),
            reason: first(&["ratelimit-reason"]),
        };
        (found != Self::default()).then_some(found)
    }
}

fn key(url: &Url, connection: Option<&str>) -> (String, String) {
    (origin(url), connection.unwrap_or_default().to_owned())
}

fn remaining(until: Timestamp, now: Timestamp) -> Option<Duration> {
    Duration::try_from(until.duration_since(now)).ok().filter(|wait| !wait.is_zero())
}

/// An instant for a message, to the second at or after it.
fn whole_second(at: Timestamp) -> Timestamp {
    let up = jiff::TimestampRound::new().smallest(jiff::Unit::Second).mode(jiff::RoundMode::Ceil);
    at.round(up).unwrap_or(at)
}

/// The error of a call during a back-off that is too long to wait out.
fn backoff_error(subject: &str, wait: Duration, until: Timestamp) -> ActionError {
    let message =
        format!("{subject} is not called until {}: it asked not to be called before", whole_second(until));
    let mut error = ActionError::new(ErrorKind::Status, message).with_status(429).with_retry_after(wait);
    error.not_sent = true;
    error
}

/// The error of a call that the open circuit refuses, with the cause: the last failure. It names the instant of the next call,
/// since people read it when a duration would no longer be true.
fn circuit_open_error(
    subject: &str,
    url: &Url,
    host: &HostState,
    (wait, until): (Duration, Timestamp),
) -> ActionError {
    let name = url.host_str().unwrap_or_default();
    let target = transport_failure::describe_target(subject, name, name);
    let HostState { health: HostHealth { failures, .. }, last_failure, .. } = host;
    let message = format!(
        "{target} is not called until {}: the last {failures} calls failed; the last one: {last_failure}",
        whole_second(until)
    );
    let mut error = ActionError::new(ErrorKind::Network, message).with_retry_after(wait);
    error.not_sent = true;
    error
}

#[cfg(test)]
mod tests {
    use ::http::{HeaderValue, StatusCode};
    use bytes::Bytes;
    use pretty_assertions::assert_eq;

    use super::*;

    fn url() -> Url {
        Url::parse("https://shop.example/a").expect("a URL")
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).expect("an instant")
    }

    fn answer(status: u16, headers: &[(&'static str, &'static str)]) -> Response {
        let headers = headers
            .iter()
            .map(|(name, value)| (name.parse().expect("a name"), HeaderValue::from_static(value)));
        let status = StatusCode::from_u16(status).expect("a status");
        Response {
            status,
            headers: headers.collect(),
            body: Bytes::new(),
            url: url(),
            redactor: value::redact::Redactor::default(),
            parsed: None,
        }
    }

    fn refused() -> ActionError {
        ActionError::new(ErrorKind::Network, "`shop.example` cannot be reached: connection refused")
    }

    fn note(hosts: &HostTable, seconds: i64, response: &Response) {
        hosts.record(&url(), Some("main"), &CallOutcome::Response(response, None), at(seconds));
    }

    fn admit(hosts: &HostTable, seconds: i64) -> Result<u64, String> {
        let admitted = hosts.admit(&url(), Some("main"), "the shop", HostPolicy::Full, at(seconds));
        admitted.map(|wait| wait.as_secs()).map_err(ActionError::into_message)
    }

    #[test]
    fn a_host_is_not_called_before_its_retry_after() {
        let hosts = HostTable::default();
        note(&hosts, 0, &answer(429, &[("retry-after", "60")]));
        let expected = "the shop is not called until 1970-01-01T00:01:00Z: it asked not to be called before";
        assert_eq!(admit(&hosts, 10), Err(expected.to_owned()));
        assert_eq!(admit(&hosts, 57), Ok(3), "a short wait is waited for");
        assert_eq!(admit(&hosts, 60), Ok(0));
        let other = hosts.admit(&url(), Some("other"), "the shop", HostPolicy::Full, at(10));
        assert_eq!(other.expect("limits go by connection"), Duration::ZERO);
        let error =
            hosts.admit(&url(), Some("main"), "the shop", HostPolicy::Full, at(10)).expect_err("held");
        assert_eq!((error.status, error.retry_after_ms), (Some(429), Some(50_000)));
    }

    #[test]
    fn configured_retries_obey_retry_after_but_not_the_circuit_breaker() {
        let own = |hosts: &HostTable, seconds| {
            let admitted =
                hosts.admit(&url(), Some("main"), "the shop", HostPolicy::RetryAfterOnly, at(seconds));
            admitted.map_err(|error| (error.not_sent, error.retry_after_ms))
        };
        let hosts = HostTable::default();
        note(&hosts, 0, &answer(429, &[]));
        assert_eq!(own(&hosts, 0), Ok(Duration::ZERO), "it said no time");
        note(&hosts, 0, &answer(429, &[("retry-after", "3")]));
        assert_eq!(own(&hosts, 0), Err((true, Some(3_000))));
        assert_eq!(own(&hosts, 3), Ok(Duration::ZERO));
        for _ in 0..2 * FAILURES_TO_OPEN {
            hosts.record(&url(), Some("main"), &CallOutcome::Failure(&refused()), at(3));
        }
        assert!(admit(&hosts, 3).is_err(), "the circuit is open for others");
        assert_eq!(own(&hosts, 3), Ok(Duration::ZERO));
    }

    #[test]
    fn a_429_without_retry_after_backs_off_exponentially() {
        let hosts = HostTable::default();
        let waits = [0, 100, 200, 300, 400, 500].map(|seconds| {
            note(&hosts, seconds, &answer(429, &[]));
            let backoff = hosts.health()[0].backoff_until.expect("held");
            backoff.duration_since(at(seconds)).as_secs()
        });
        assert_eq!(waits, [1, 2, 4, 8, 16, 30]);
        note(&hosts, 600, &answer(200, &[]));
        assert_eq!(hosts.health()[0].backoff_until, None);
    }

    #[test]
    fn an_open_circuit_lets_single_probes_through() {
        let hosts = HostTable::default();
        for _ in 0..FAILURES_TO_OPEN {
            assert_eq!(admit(&hosts, 0), Ok(0));
            hosts.record(&url(), Some("main"), &CallOutcome::Failure(&refused()), at(0));
        }
        // Failures of calls that began before the circuit opened have no effect.
        hosts.record(&url(), Some("main"), &CallOutcome::Failure(&refused()), at(1));
        let expected = "the shop at `shop.example` is not called until 1970-01-01T00:00:30Z: the last 21 calls failed; the last one: `shop.example` cannot be reached: connection refused";
        assert_eq!(admit(&hosts, 10), Err(expected.to_owned()));
        assert_eq!(admit(&hosts, 30), Ok(0), "one is let through");
        assert!(admit(&hosts, 31).is_err(), "and one alone");
        hosts.record(&url(), Some("main"), &CallOutcome::Failure(&refused()), at(31));
        assert!(admit(&hosts, 90).is_err(), "twice as long after it failed");
        assert_eq!(admit(&hosts, 91), Ok(0));
        note(&hosts, 91, &answer(404, &[]));
        assert_eq!(admit(&hosts, 91), Ok(0), "any answer closes the circuit");
        assert_eq!(hosts.health()[0].failures, 0);
    }

    #[test]
    fn rate_limit_headers_of_a_host_are_recorded() {
        let hosts = HostTable::default();
        let headers = [
            ("x-ratelimit-limit", "100"),
            ("x-ratelimit-remaining", "3"),
            ("x-ratelimit-reset", "2026-11-21T10:00:00Z"),
        ];
        note(&hosts, 5, &answer(200, &headers));
        note(&hosts, 6, &answer(200, &[]));
        let health = serde_json::to_value(&hosts.health()[0]).expect("JSON");
        let expected = serde_json::json!({
            "host": "https://shop.example", "connection": "main", "calledAt": "1970-01-01T00:00:06Z", "status": 200,
            "failures": 0, "rateLimit": {"limit": "100", "remaining": "3", "reset": "2026-11-21T10:00:00Z"}
        });
        assert_eq!(health, expected);
    }

    #[test]
    fn the_number_of_tracked_hosts_is_bounded() {
        let hosts = HostTable::default();
        for number in 0..2 * i64::try_from(MAX_HOSTS).expect("small") {
            let url = Url::parse(&format!("https://h{number}.example/")).expect("a URL");
            hosts.record(&url, None, &CallOutcome::Failure(&refused()), at(number));
        }
        assert_eq!(hosts.health().len(), MAX_HOSTS);
    }

    #[test]
    fn rate_limit_texts_are_redacted_before_they_are_truncated() {
        let redactor = value::redact::Redactor::default();
        redactor.add_secret("canary-0042-lantern");
        for before in 58..=82 {
            let mut response = answer(200, &[]);
            response.redactor = redactor.clone();
            let text = format!("{}canary-0042-lantern{}", "q".repeat(before), "z".repeat(40));
            response.headers.insert("ratelimit-reason", text.parse().expect("a value"));
            let hosts = HostTable::default();
            note(&hosts, 0, &response);
            let limit = hosts.health()[0].rate_limit.clone().expect("it says some");
            let reason = limit.reason.expect("a reason");
            assert!(!reason.contains("can") && reason.ends_with('…'), "{before}: {reason}");
        }
    }
}
