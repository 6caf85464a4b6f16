//! What is left to chance.

/// Random bits for an id.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    if getrandom::fill(&mut bytes).is_err() {
        // The system's source of randomness never fails once it is seeded; an id stays unique by its time.
        tracing::error!("the system gives no random bytes");
    }
    bytes
}
