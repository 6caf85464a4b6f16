//! Retry policies: which errors are retried, how often, and after which delay.

use std::time::Duration;

use expression::Expression;
use serde::{Deserialize, Serialize};

use crate::action::{ActionError, ErrorKind};

/// The retry policy of a step or an execution: number of retries, backoff, and the errors that it covers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RetryPolicy {
    /// The number of retries; 0 disables them. The largest allowed one if it is [computed](Self::computed).
    pub max: u32,
    /// The delay before the first retry. Zero if it is [computed](Self::computed).
    pub delay: Duration,
    /// The factor from one delay to the next; 1 keeps the delay constant.
    pub backoff: f64,
    /// The longest delay.
    pub max_delay: Duration,
    /// The classes of errors that are retried.
    pub on: Vec<RetryOn>,
    /// The settings that are computed when the step begins; `None` if all are literal.
    #[serde(skip)]
    pub computed: Option<Box<ComputedRetry>>,
}

/// The computed settings of a retry policy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ComputedRetry {
    /// The number of retries; `None` if it is literal.
    pub max: Option<Expression>,
    /// The delay before the first retry; `None` if it is literal.
    pub delay: Option<Expression>,
    /// True if the policy has a longest delay of its own, which a computed delay must not exceed.
    pub caps_delay: bool,
}

/// A class of errors that a policy retries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RetryOn {
    /// No response: connection refused, reset, or timed out.
    Network,
    /// A response with a status of 500 to 599.
    #[serde(rename = "5xx")]
    ServerError,
    /// A response with the status 429.
    #[serde(rename = "429")]
    TooManyRequests,
    /// Every error.
    All,
}

impl Default for RetryPolicy {
    /// Returns a policy without retries.
    fn default() -> Self {
        Self::none()
    }
}

impl RetryPolicy {
    /// The upper limit for a server's `Retry-After` (threat model 4.4).
    pub const MAX_RETRY_AFTER: Duration = Duration::from_secs(3600);

    /// Creates a policy without retries.
    #[must_use]
    pub fn none() -> Self {
        Self::times(0)
    }

    /// Creates a policy of `max` retries with the language's defaults: 1 s, doubling, at most 60 s, on network errors,
    /// 5xx and 429.
    #[must_use]
    pub fn times(max: u32) -> Self {
        Self {
            max,
            delay: Duration::from_secs(1),
            backoff: 2.0,
            max_delay: Duration::from_secs(60),
            on: vec![RetryOn::Network, RetryOn::ServerError, RetryOn::TooManyRequests],
            computed: None,
        }
    }

    /// Returns the expressions of its computed settings: that of `max`, then that of `delay`.
    pub fn expressions(&self) -> impl Iterator<Item = &Expression> {
        self.computed.iter().flat_map(|computed| [&computed.max, &computed.delay]).flatten()
    }

    /// Returns true if an expression computes the number of retries.
    #[must_use]
    pub fn has_computed_max(&self) -> bool {
        self.computed.as_ref().is_some_and(|computed| computed.max.is_some())
    }

    /// Returns the policy with the values of its computed settings.
    ///
    /// # Errors
    /// Returns a message if the delay is over a longest delay of the policy's own.
    pub fn with_values(&self, max: Option<u32>, delay: Option<Duration>) -> Result<Self, String> {
        let (max, delay) = (max.unwrap_or(self.max), delay.unwrap_or(self.delay));
        let caps_delay = self.computed.as_ref().is_some_and(|computed| computed.caps_delay);
        if caps_delay && delay > self.max_delay {
            let [delay, most] = [delay, self.max_delay].map(text::units::format_duration);
            return Err(format!("`retry.delay` ({delay}) is longer than `retry.maxDelay` ({most})"));
        }
        let max_delay = self.max_delay.max(delay);
        Ok(Self { max, delay, max_delay, computed: None, ..self.clone() })
    }

    /// Returns the delay before the next attempt after `attempts` failed ones; `None` to give up.
    ///
    /// The delay grows by the backoff factor up to `max_delay`. A `Retry-After` of the error is a lower bound.
    #[must_use]
    pub fn next_delay(&self, attempts: u32, error: &ActionError) -> Option<Duration> {
        (attempts <= self.max && self.covers(error)).then(|| self.delay(attempts, error))
    }

    /// Returns the delay after `attempts` failed attempts.
    #[must_use]
    pub fn delay(&self, attempts: u32, error: &ActionError) -> Duration {
        let factor = self.backoff.powi(i32::try_from(attempts.saturating_sub(1)).unwrap_or(i32::MAX));
        let delay = self.delay.as_secs_f64() * factor;
        let capped = if delay.is_finite() {
            delay.min(self.max_delay.as_secs_f64())
        } else {
            self.max_delay.as_secs_f64()
        };
        let delay = Duration::try_from_secs_f64(capped.max(0.0)).unwrap_or(self.max_delay);
        delay.max(error.retry_after().unwrap_or_default().min(Self::MAX_RETRY_AFTER))
    }

    /// Returns true if one of the classes has the error.
    #[must_use]
    pub fn covers(&self, error: &ActionError) -> bool {
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
    fn only_the_configured_errors_are_retried() {
        let policy = RetryPolicy::times(1);
        assert!(policy.next_delay(1, &failed(500)).is_some());
        assert!(policy.next_delay(1, &failed(429)).is_some());
        assert!(policy.next_delay(1, &failed(404)).is_none());
        assert!(policy.next_delay(1, &ActionError::new(ErrorKind::Network, "reset")).is_some());
        let all = RetryPolicy { on: vec![RetryOn::All], ..RetryPolicy::times(1) };
        assert!(all.next_delay(1, &failed(404)).is_some());
    }

    #[test]
    fn retry_after_is_the_minimum_delay_and_capped_at_an_hour() {
        let error = failed(429).with_retry_after(Duration::from_secs(7));
        assert_eq!(RetryPolicy::times(1).next_delay(1, &error), Some(Duration::from_secs(7)));
        let error = failed(429).with_retry_after(Duration::from_secs(90_000));
        assert_eq!(RetryPolicy::times(1).next_delay(1, &error), Some(RetryPolicy::MAX_RETRY_AFTER));
    }

    #[test]
    fn an_extreme_backoff_factor_does_not_overflow() {
        let policy = RetryPolicy { max: u32::MAX, backoff: 1e300, ..RetryPolicy::times(0) };
        assert_eq!(policy.next_delay(u32::MAX, &failed(500)), Some(policy.max_delay));
    }
}
