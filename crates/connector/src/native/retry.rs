//! The retries inside of Raw Request (specification 4.1.5). They are independent of a step's `retry`.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use model::{ActionError, ErrorKind, RetryPolicy};
use value::{Map, Value};

/// The longest wait between two attempts (threat model 4.4).
const MAX_WAIT: Duration = Duration::from_secs(300);

/// The retry policy: the errors to retry and the delays between attempts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Retry {
    max: u32,
    delay: Duration,
    all_errors: bool,
    exponential: bool,
}

impl Retry {
    /// Reads the policy from the inputs.
    pub(super) fn from_inputs(inputs: &Map) -> Self {
        let number =
            |name| inputs.get(name).and_then(Value::as_i64).and_then(|number| u64::try_from(number).ok());
        let flag = |name| inputs.get(name).and_then(Value::as_bool).unwrap_or(false);
        Self {
            max: number("maxRetryCount").and_then(|count| u32::try_from(count).ok()).unwrap_or(0),
            delay: Duration::from_millis(number("retryDelayMs").unwrap_or(0)),
            all_errors: flag("retryOnAllErrors"),
            exponential: flag("useExponentialBackoff"),
        }
    }

    /// True if the policy allows any retry.
    pub(super) fn is_wanted(&self) -> bool {
        self.max > 0
    }

    /// Returns the wait before the next attempt after `tries` failed attempts, the last with `error`; `None` to give
    /// up.
    ///
    /// The exponential delay is 100 ms × 2^tries plus up to 20 % at random. It is never zero and ignores the fixed
    /// delay (wiki-api facts 1.4). A `Retry-After` of the response is the minimum wait.
    pub(super) fn next(&self, tries: u32, error: &ActionError) -> Option<Duration> {
        if tries > self.max || !self.covers(error) {
            return None;
        }
        let wait = if self.exponential {
            let base = Duration::from_millis(100).saturating_mul(2_u32.saturating_pow(tries)).min(MAX_WAIT);
            base + base.mul_f64(0.2 * random_fraction())
        } else {
            self.delay
        };
        Some(wait.max(error.retry_after().unwrap_or_default().min(RetryPolicy::MAX_RETRY_AFTER)))
    }

    /// True if the policy retries this error: network failures and 5xx responses, or all error responses with
    /// `retryOnAllErrors`. Never errors that repeat deterministically: of an input, a connection, or a blocked
    /// address.
    fn covers(&self, error: &ActionError) -> bool {
        match error.kind {
            ErrorKind::Network | ErrorKind::Timeout => true,
            ErrorKind::Status => self.all_errors || error.status.is_some_and(|status| status >= 500),
            ErrorKind::Response => self.all_errors,
            _ => false,
        }
    }
}

/// Returns a random number from 0 to 1, for jitter.
fn random_fraction() -> f64 {
    let random = RandomState::new().build_hasher().finish();
    f64::from(u32::try_from(random >> 32).unwrap_or(0)) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn retry(entries: &[(&str, Value)]) -> Retry {
        Retry::from_inputs(&entries.iter().cloned().collect())
    }

    fn status(status: u16) -> ActionError {
        ActionError::new(ErrorKind::Status, "failed").with_status(status)
    }

    #[test]
    fn without_a_retry_count_nothing_is_retried() {
        assert_eq!(retry(&[("retryOnAllErrors", true.into())]).next(1, &status(500)), None);
    }

    #[test]
    fn only_5xx_and_network_errors_are_retried_unless_all_are_enabled() {
        let some = retry(&[("maxRetryCount", 1_i64.into())]);
        let all = retry(&[("maxRetryCount", 1_i64.into()), ("retryOnAllErrors", true.into())]);
        for code in [500, 502, 503, 599] {
            assert!(some.next(1, &status(code)).is_some(), "{code}");
        }
        for code in [301, 400, 404, 409, 429] {
            assert!(some.next(1, &status(code)).is_none(), "{code}");
            assert!(all.next(1, &status(code)).is_some(), "{code}");
        }
        for kind in [ErrorKind::Network, ErrorKind::Timeout] {
            assert!(some.next(1, &ActionError::new(kind, "x")).is_some());
        }
        for kind in [ErrorKind::Input, ErrorKind::Connection, ErrorKind::Blocked, ErrorKind::Limit] {
            assert!(all.next(1, &ActionError::new(kind, "x")).is_none());
        }
    }

    #[test]
    fn the_fixed_delay_is_the_same_every_time() {
        let retry = retry(&[("maxRetryCount", 3_i64.into()), ("retryDelayMs", 250_i64.into())]);
        let waits: Vec<_> = (1..=4).map(|tries| retry.next(tries, &status(500))).collect();
        let wait = Some(Duration::from_millis(250));
        assert_eq!(waits, [wait, wait, wait, None]);
    }

    #[test]
    fn the_exponential_wait_doubles_from_200_ms_and_is_never_zero() {
        let retry = retry(&[
            ("maxRetryCount", 40_i64.into()),
            ("retryDelayMs", 0_i64.into()),
            ("useExponentialBackoff", true.into()),
        ]);
        for (tries, least) in [(1, 200), (2, 400), (3, 800), (12, 300_000), (40, 300_000)] {
            let wait = retry.next(tries, &status(500)).expect("a retry");
            let least = Duration::from_millis(least);
            assert!(wait >= least && wait <= least.mul_f64(1.2), "{tries}: {wait:?}");
        }
    }

    #[test]
    fn retry_after_is_a_minimum_delay() {
        let retry = retry(&[("maxRetryCount", 1_i64.into()), ("retryDelayMs", 5_000_i64.into())]);
        let asks = |seconds| status(503).with_retry_after(Duration::from_secs(seconds));
        assert_eq!(retry.next(1, &asks(9)), Some(Duration::from_secs(9)));
        assert_eq!(retry.next(1, &asks(2)), Some(Duration::from_secs(5)));
        assert_eq!(retry.next(1, &asks(90_000)), Some(Duration::from_secs(3_600)));
    }
}
