//! The API of polls: list, run now, reset and rewind.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use model::automation::TriggerKey;
use serde::{Deserialize, Serialize, Serializer};
use store::{Accept, PollEntry, PollState, PollWrite};
use value::Value;

use super::{Entry, Progress, initial_poll_state, with_wall_time};
use crate::forward::{ForwardError, Operation};
use crate::ingress::Ingress;
use catalog::PollSource;

/// A poll in force.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PollView {
    /// The polling trigger.
    #[serde(rename = "automation", serialize_with = "by_name")]
    pub trigger: TriggerKey,
    /// Interval as written in the file: `5m`.
    pub every: String,
    /// True while the poll runs.
    pub busy: bool,
    /// True if this node polls.
    #[serde(skip)]
    pub is_here: bool,
    /// Its progress.
    #[serde(flatten)]
    pub poll_state: PollState,
}

fn by_name<S: Serializer>(trigger: &TriggerKey, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&trigger.name())
}

/// Error of an operation on a poll.
#[derive(Debug, thiserror::Error)]
pub enum PollError {
    /// The trigger has no poll in force.
    #[error("`{}` has no poll in force: it must be enabled and have a `poll` trigger or a polled `event`", .0.name())]
    NoPoll(TriggerKey),
    /// Another node polls for the trigger and cannot be reached.
    #[error(transparent)]
    Forward(#[from] ForwardError),
    /// The daemon is stopping.
    #[error("the daemon is stopping")]
    Closing,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] store::Error),
}

/// The operations on a poll.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum PollOperation {
    /// Poll now.
    Now,
    /// Reset the progress.
    Reset,
    /// Go on from a cursor.
    Rewind {
        /// The cursor.
        cursor: Value,
    },
}

/// The reply of the node that polls.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum PollReply {
    /// It is done, with the result of a poll.
    Done(Option<PollEntry>),
    /// There is no such poll in force.
    NoPoll,
}

impl Ingress {
    /// Lists the polls in force as this node has them in memory, sorted by trigger. Those for which another node polls may be out
    /// of date.
    #[must_use]
    pub fn polls(&self) -> Vec<PollView> {
        let ahead = self.context.clock.wall_offset();
        let state = self.polls.state();
        let view = |(trigger, entry): (&TriggerKey, &Entry)| PollView {
            trigger: trigger.clone(),
            every: text::units::format_duration(entry.every),
            busy: entry.busy,
            is_here: entry.is_here,
            poll_state: with_wall_time(entry.poll_state.clone(), entry.next, ahead),
        };
        state.entries.iter().map(view).collect()
    }

    /// Lists the polls in force, sorted by trigger: the same on each node.
    ///
    /// # Errors
    /// The store failed.
    pub async fn polls_of_all_nodes(&self) -> Result<Vec<PollView>, store::Error> {
        let mut views = self.polls();
        if views.iter().all(|view| view.is_here) {
            return Ok(views);
        }
        let store = &self.context.store;
        let busy: BTreeSet<TriggerKey> = store.polling().await?.into_iter().collect();
        let mut stored: HashMap<TriggerKey, PollState> = store.poll_states().await?.into_iter().collect();
        let (clock, catalog) = (&*self.context.clock, self.context.catalog.load_full());
        for view in views.iter_mut().filter(|view| !view.is_here) {
            let Some(every) = self.polls.state().entries.get(&view.trigger).map(|entry| entry.every) else {
                continue;
            };
            let ahead = clock.wall_offset();
            let before = stored.remove(&view.trigger).map(|state| Progress::stored(state, ahead));
            let source = catalog
                .trigger(&view.trigger)
                .and_then(|mount| PollSource::of(mount.on(), catalog.registry()));
            let Some(source) = source else { continue };
            let progress = Progress::go_on(before, &source, every, clock);
            view.poll_state = with_wall_time(progress.poll_state, progress.next, ahead);
            view.busy = busy.contains(&view.trigger);
        }
        Ok(views)
    }

    /// Polls now, regardless of the due time, and returns the result. If another node polls for the trigger, it does so.
    ///
    /// # Errors
    /// Returns an error if the trigger has no poll in force, the daemon stops, or the node that polls does not answer.
    pub async fn poll_now(self: &Arc<Self>, trigger: &TriggerKey) -> Result<PollEntry, PollError> {
        let entry = self.operate(trigger, PollOperation::Now).await?;
        entry.ok_or(PollError::Closing)
    }

    /// Deletes the progress and the seen keys of a poll. The next poll runs at once and counts as the first.
    ///
    /// # Errors
    /// Returns an error if the trigger has no poll in force, the store fails, or the node that polls does not answer.
    pub async fn reset_poll(self: &Arc<Self>, trigger: &TriggerKey) -> Result<(), PollError> {
        self.operate(trigger, PollOperation::Reset).await.map(drop)
    }

    /// Sets the cursor of a poll and deletes its seen keys. The cursor is an instant for an event, else a value of the
    /// trigger's `cursor`. The next poll runs at once and does not count as the first.
    ///
    /// # Errors
    /// Returns an error if the trigger has no poll in force, the store fails, or the node that polls does not answer.
    pub async fn rewind_poll(self: &Arc<Self>, trigger: &TriggerKey, cursor: Value) -> Result<(), PollError> {
        self.operate(trigger, PollOperation::Rewind { cursor }).await.map(drop)
    }

    /// Carries out an operation here, or lets the node that polls do so. Returns the result of a poll.
    async fn operate(
        self: &Arc<Self>,
        trigger: &TriggerKey,
        operation: PollOperation,
    ) -> Result<Option<PollEntry>, PollError> {
        if self.polls.poll_state(trigger).is_none() {
            return Err(PollError::NoPoll(trigger.clone()));
        }
        match self.operate_here(trigger, operation.clone()).await {
            Some(result) => result,
            None => match self.forward(trigger, Operation::Poll(operation)).await? {
                PollReply::Done(entry) => Ok(entry),
                PollReply::NoPoll => Err(PollError::NoPoll(trigger.clone())),
            },
        }
    }

    /// Carries out an operation for another node. `None` if it must be requested again, here or at the next node that polls.
    pub(crate) async fn answer_poll(
        self: &Arc<Self>,
        trigger: &TriggerKey,
        operation: PollOperation,
    ) -> Option<PollReply> {
        match self.operate_here(trigger, operation).await? {
            Ok(entry) => Some(PollReply::Done(entry)),
            Err(PollError::NoPoll(_)) => Some(PollReply::NoPoll),
            Err(_) => None,
        }
    }

    /// Carries out an operation here. `None` if this node does not poll for the trigger.
    async fn operate_here(
        self: &Arc<Self>,
        trigger: &TriggerKey,
        operation: PollOperation,
    ) -> Option<Result<Option<PollEntry>, PollError>> {
        if self.polls.poll_state(trigger).is_none() {
            return Some(Err(PollError::NoPoll(trigger.clone())));
        }
        if !self.polls.is_here(trigger) {
            return None;
        }
        let _hold = self.peers.shards.hold(&trigger.automation)?;
        Some(match operation {
            PollOperation::Now => self.poll(trigger).await.map(Some).ok_or(PollError::Closing),
            PollOperation::Reset => {
                let reset = |before: &PollState, now| initial_poll_state(before.source.clone(), now);
                self.set_poll(trigger, reset).await.map(|()| None)
            }
            PollOperation::Rewind { cursor } => {
                let rewound = |before: &PollState, now| PollState {
                    cursor,
                    polled_at: before.polled_at.or(Some(now)),
                    ..initial_poll_state(before.source.clone(), now)
                };
                self.set_poll(trigger, rewound).await.map(|()| None)
            }
        })
    }

    async fn set_poll(
        &self,
        trigger: &TriggerKey,
        change: impl FnOnce(&PollState, Timestamp) -> PollState,
    ) -> Result<(), PollError> {
        // Waits for a running poll, so that it cannot overwrite this change.
        let _alone = self.polls.locks.lock(&trigger.to_string()).await;
        let before = self.polls.poll_state(trigger);
        let before = before.ok_or_else(|| PollError::NoPoll(trigger.clone()))?;
        let poll_state = change(&before, self.context.clock.now());
        let write = PollWrite {
            trigger: trigger.clone(),
            state: poll_state.clone(),
            forgets_keys: true,
            keys: Vec::new(),
            entry: None,
        };
        let accept = Accept { poll: Some(write), ..Accept::default() };
        self.context.store.accept(&accept).await.inspect_err(|error| self.context.lost(error))?;
        self.polls.update(trigger, poll_state, self.context.clock.wall_offset());
        Ok(())
    }
}
