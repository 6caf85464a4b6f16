//! Lists of executions.

use std::collections::BTreeSet;
use std::ops::Bound;

use model::{ExecutionId, Status};

use super::MAX_PAGE;
use super::data::{Data, StoredExecution};
use crate::types::{
    AwaitedEvent, EventWaiter, ExecutionFilter, ExecutionRow, NodeId, Page, SuspendedExecution,
};

impl Data {
    pub(super) fn list(&self, filter: &ExecutionFilter, page: Page) -> Vec<ExecutionRow> {
        let rows = self.matching(filter, page.before);
        rows.take(page.limit.min(MAX_PAGE) as usize).cloned().collect()
    }

    pub(super) fn count(&self, filter: &ExecutionFilter, at_most: u32) -> u32 {
        let count = self.matching(filter, None).take(at_most as usize).count();
        u32::try_from(count).unwrap_or(at_most)
    }

    /// Returns the executions that match, newest first.
    fn matching(
        &self,
        filter: &ExecutionFilter,
        before: Option<ExecutionId>,
    ) -> impl Iterator<Item = &ExecutionRow> {
        let fits = |row: &&ExecutionRow| {
            filter.automation.as_ref().is_none_or(|automation| *automation == row.automation)
                && (filter.status.is_empty() || filter.status.contains(&row.status))
                && filter.since.is_none_or(|since| row.started_at >= since)
                && filter.until.is_none_or(|until| row.started_at < until)
                && filter.test.is_none_or(|test| row.origin.is_test() == test)
                && filter.replay_of.is_none_or(|of| row.origin.replay_of() == Some(of))
                && filter.sender.is_none_or(|sender| row.origin.sender() == Some(sender))
        };
        let before = before.map_or(Bound::Unbounded, Bound::Excluded);
        let rows = self.executions.range((Bound::Unbounded, before)).rev().map(|(_, stored)| &stored.row);
        rows.filter(fits)
    }

    /// Returns executions after `after`, oldest first.
    fn after(&self, after: Option<ExecutionId>) -> impl Iterator<Item = &StoredExecution> {
        let after = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.executions.range((after, Bound::Unbounded)).map(|(_, stored)| stored)
    }

    /// Returns unfinished executions of a node, or of all.
    pub(super) fn unfinished(
        &self,
        node: Option<NodeId>,
        after: Option<ExecutionId>,
        limit: u32,
    ) -> Vec<ExecutionRow> {
        let open = |stored: &&StoredExecution| match stored.row.status {
            Status::Waiting => stored.holds,
            status => !status.is_terminal(),
        };
        let rows = self
            .after(after)
            .filter(|stored| node.is_none() || stored.owner == node)
            .filter(open)
            .map(|stored| stored.row.clone());
        rows.take(limit.min(MAX_PAGE) as usize).collect()
    }

    pub(super) fn unfinished_count(&self) -> u64 {
        self.executions.values().filter(|stored| !stored.row.status.is_terminal()).count() as u64
    }

    /// Returns waiting executions of a node, or of all.
    pub(super) fn list_suspended(
        &self,
        node: Option<NodeId>,
        after: Option<ExecutionId>,
        limit: u32,
    ) -> Vec<SuspendedExecution> {
        let waiting = self.after(after).filter(|stored| stored.row.status == Status::Waiting);
        let waiting = waiting.filter(|stored| node.is_none() || stored.owner == node);
        let suspended = waiting.map(|stored| SuspendedExecution {
            execution: stored.row.id,
            wake_at: stored.waits.iter().filter_map(|wait| wait.until).min(),
            keeps_permit: stored.holds,
        });
        suspended.take(limit.min(MAX_PAGE) as usize).collect()
    }

    /// Returns the paths of the keys by which steps wait for events with this name.
    pub(super) fn event_paths(&self, name: &str) -> Vec<String> {
        let paths: BTreeSet<&str> = self.awaited(name).map(|(_, _, event)| event.key.path.as_str()).collect();
        paths.into_iter().take(MAX_PAGE as usize).map(str::to_owned).collect()
    }

    /// Returns the steps that wait for events with this name by a key with this path.
    pub(super) fn waiting_for_event(
        &self,
        name: &str,
        path: &str,
        value: Option<&str>,
        after: Option<&EventWaiter>,
        limit: u32,
    ) -> Vec<EventWaiter> {
        let place = |waiter: &EventWaiter| (waiter.value.clone(), waiter.execution, waiter.step.clone());
        let such = self.awaited(name).filter(|(_, _, event)| {
            event.key.path == path && value.is_none_or(|value| event.key.value == value)
        });
        let such = such.map(|(execution, step, event)| EventWaiter {
            execution,
            step: step.to_owned(),
            value: event.key.value.clone(),
            condition: event.condition.clone(),
        });
        let mut rest: Vec<EventWaiter> =
            such.filter(|waiter| after.is_none_or(|after| place(waiter) > place(after))).collect();
        rest.sort_by_key(place);
        rest.truncate(limit.min(MAX_PAGE) as usize);
        rest
    }

    /// Returns the steps that wait for events with this name.
    fn awaited(&self, name: &str) -> impl Iterator<Item = (ExecutionId, &str, &AwaitedEvent)> {
        self.executions.values().flat_map(move |stored| {
            let events = stored.waits.iter().filter_map(|wait| Some((wait, wait.event.as_ref()?)));
            let such = events.filter(move |(_, event)| event.name == name);
            such.map(|(wait, event)| (stored.row.id, wait.step.as_str(), event))
        })
    }

    /// Returns the oldest execution and step that wait for the end of `child`.
    pub(super) fn waiting_for_child(&self, child: ExecutionId) -> Option<(ExecutionId, String)> {
        self.executions.values().find_map(|stored| {
            let wait = stored.waits.iter().find(|wait| wait.child == Some(child))?;
            Some((stored.row.id, wait.step.clone()))
        })
    }
}
