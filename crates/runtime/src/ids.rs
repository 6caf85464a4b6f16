//! The ids of executions, in the order of acceptance.

use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use model::ExecutionId;

use crate::random::RandomPool;

/// Makes the ids of executions.
#[derive(Default)]
pub struct Ids(Mutex<Sequence>);

/// The part of an execution id that orders ids of the same millisecond.
#[derive(Default)]
struct Sequence {
    /// The millisecond of the last id, and the number of ids before it in that millisecond.
    last_millisecond: i64,
    sequence: u16,
    random: RandomPool,
    /// The bits behind the sequence in a simulation, which are counted up; `None` for random ones.
    counted: Option<u64>,
}

impl Ids {
    /// Makes ids with random bits; in a simulation with bits that are counted up from `first`.
    pub(crate) fn new(first: Option<u64>) -> Self {
        Self(Mutex::new(Sequence { counted: first, ..Sequence::default() }))
    }

    /// Creates the id of an execution that is accepted now. Ids of one millisecond differ by a count in the bits behind
    /// the time (RFC 9562, 6.2), so that they sort in the order of acceptance.
    pub fn next(&self, now: Timestamp) -> ExecutionId {
        let millisecond = now.as_millisecond();
        let mut ids = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bits = ids.random.next::<10>();
        ids.sequence = if ids.last_millisecond == millisecond { ids.sequence.wrapping_add(1) } else { 0 };
        ids.last_millisecond = millisecond;
        bits[..2].copy_from_slice(&(ids.sequence & 0x0fff).to_be_bytes());
        if let Some(counted) = &mut ids.counted {
            *counted += 1;
            bits[2..].copy_from_slice(&counted.to_be_bytes());
        }
        ExecutionId::new(now, bits)
    }
}
