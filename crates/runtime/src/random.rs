//! Random bytes from the operating system.

/// A pool of random bytes for ids, filled many at a time, because one system call costs as much as a small step.
pub(crate) struct RandomPool {
    bytes: [u8; Self::SIZE],
    /// The number of bytes that have been handed out.
    taken: usize,
}

impl RandomPool {
    const SIZE: usize = 640;

    /// Takes bytes out of the pool; each byte is used once.
    pub(crate) fn next<const N: usize>(&mut self) -> [u8; N] {
        const { assert!(N <= Self::SIZE, "more than the pool holds") };
        if self.taken + N > Self::SIZE {
            if let Err(error) = getrandom::fill(&mut self.bytes) {
                // It does not fail once it is seeded; without it, ids still differ by their time and sequence.
                tracing::error!(%error, "the system provides no random bytes");
            }
            self.taken = 0;
        }
        let mut next = [0; N];
        next.copy_from_slice(&self.bytes[self.taken..self.taken + N]);
        self.taken += N;
        next
    }
}

impl Default for RandomPool {
    fn default() -> Self {
        Self { bytes: [0; Self::SIZE], taken: Self::SIZE }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_random_byte_is_used_once() {
        let mut drawn = RandomPool::default();
        let given: HashSet<[u8; 10]> = (0..1_000).map(|_| drawn.next()).collect();
        assert_eq!(given.len(), 1_000);
    }
}
