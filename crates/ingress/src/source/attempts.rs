//! Messages that could not start an execution: the number of attempts with each, and the pause before the next one.

use std::collections::HashMap;
use std::time::Duration;

use model::Backoff;

/// The pauses between the attempts.
const PAUSES: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));
/// The largest number of messages whose attempts are counted. Beyond it all counts begin again.
const MAX_COUNTED: usize = 10_000;

/// The attempts with messages, by their key. They are lost with the process, and begin again.
#[derive(Default)]
pub(super) struct Attempts(HashMap<[u8; 32], (u32, Backoff)>);

impl Attempts {
    /// Counts a failed attempt. Returns the pause before the next one; `None` if it was the last of `max`.
    pub(super) fn failed(&mut self, key: [u8; 32], max: u32) -> Option<Duration> {
        if self.0.len() >= MAX_COUNTED && !self.0.contains_key(&key) {
            self.0.clear();
        }
        let (count, pauses) = self.0.entry(key).or_insert((0, PAUSES));
        *count = count.saturating_add(1);
        (*count < max).then(|| pauses.pause())
    }

    /// Forgets a message that is settled.
    pub(super) fn settled(&mut self, key: &[u8; 32]) {
        self.0.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_with_a_message_are_counted_and_further_and_further_apart() {
        let mut attempts = Attempts::default();
        let pauses: Vec<_> =
            (0..3).map(|_| attempts.failed([1; 32], 3).map(|pause| pause.as_secs())).collect();
        assert_eq!(pauses, [Some(1), Some(2), None]);
        assert_eq!(attempts.failed([2; 32], 1), None);
        attempts.settled(&[1; 32]);
        assert_eq!(attempts.failed([1; 32], 3), Some(Duration::from_secs(1)));
    }
}
