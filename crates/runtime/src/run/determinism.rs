//! Deterministic `now()` and `uuid()` for steps: the same values in every attempt and after a restart.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use expression::EvalClock;
use jiff::Timestamp;
use model::execution::ExecutionId;
use uuid::Uuid;

use crate::store_secret::Secret;

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
