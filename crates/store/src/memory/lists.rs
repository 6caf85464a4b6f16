//! Lists of executions.

use std::ops::Bound;

use model::{ExecutionId, Status};

use super::MAX_PAGE;
use super::data::{Data, StoredExecution};
use crate::types::{ExecutionFilter, ExecutionRow, Page, SuspendedExecution, Wait};

impl Data {
    pub(super) fn list(&self, filter: &ExecutionFilter, page: Page) -> Vec<ExecutionRow> {
        let fits = |row: &&ExecutionRow| {
            filter.automation.as_ref().is_none_or(|automation| *automation == row.automation)
                && (filter.status.is_empty() || filter.status.contains(&row.status))
                && filter.since.is_none_or(|since| row.started_at >= since)
                && filter.until.is_none_or(|until| row.started_at < until)
                && filter.test.is_none_or(|test| row.origin.is_test() == test)
        };
        let before = page.before.map_or(Bound::Unbounded, Bound::Excluded);
        let rows = self.executions.range((Bound::Unbounded, before)).rev().map(|(_, stored)| &stored.row);
        rows.filter(fits).take(page.limit.min(MAX_PAGE) as usize).cloned().collect()
    }

    /// Returns executions after `after`, oldest first.
    fn after(&self, after: Option<ExecutionId>) -> impl Iterator<Item = &StoredExecution> {
        let after = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.executions.range((after, Bound::Unbounded)).map(|(_, stored)| stored)
    }

    pub(super) fn unfinished(&self, after: Option<ExecutionId>, limit: u32) -> Vec<ExecutionRow> {
        let open = |stored: &&StoredExecution| match stored.row.status {
            Status::Waiting => stored.holds,
            status => !status.is_terminal(),
        };
        let rows = self.after(after).filter(open).map(|stored| stored.row.clone());
        rows.take(limit.min(MAX_PAGE) as usize).collect()
    }

    pub(super) fn unfinished_count(&self) -> u64 {
        self.executions.values().filter(|stored| !stored.row.status.is_terminal()).count() as u64
    }

    pub(super) fn list_suspended(&self, after: Option<ExecutionId>, limit: u32) -> Vec<SuspendedExecution> {
        let waiting = self.after(after).filter(|stored| stored.row.status == Status::Waiting);
        let suspended = waiting.map(|stored| SuspendedExecution {
            execution: stored.row.id,
            wake_at: stored.waits.iter().filter_map(|wait| wait.until).min(),
            keeps_permit: stored.holds,
        });
        suspended.take(limit.min(MAX_PAGE) as usize).collect()
    }

    /// Returns the executions and steps with matching waits, oldest execution first.
    pub(super) fn waiting(
        &self,
        is_such: impl Fn(&Wait) -> bool,
        after: Option<(ExecutionId, String)>,
        limit: u32,
    ) -> Vec<(ExecutionId, String)> {
        let all = self.executions.values().flat_map(|stored| {
            let such = stored.waits.iter().filter(|wait| is_such(wait));
            such.map(|wait| (stored.row.id, wait.step.clone()))
        });
        let rest = all.filter(|found| after.as_ref().is_none_or(|after| found > after));
        rest.take(limit.min(MAX_PAGE) as usize).collect()
    }
}
