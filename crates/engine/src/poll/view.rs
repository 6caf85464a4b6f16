//! What people see of polls, and what they may ask of them.

use jiff::Timestamp;
use model::AutomationId;
use model::value::Value;
use serde::Serialize;
use store::{Accept, PollEntry, PollState, PollWrite};

use super::{afresh, shown};
use crate::engine::Engine;

/// A poll in force.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PollView {
    /// For which Automation.
    pub automation: AutomationId,
    /// How often, as it is written: `5m`.
    pub every: String,
    /// Whether it is made at this moment.
    pub busy: bool,
    /// Where it stands.
    #[serde(flatten)]
    pub standing: PollState,
}

/// Why nothing can be asked of a poll.
#[derive(Debug, thiserror::Error)]
pub enum PollError {
    /// The Automation polls for nothing.
    #[error(
        "`{0}` polls for nothing now: only an enabled automation with a `poll`, or an `event` that is polled for, does"
    )]
    NoPoll(AutomationId),
    /// The daemon stops.
    #[error("the daemon is stopping")]
    Closing,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] store::Error),
}

impl Engine {
    /// The polls in force, by Automation.
    #[must_use]
    pub fn polls(&self) -> Vec<PollView> {
        let ahead = self.services().clock.ahead();
        let state = self.services().polls.state();
        let mut views: Vec<PollView> = state
            .entries
            .iter()
            .map(|(automation, entry)| PollView {
                automation: automation.clone(),
                every: model::units::format_duration(entry.every),
                busy: entry.busy,
                standing: shown(entry.standing.clone(), entry.next, ahead),
            })
            .collect();
        views.sort_by(|one, other| one.automation.cmp(&other.automation));
        views
    }

    /// Polls now, whenever the next poll is due, and gives what came of it.
    ///
    /// # Errors
    /// The Automation polls for nothing, or the daemon stops.
    pub async fn poll_now(&self, automation: &AutomationId) -> Result<PollEntry, PollError> {
        let services = self.services();
        if services.polls.standing(automation).is_none() {
            return Err(PollError::NoPoll(automation.clone()));
        }
        services.poll(automation).await.ok_or(PollError::Closing)
    }

    /// Forgets where a poll stands and all that it has seen: the next one, made at once, is the first.
    ///
    /// # Errors
    /// The Automation polls for nothing, or the store failed.
    pub async fn reset_poll(&self, automation: &AutomationId) -> Result<(), PollError> {
        self.set_poll(automation, |before, now| afresh(before.source.clone(), now)).await
    }

    /// Has a poll go on from a cursor, with all that it has seen forgotten: for an event an instant, else what the
    /// trigger's `cursor` gives. The next poll is made at once, and is not the first.
    ///
    /// # Errors
    /// The Automation polls for nothing, or the store failed.
    pub async fn rewind_poll(&self, automation: &AutomationId, cursor: Value) -> Result<(), PollError> {
        let rewound = |before: &PollState, now| PollState {
            cursor,
            polled_at: before.polled_at.or(Some(now)),
            ..afresh(before.source.clone(), now)
        };
        self.set_poll(automation, rewound).await
    }

    async fn set_poll(
        &self,
        automation: &AutomationId,
        change: impl FnOnce(&PollState, Timestamp) -> PollState,
    ) -> Result<(), PollError> {
        let services = self.services();
        // A poll that is under way comes to its end first, and does not write over this.
        let _alone = services.polls.locks.lock(automation.as_str()).await;
        let before = services.polls.standing(automation);
        let before = before.ok_or_else(|| PollError::NoPoll(automation.clone()))?;
        let standing = change(&before, services.clock.now());
        let write = PollWrite {
            automation: automation.clone(),
            state: standing.clone(),
            forgets_keys: true,
            keys: Vec::new(),
            entry: None,
        };
        let accept = Accept { poll: Some(write), ..Accept::default() };
        services.store.accept(&accept).await.inspect_err(|error| services.lost(error))?;
        services.polls.put(automation, standing, services.clock.ahead());
        Ok(())
    }
}
