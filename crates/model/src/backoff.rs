//! The pauses between attempts.

use std::time::Duration;

/// Pauses that double from a first to a longest one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    /// Creates the pauses from `first` to `longest`.
    #[must_use]
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, next: first }
    }

    /// Returns the next pause.
    pub fn pause(&mut self) -> Duration {
        let next = self.next.saturating_mul(2).min(self.longest);
        std::mem::replace(&mut self.next, next)
    }

    /// Returns the next pause without taking it.
    #[must_use]
    pub fn peek(&self) -> Duration {
        self.next
    }

    /// Returns true if no pause was taken since the last success.
    #[must_use]
    pub fn is_fresh(&self) -> bool {
        self.next == self.first
    }

    /// Notes a success: the next pause is the first one again.
    pub fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_up_to_the_maximum_and_resets_after_a_success() {
        let mut backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(2));
        assert!(backoff.is_fresh());
        let pauses: Vec<u128> = (0..5).map(|_| backoff.pause().as_millis()).collect();
        assert_eq!(pauses, [250, 500, 1000, 2000, 2000]);
        assert!(!backoff.is_fresh());
        backoff.reset();
        assert_eq!((backoff.is_fresh(), backoff.peek()), (true, Duration::from_millis(250)));
    }
}
