//! The budget of requests per credential.

use std::collections::HashMap;
use std::time::Duration;

use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::clock::Moment;
use super::reply::Reply;

/// The most credentials that are counted apart.
const MOST_CREDENTIALS: usize = 10_000;

/// How `Retry-After` is written on a 429.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RetryAfter {
    /// Whole seconds, as the vendor documents.
    #[default]
    Seconds,
    /// An HTTP date.
    Date,
    /// Not at all, which happens.
    Absent,
}

/// A budget of requests in a window of time, for each credential on its own.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RateLimit {
    /// How many requests.
    pub requests: u32,
    /// In how long, in milliseconds. The window begins with its first request.
    pub window_ms: u64,
    /// How `Retry-After` is written.
    #[serde(default)]
    pub retry_after: RetryAfter,
    /// `RateLimit-Reason` on a 429.
    #[serde(default = "burst")]
    pub reason: String,
}

fn burst() -> String {
    "wiki-burst-based".to_owned()
}

impl RateLimit {
    /// A burst limit of so many requests in a window.
    pub fn new(requests: u32, window: Duration) -> Self {
        let window_ms = u64::try_from(window.as_millis()).unwrap_or(u64::MAX);
        Self { requests, window_ms, retry_after: RetryAfter::Seconds, reason: burst() }
    }

    /// Sets how `Retry-After` is written.
    #[must_use]
    pub fn retry_after(self, retry_after: RetryAfter) -> Self {
        Self { retry_after, ..self }
    }

    fn window(&self) -> Duration {
        Duration::from_millis(self.window_ms.max(1))
    }
}

#[derive(Debug)]
struct Count {
    ends_at: Moment,
    used: u32,
    /// Set by a 429: until when every call is refused, and the wait that was announced.
    blocked: Option<(Moment, Duration)>,
}

/// The counts of all credentials.
#[derive(Debug, Default)]
pub(super) struct Limits {
    pub(super) limit: Option<RateLimit>,
    counts: HashMap<String, Count>,
}

/// The remaining allowance of a call.
#[derive(Debug, PartialEq)]
pub(super) enum Verdict {
    /// No limit is set.
    Free,
    /// Within the budget: so many are left until then.
    Within { limit: u32, left: u32, reset: Moment },
    /// Over it: wait this long.
    Over { limit: u32, reset: Moment, wait: Duration },
}

impl Limits {
    /// Sets or lifts the budget, and forgets what was counted.
    pub(super) fn set(&mut self, limit: Option<RateLimit>) {
        self.limit = limit;
        self.counts.clear();
    }

    /// Counts one call of a credential.
    pub(super) fn count(&mut self, credential: &str, now: Moment) -> Verdict {
        let Some(limit) = &self.limit else { return Verdict::Free };
        if self.counts.len() >= MOST_CREDENTIALS && !self.counts.contains_key(credential) {
            self.counts.clear();
        }
        let ends_at = now.plus(limit.window());
        let count =
            self.counts.entry(credential.to_owned()).or_insert(Count { ends_at, used: 0, blocked: None });
        if let Some((until, wait)) = count.blocked.filter(|(until, _)| now < *until) {
            // Asking again too early costs the same wait once more.
            let reset = until.max(now.plus(wait));
            count.blocked = Some((reset, wait));
            return Verdict::Over { limit: limit.requests, reset, wait };
        }
        if now >= count.ends_at || count.blocked.is_some() {
            *count = Count { ends_at, used: 0, blocked: None };
        }
        if count.used < limit.requests {
            count.used += 1;
            let left = limit.requests - count.used;
            return Verdict::Within { limit: limit.requests, left, reset: count.ends_at };
        }
        let left_ms = u64::try_from(count.ends_at.millis() - now.millis()).unwrap_or(0);
        // Retry-After has whole seconds, so the wait is rounded up to what it says.
        let wait = Duration::from_secs(left_ms.div_ceil(1_000).max(1));
        let reset = now.plus(wait);
        count.blocked = Some((reset, wait));
        Verdict::Over { limit: limit.requests, reset, wait }
    }

    /// The 429 of a verdict that is over the budget.
    pub(super) fn refusal(&self, verdict: &Verdict) -> Option<Reply> {
        let (Verdict::Over { reset, wait, .. }, Some(limit)) = (verdict, &self.limit) else { return None };
        let body = json!({"code": 429, "message": "Too many requests"});
        let mut reply = Reply::json(StatusCode::TOO_MANY_REQUESTS, &body);
        match limit.retry_after {
            RetryAfter::Seconds => reply.set("retry-after", &wait.as_secs().to_string()),
            RetryAfter::Date => reply.set("retry-after", &reset.http_date()),
            RetryAfter::Absent => {}
        }
        reply.set("ratelimit-reason", &limit.reason);
        verdict.dress(&mut reply);
        Some(reply)
    }
}

impl Verdict {
    /// Adds the headers that tell what is left.
    pub(super) fn dress(&self, reply: &mut Reply) {
        let (limit, left, reset) = match self {
            Self::Free => return,
            Self::Within { limit, left, reset } => (*limit, *left, *reset),
            Self::Over { limit, reset, .. } => (*limit, 0, *reset),
        };
        reply.set("x-ratelimit-limit", &limit.to_string());
        reply.set("x-ratelimit-remaining", &left.to_string());
        // A date in words, not seconds since the epoch.
        reply.set("x-ratelimit-reset", &reset.to_string());
        let near = u64::from(left) * 5 < u64::from(limit);
        reply.set("x-ratelimit-nearlimit", if near { "true" } else { "false" });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Moment {
        Moment::from_millis(seconds * 1_000)
    }

    fn limits() -> Limits {
        Limits { limit: Some(RateLimit::new(2, Duration::from_secs(10))), ..Limits::default() }
    }

    fn wait(verdict: &Verdict) -> Option<u64> {
        match verdict {
            Verdict::Over { wait, .. } => Some(wait.as_secs()),
            _ => None,
        }
    }

    #[test]
    fn the_budget_comes_back_with_the_next_window() {
        let mut limits = limits();
        assert_eq!(limits.count("a", at(0)), Verdict::Within { limit: 2, left: 1, reset: at(10) });
        assert_eq!(limits.count("a", at(1)), Verdict::Within { limit: 2, left: 0, reset: at(10) });
        assert_eq!(wait(&limits.count("a", at(2))), Some(8));
        assert_eq!(limits.count("a", at(10)), Verdict::Within { limit: 2, left: 1, reset: at(20) });
    }

    #[test]
    fn asking_before_the_wait_is_over_starts_it_anew() {
        let mut limits = limits();
        limits.count("a", at(0));
        limits.count("a", at(0));
        assert_eq!(wait(&limits.count("a", at(4))), Some(6));
        assert_eq!(wait(&limits.count("a", at(9))), Some(6));
        assert_eq!(wait(&limits.count("a", at(14))), Some(6));
        assert!(matches!(limits.count("a", at(20)), Verdict::Within { left: 1, .. }));
    }

    #[test]
    fn each_credential_has_its_own_budget() {
        let mut limits = limits();
        for _ in 0..3 {
            limits.count("a", at(0));
        }
        assert!(matches!(limits.count("b", at(0)), Verdict::Within { left: 1, .. }));
    }
}
