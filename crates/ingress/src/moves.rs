//! Moves the records of a trigger to the key of another one: its address, its positions and its subscriptions. Nothing that writes such
//! records runs meanwhile: polls of the two triggers, schedules, and changes of subscriptions.

use model::automation::TriggerKey;
use serde::{Deserialize, Serialize};

use crate::changes::MoveRecords;
use crate::forward::{ForwardError, Operation};
use crate::ingress::Ingress;

/// Error of a move of records.
#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    /// Both triggers have records or are in force.
    #[error("{0}")]
    Refused(String),
    /// Another node has the triggers and cannot be reached.
    #[error(transparent)]
    Forward(#[from] ForwardError),
    /// The move failed.
    #[error(transparent)]
    Failed(#[from] runtime::Error),
}

/// The reply of the node that has the triggers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum MoveReply {
    /// The number of moved rows.
    Moved(u64),
    /// The reason for a refusal.
    Refused(String),
}

impl Ingress {
    /// Sets what moves records. Later calls have no effect.
    pub fn set_mover(&self, mover: Box<dyn MoveRecords>) {
        let _ = self.mover.set(mover);
    }

    /// Moves the records of a trigger to another one of the same automation, and returns the number of moved rows. The node that has the
    /// shard of the automation does so.
    ///
    /// # Errors
    /// Both triggers have records or are in force, the store failed, or the node does not answer. Nothing changed.
    pub async fn move_trigger(&self, from: &TriggerKey, to: &TriggerKey) -> Result<u64, MoveError> {
        match self.move_here(from, to).await {
            Some(result) => result,
            None => match self.forward(from, Operation::Move(to.clone())).await? {
                MoveReply::Moved(rows) => Ok(rows),
                MoveReply::Refused(reason) => Err(MoveError::Refused(reason)),
            },
        }
    }

    /// Moves records for another node. `None` if it must be requested again, here or at the next node that has the triggers.
    pub(crate) async fn answer_move(&self, from: &TriggerKey, to: &TriggerKey) -> Option<MoveReply> {
        match self.move_here(from, to).await? {
            Ok(rows) => Some(MoveReply::Moved(rows)),
            Err(MoveError::Refused(reason)) => Some(MoveReply::Refused(reason)),
            Err(_) => None,
        }
    }

    /// Moves the records here. `None` if another node has the triggers.
    async fn move_here(&self, from: &TriggerKey, to: &TriggerKey) -> Option<Result<u64, MoveError>> {
        let _hold = self.peers.shards.hold(&from.automation)?;
        let mover = self.mover.get()?;
        // First the locks behind which other systems are called, for which schedules need not wait.
        let _polls = self.polls.lock_both(from, to).await;
        let _requests = self.subscriptions.lock_requests(&from.automation).await;
        let _still = self.moving.lock().await;
        let _changing = self.subscriptions.lock_changes().await;
        let moved = match mover.move_records(from, to).await {
            Ok(moved) => moved,
            Err(runtime::Error::Store(error @ store::Error::TriggerHasRows { .. })) => {
                return Some(Err(MoveError::Refused(error.to_string())));
            }
            Err(runtime::Error::Input(reason)) => return Some(Err(MoveError::Refused(reason))),
            Err(error) => return Some(Err(error.into())),
        };
        self.polls.rename(from, to);
        self.subscriptions.rename(from, to);
        self.listeners.rename(from, to);
        self.hooks.rename(from, to);
        if self.context.settings.background {
            self.changes.rename(from, to);
        }
        Some(Ok(moved))
    }
}
