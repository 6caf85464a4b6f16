//! What is left to chance.

/// Random bytes.
pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    fill(&mut bytes);
    bytes
}

/// Random bytes of the system, drawn many at a time: a call of it costs as much as a small step.
pub(crate) struct Drawn {
    bytes: [u8; Self::MANY],
    taken: usize,
}

impl Drawn {
    const MANY: usize = 640;

    /// The next ones. Nobody gets them again.
    pub(crate) fn next<const N: usize>(&mut self) -> [u8; N] {
        const { assert!(N <= Self::MANY, "more than are drawn at one time") };
        if self.taken + N > Self::MANY {
            fill(&mut self.bytes);
            self.taken = 0;
        }
        let mut next = [0; N];
        next.copy_from_slice(&self.bytes[self.taken..self.taken + N]);
        self.taken += N;
        next
    }
}

impl Default for Drawn {
    fn default() -> Self {
        Self { bytes: [0; Self::MANY], taken: Self::MANY }
    }
}

fn fill(bytes: &mut [u8]) {
    if getrandom::fill(bytes).is_err() {
        // The system's source of randomness never fails once it is seeded; an id stays unique by its time.
        tracing::error!("the system gives no random bytes");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn what_is_drawn_is_given_out_once() {
        let mut drawn = Drawn::default();
        let given: HashSet<[u8; 10]> = (0..1_000).map(|_| drawn.next()).collect();
        assert_eq!(given.len(), 1_000);
    }
}
