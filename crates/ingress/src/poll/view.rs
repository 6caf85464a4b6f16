//! The API of polls: list, run now, reset and rewind.

use std::sync::Arc;

use jiff::Timestamp;
use model::AutomationId;
use model::value::Value;
use serde::Serialize;
use store::{Accept, PollEntry, PollState, PollWrite};

use super::{initial_standing, with_wall_time};
use crate::ingress::Ingress;

/// A poll in force.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PollView {
    /// The polling Automation.
    pub automation: AutomationId,
    /// Interval as written in the file: `5m`.
    pub every: String,
    /// True while the poll runs.
    pub busy: bool,
    /// Its progress.
    #[serde(flatten)]
    pub poll_state: PollState,
}

/// Error of an operation on a poll.
#[derive(Debug, thiserror::Error)]
pub enum PollError {
    /// The Automation has no poll in force.
    #[error("`{0}` has no poll in force: it must be enabled and have a `poll` trigger or a polled `event`")]
    NoPoll(AutomationId),
    /// Another node polls for the Automation.
    #[error("another daemon polls for `{0}`; `cogwork nodes` shows which")]
    Elsewhere(AutomationId),
    /// The daemon is stopping.
    #[error("the daemon is stopping")]
    Closing,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] store::Error),
}

impl Ingress {
    /// Lists the polls in force, sorted by Automation.
    #[must_use]
    pub fn polls(&self) -> Vec<PollView> {
        let ahead = self.runtime.clock.wall_offset();
        let state = self.polls.state();
        let mut views: Vec<PollView> = state
            .entries
            .iter()
            .map(|(automation, entry)| PollView {
                automation: automation.clone(),
                every: model::units::format_duration(entry.every),
                busy: entry.busy,
                poll_state: with_wall_time(entry.poll_state.clone(), entry.next, ahead),
            })
            .collect();
        views.sort_by(|one, other| one.automation.cmp(&other.automation));
        views
    }

    /// Polls now, regardless of the due time, and returns the result.
    ///
    /// # Errors
    /// Returns an error if the Automation has no poll in force, or the daemon stops.
    pub async fn poll_now(self: &Arc<Self>, automation: &AutomationId) -> Result<PollEntry, PollError> {
        if self.polls.poll_state(automation).is_none() {
            return Err(PollError::NoPoll(automation.clone()));
        }
        if !self.runtime.peers.shards.has(automation) {
            return Err(PollError::Elsewhere(automation.clone()));
        }
        self.poll(automation).await.ok_or(PollError::Closing)
    }

    /// Deletes the progress and the seen keys of a poll. The next poll runs at once and counts as the first.
    ///
    /// # Errors
    /// Returns an error if the Automation has no poll in force, or the store fails.
    pub async fn reset_poll(&self, automation: &AutomationId) -> Result<(), PollError> {
        self.set_poll(automation, |before, now| initial_standing(before.source.clone(), now)).await
    }

    /// Sets the cursor of a poll and deletes its seen keys. The cursor is an instant for an event, else a value of the
    /// trigger's `cursor`. The next poll runs at once and does not count as the first.
    ///
    /// # Errors
    /// Returns an error if the Automation has no poll in force, or the store fails.
    pub async fn rewind_poll(&self, automation: &AutomationId, cursor: Value) -> Result<(), PollError> {
        let rewound = |before: &PollState, now| PollState {
            cursor,
            polled_at: before.polled_at.or(Some(now)),
            ..initial_standing(before.source.clone(), now)
        };
        self.set_poll(automation, rewound).await
    }

    async fn set_poll(
        &self,
        automation: &AutomationId,
        change: impl FnOnce(&PollState, Timestamp) -> PollState,
    ) -> Result<(), PollError> {
        // Waits for a running poll, so that it cannot overwrite this change.
        let _alone = self.polls.locks.lock(automation.as_str()).await;
        let before = self.polls.poll_state(automation);
        let before = before.ok_or_else(|| PollError::NoPoll(automation.clone()))?;
        let poll_state = change(&before, self.runtime.clock.now());
        let write = PollWrite {
            automation: automation.clone(),
            state: poll_state.clone(),
            forgets_keys: true,
            keys: Vec::new(),
            entry: None,
        };
        let accept = Accept { poll: Some(write), ..Accept::default() };
        self.runtime.store.accept(&accept).await.inspect_err(|error| self.runtime.lost(error))?;
        self.polls.update(automation, poll_state, self.runtime.clock.wall_offset());
        Ok(())
    }
}
