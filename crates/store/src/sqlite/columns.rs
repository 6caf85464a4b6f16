//! Encoding of single columns: statuses, shelves, times, and the beginnings of ids.

use jiff::Timestamp;
use model::Status;

/// The shelves of waiting executions without and with a concurrency permit. No terminal status has these numbers.
const WAITING_SHELF: i64 = 6;
const HOLDING_SHELF: i64 = 7;

/// The number added to the shelf of a test.
const TEST_SHELF: i64 = 8;

/// The shelf of queued executions.
const QUEUE_SHELF: i64 = 16;

/// Returns the number of a status in the tables.
pub(super) fn status_code(status: Status) -> i64 {
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
pub(super) fn status_of(code: i64) -> Option<Status> {
    Status::ALL.into_iter().find(|status| status_code(*status) == code)
}

/// Returns the value of the column `shelf`, which groups executions for lists. `holds` is true if the execution keeps its
/// concurrency permit while it waits.
pub(super) fn shelf(status: Status, holds: bool, test: bool) -> i64 {
    let base = match status {
        Status::Queued => QUEUE_SHELF,
        Status::Running => 0,
        Status::Waiting => {
            if holds {
                HOLDING_SHELF
            } else {
                WAITING_SHELF
            }
        }
        Status::Succeeded | Status::Failed | Status::Cancelled | Status::Stuck => status_code(status),
    };
    if test { base + TEST_SHELF } else { base }
}

/// The shelves of executions that have not ended, as a list in SQL.
pub(super) const OPEN_SHELVES: &str = "(0, 6, 7, 8, 14, 15, 16, 24)";

/// Converts to nanoseconds since the epoch. Times before 1677 or after 2262 become the ends of that range.
pub(super) fn to_ns(at: Timestamp) -> i64 {
    let ns = at.as_nanosecond();
    i64::try_from(ns).unwrap_or(if ns < 0 { i64::MIN } else { i64::MAX })
}

/// Returns the first six bytes of every id of this millisecond. They sort before all these ids.
pub(super) fn id_prefix(millisecond: i64) -> [u8; 6] {
    const LAST: u64 = (1 << 48) - 1;
    let bytes = u64::try_from(millisecond).unwrap_or_default().min(LAST).to_be_bytes();
    [bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7]]
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use model::ExecutionId;

    use super::*;

    #[test]
    fn every_status_has_a_number_of_its_own_that_reads_back() {
        for status in Status::ALL {
            assert_eq!(status_of(status_code(status)), Some(status));
        }
        assert_eq!(status_of(7), None);
    }

    #[test]
    fn every_status_and_every_kind_of_waiting_has_a_shelf_of_its_own_tests_apart() {
        assert_ne!(shelf(Status::Queued, false, true), shelf(Status::Queued, false, false));
        assert_eq!(shelf(Status::Stuck, false, true), 13);
        let mut all = HashSet::new();
        for (status, test) in Status::ALL.into_iter().flat_map(|status| [(status, false), (status, true)]) {
            for shelf in HashSet::from([false, true].map(|holds| shelf(status, holds, test))) {
                assert!(all.insert(shelf), "{status:?}");
                let listed = OPEN_SHELVES.trim_matches(['(', ')']).split(", ");
                let open = listed.map(|open| open.parse()).any(|open| open == Ok(shelf));
                assert_eq!(open, !status.is_terminal(), "{status:?}");
            }
        }
    }

    #[test]
    fn an_id_prefix_is_below_all_ids_of_its_millisecond_and_above_those_before() {
        let at = Timestamp::from_millisecond(1_700_000_000_123).expect("a time");
        let before = Timestamp::from_millisecond(1_700_000_000_122).expect("a time");
        let prefix = id_prefix(at.as_millisecond());
        assert!(prefix.as_slice() < ExecutionId::new(at, [0; 10]).as_bytes().as_slice());
        assert!(prefix.as_slice() > ExecutionId::new(before, [0xff; 10]).as_bytes().as_slice());
        assert_eq!(id_prefix(-5), [0; 6]);
    }
}
