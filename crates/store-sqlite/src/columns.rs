//! The shelves of executions, which group them for lists.

use model::Status;

use store::codec::status_code;

/// The shelves of waiting executions without and with a concurrency permit. No terminal status has these numbers.
const WAITING_SHELF: i64 = 6;
const HOLDING_SHELF: i64 = 7;

/// The number added to the shelf of a test.
const TEST_SHELF: i64 = 8;

/// The shelf of queued executions.
const QUEUE_SHELF: i64 = 16;

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

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_status_and_wait_kind_has_a_distinct_shelf_also_for_tests() {
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
}
