//! Executions that come from another node.

use std::time::Duration;

use catalog::Catalog;
use jiff::{SignedDuration, Timestamp};
use model::execution::{ExecutionId, Status};
use store::ExecutionRow;

use super::Admission;
use super::recovery::{has_begun, may_hold_permit};
use super::table::{Queued, Suspended};
use crate::clock::MonotonicTime;
use crate::run::{ReplaySource, Wake};

/// The longest plausible wait at another node, by the wall clocks of two nodes; anything longer is clock skew.
const LONGEST_WAIT: Duration = Duration::from_secs(600);
/// The ordinary difference between the wall clocks of two nodes.
const CLOCK_DIFFERENCE: Duration = Duration::from_secs(5);

/// An execution that this node owns and does not have in memory yet.
pub(crate) struct Handed {
    /// Its list row.
    pub(crate) row: ExecutionRow,
    /// The time of its wake-up if it is suspended and keeps no permit.
    pub(crate) rests: Option<Option<Timestamp>>,
}

impl Admission {
    /// Adds executions to the table, each in the state of its last node, unless they are in it. Started ones come first, since
    /// one of them may hold the permit that another one waits for. Returns their number.
    pub(crate) fn adopt(&self, catalog: &Catalog, executions: impl Iterator<Item = Handed>) -> usize {
        let mut executions: Vec<Handed> = executions.collect();
        executions.sort_by_key(|handed| !has_begun(&handed.row));
        let clock = &*self.context.clock;
        let (offset, since) = (clock.wall_offset(), clock.monotonic_now());
        let (mut count, mut table) = (0, self.table());
        for Handed { row, rests } in executions {
            if table.has(row.id) {
                continue;
            }
            count += 1;
            table.count_scheduled(&row.trigger_key(), &row.origin);
            if let Some(at) = rests {
                let wake = Wake { at, after: at.map(|at| MonotonicTime::from_wall(at, offset)) };
                table.suspend(row.id, Suspended { wake, wall_offset: offset, keeps_permit: false });
                continue;
            }
            let is_gated = may_hold_permit(catalog, &row);
            if is_gated {
                table.recover_first(&row.automation, row.id, has_begun(&row));
            }
            let source = match row.status {
                Status::Waiting => ReplaySource::Suspended,
                Status::Queued => ReplaySource::ThisProcess,
                _ => ReplaySource::AnotherProcess,
            };
            let waits = row.status == Status::Queued && !has_begun(&row);
            let (mut offset, mut since) = (offset, since);
            if waits {
                // It has waited at its last node since it was accepted, by the clock of that node.
                let arrived = since;
                let accepted = MonotonicTime::from_wall(row.started_at, offset);
                if accepted.after(LONGEST_WAIT) < arrived || accepted > arrived.after(CLOCK_DIFFERENCE) {
                    // The clocks of the nodes differ, or one was set: counts its wait from now on.
                    offset = row.started_at.duration_since(arrived.to_wall(SignedDuration::ZERO));
                } else {
                    since = accepted.min(arrived);
                }
            }
            let queued = Queued { source, ..Queued::new(offset, since) };
            table.enqueue(row.id, queued.movable(&row.origin, is_gated || !waits));
        }
        drop(table);
        self.wake_dispatchers();
        self.rest.notify_one();
        self.moved.notify_waiters();
        count
    }

    /// True if this process has the execution in its table, in any state.
    pub(crate) fn has(&self, id: ExecutionId) -> bool {
        self.table().has(id)
    }

    /// Wakes an execution, if it is suspended.
    pub(crate) fn wake_suspended(&self, id: ExecutionId) {
        if self.table().wake(id, self.context.clock.monotonic_now()) {
            self.wake_dispatchers();
        }
    }

    /// Tells those who wait for executions that one may have moved.
    pub(crate) fn notify_moved(&self) {
        self.moved.notify_waiters();
    }
}
