//! A retry policy: a value that yields delays. Whether to retry is asked of the error.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::action::{ActionError, ErrorKind};

/// How often, how long apart and on what a failed step is tried again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RetryPolicy {
    /// The tries after the first; 0 is none.
    pub max: u32,
    /// The wait before the first retry.
    pub delay: Duration,
    /// What each further wait is multiplied by; 1 keeps it the same.
    pub backoff: f64,
    /// No wait is longer than this.
    pub max_delay: Duration,
    /// Which errors are tried again.
    pub on: Vec<RetryOn>,
}

/// A class of errors that a policy retries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RetryOn {
    /// No answer came: refused, reset, timed out.
    Network,
    /// An answer of 500 to 599.
    #[serde(rename = "5xx")]
    ServerError,
    /// An answer of 429.
    #[serde(rename = "429")]
    TooManyRequests,
    /// Every error.
    All,
}

impl Default for RetryPolicy {
    /// No retry.
    fn default() -> Self {
        Self::none()
    }
}

impl RetryPolicy {
    /// The longest that a `Retry-After` of the other side is obeyed (threat model 4.4).
    pub const MAX_RETRY_AFTER: Duration = Duration::from_secs(3600);

    /// No retry.
    #[must_use]
    pub fn none() -> Self {
        Self::times(0)
    }

    /// `max` retries with the defaults of the language: 1 s, doubling, at most 60 s, on network errors, 5xx and 429.
    #[must_use]
    pub fn times(max: u32) -> Self {
        Self {
            max,
            delay: Duration::from_secs(1),
            backoff: 2.0,
            max_delay: Duration::from_secs(60),
            on: vec![RetryOn::Network, RetryOn::ServerError, RetryOn::TooManyRequests],
        }
    }

    /// The wait before the next try after `tries` tries have failed, or `None` to give up. A `Retry-After` of the
    /// error is the least wait; without one the policy's delay grows by its factor up to its cap.
    #[must_use]
    pub fn next_delay(&self, tries: u32, error: &ActionError) -> Option<Duration> {
        if tries > self.max || !self.covers(error) {
            return None;
        }
        let growth = self.backoff.powi(i32::try_from(tries.saturating_sub(1)).unwrap_or(i32::MAX));
        let grown = self.delay.as_secs_f64() * growth;
        let capped = if grown.is_finite() {
            grown.min(self.max_delay.as_secs_f64())
        } else {
            self.max_delay.as_secs_f64()
        };
        let wait = Duration::try_from_secs_f64(capped.max(0.0)).unwrap_or(self.max_delay);
        Some(wait.max(error.retry_after().unwrap_or_default().min(Self::MAX_RETRY_AFTER)))
    }

    fn covers(&self, error: &ActionError) -> bool {
        self.on.iter().any(|class| match class {
            RetryOn::All => true,
            RetryOn::Network => matches!(error.kind, ErrorKind::Network | ErrorKind::Timeout),
            RetryOn::ServerError => error.status.is_some_and(|status| (500..600).contains(&status)),
            RetryOn::TooManyRequests => error.status == Some(429),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(status: u16) -> ActionError {
        ActionError::new(ErrorKind::Status, "failed").with_status(status)
    }

    #[test]
    fn delays_double_up_to_the_cap_and_end_after_max() {
        let policy = RetryPolicy { max: 4, max_delay: Duration::from_secs(5), ..RetryPolicy::times(4) };
        let delays: Vec<_> =
            (1..=5).map(|tries| policy.next_delay(tries, &failed(503)).map(|d| d.as_secs())).collect();
        assert_eq!(delays, [Some(1), Some(2), Some(4), Some(5), None]);
    }

    #[test]
    fn only_the_errors_named_are_retried() {
        let policy = RetryPolicy::times(1);
        assert!(policy.next_delay(1, &failed(500)).is_some());
        assert!(policy.next_delay(1, &failed(429)).is_some());
        assert!(policy.next_delay(1, &failed(404)).is_none());
        assert!(policy.next_delay(1, &ActionError::new(ErrorKind::Network, "reset")).is_some());
        let all = RetryPolicy { on: vec![RetryOn::All], ..RetryPolicy::times(1) };
        assert!(all.next_delay(1, &failed(404)).is_some());
    }

    #[test]
    fn retry_after_is_the_least_wait_but_never_over_an_hour() {
        let error = failed(429).with_retry_after(Duration::from_secs(7));
        assert_eq!(RetryPolicy::times(1).next_delay(1, &error), Some(Duration::from_secs(7)));
        let error = failed(429).with_retry_after(Duration::from_secs(90_000));
        assert_eq!(RetryPolicy::times(1).next_delay(1, &error), Some(RetryPolicy::MAX_RETRY_AFTER));
    }

    #[test]
    fn a_wild_factor_never_overflows() {
        let policy = RetryPolicy { max: u32::MAX, backoff: 1e300, ..RetryPolicy::times(0) };
        assert_eq!(policy.next_delay(u32::MAX, &failed(500)), Some(policy.max_delay));
    }
}
