//! The source of time and randomness of an evaluation, for `now()` and `uuid()`.

use jiff::Timestamp;
use uuid::Uuid;

/// Time and UUIDs for an evaluation. The implementation must return the same values when a step is evaluated again.
pub trait EvalClock: Send + Sync + 'static {
    /// The current time.
    fn now(&self) -> Timestamp;

    /// Draws the next UUID.
    fn uuid(&self) -> Uuid;

    /// The number of UUIDs drawn so far.
    fn uuids_drawn(&self) -> u32;

    /// Resets the sequence to `drawn` UUIDs, for an evaluation that starts again.
    fn reset_uuids(&self, drawn: u32);
}
