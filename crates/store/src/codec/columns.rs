//! Encoding of single columns: statuses, times, keys, and the beginnings of ids.

use jiff::Timestamp;
use model::Status;
use sha2::{Digest as _, Sha256};

/// Maximum number of bytes of a key that is stored as it is on a server, whose indexes take no long ones.
const MAX_KEY_BYTES: usize = 1024;

/// Returns the number of a status in the tables.
pub fn status_code(status: Status) -> i64 {
    match status {
        Status::Queued => 0,
        Status::Running => 1,
        Status::Succeeded => 2,
        Status::Failed => 3,
        Status::Cancelled => 4,
        Status::Stuck => 5,
        Status::Waiting => 6,
    }
}

/// Returns the status with this number in the tables.
pub fn status_of(code: i64) -> Option<Status> {
    Status::ALL.into_iter().find(|status| status_code(*status) == code)
}

/// Converts to nanoseconds since the epoch. Times before 1677 or after 2262 become the ends of that range.
pub fn to_ns(at: Timestamp) -> i64 {
    let ns = at.as_nanosecond();
    i64::try_from(ns).unwrap_or(if ns < 0 { i64::MIN } else { i64::MAX })
}

/// Returns the first six bytes of every id of this millisecond. They sort before all these ids.
pub fn id_prefix(millisecond: i64) -> [u8; 6] {
    const LAST: u64 = (1 << 48) - 1;
    let bytes = u64::try_from(millisecond).unwrap_or_default().min(LAST).to_be_bytes();
    [bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7]]
}

/// Returns the form of a key on a server: a long one is its hash. No text begins with the byte 0xff.
pub fn key_name(key: &str) -> Vec<u8> {
    if key.len() <= MAX_KEY_BYTES {
        return key.as_bytes().to_vec();
    }
    [&[0xff][..], &Sha256::digest(key.as_bytes())[..]].concat()
}

#[cfg(test)]
mod tests {
    use model::ExecutionId;

    use super::*;

    #[test]
    fn every_status_round_trips_through_its_code() {
        for status in Status::ALL {
            assert_eq!(status_of(status_code(status)), Some(status));
        }
        assert_eq!(status_of(7), None);
    }

    #[test]
    fn an_id_prefix_sorts_before_ids_of_its_millisecond_and_after_earlier_ones() {
        let at = Timestamp::from_millisecond(1_700_000_000_123).expect("a time");
        let before = Timestamp::from_millisecond(1_700_000_000_122).expect("a time");
        let prefix = id_prefix(at.as_millisecond());
        assert!(prefix.as_slice() < ExecutionId::new(at, [0; 10]).as_bytes().as_slice());
        assert!(prefix.as_slice() > ExecutionId::new(before, [0xff; 10]).as_bytes().as_slice());
        assert_eq!(id_prefix(-5), [0; 6]);
    }
}
