//! Deterministic `now()` and `uuid()` for steps: the same values in every attempt and after a restart.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use expression::EvalClock;
use hmac::{Hmac, KeyInit as _, Mac as _};
use jiff::Timestamp;
use model::execution::ExecutionId;
use sha2::Sha256;
use uuid::Uuid;

/// A random key in the store, from which stable and unguessable values are derived.
#[derive(Clone)]
pub struct Secret([u8; 32]);

impl std::fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("***")
    }
}

impl Secret {
    /// A secret with this key.
    #[must_use]
    pub fn new(key: [u8; 32]) -> Self {
        Self(key)
    }

    /// Derives 16 bytes from these parts with HMAC.
    pub fn derive(&self, parts: &[&[u8]]) -> [u8; 16] {
        let mut derived = [0; 16];
        // HMAC accepts keys of any length.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.0) else { return derived };
        for part in parts {
            mac.update(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            mac.update(part);
        }
        derived.copy_from_slice(&mac.finalize().into_bytes()[..16]);
        derived
    }
}

/// Clock and randomness of a step.
pub(crate) struct StepClock {
    secret: Secret,
    execution: ExecutionId,
    step: String,
    at: Timestamp,
    uuids: AtomicU32,
}

impl StepClock {
    pub(super) fn new(secret: Secret, execution: ExecutionId, step: &str, at: Timestamp) -> Arc<Self> {
        Arc::new(Self { secret, execution, step: step.to_owned(), at, uuids: AtomicU32::new(0) })
    }
}

impl EvalClock for StepClock {
    fn now(&self) -> Timestamp {
        self.at
    }

    fn uuid(&self) -> Uuid {
        // Derived from the call's index within the step: calls get different values, which are the same in a
        // repetition.
        let number = self.uuids.fetch_add(1, Ordering::Relaxed);
        let execution = self.execution.as_bytes();
        let derived = self.secret.derive(&[b"uuid", execution, self.step.as_bytes(), &number.to_be_bytes()]);
        uuid::Builder::from_random_bytes(derived).into_uuid()
    }

    fn uuids_drawn(&self) -> u32 {
        self.uuids.load(Ordering::Relaxed)
    }

    fn reset_uuids(&self, drawn: u32) {
        self.uuids.store(drawn, Ordering::Relaxed);
    }
}
