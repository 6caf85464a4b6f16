//! Calls in stages: what a call has reached is recorded before it goes on, and the step pauses between looks at work of a service.

use std::sync::Arc;

use catalog::Catalog;
use connector::{Action, Checkpoint, Pause, Progress, Reached};
use model::LogLevel;
use model::action::{ActionError, ErrorKind};
use model::automation::{ActionStep, Step, Verb};
use model::execution::WaitReason;
use value::{JsonLimits, Map, Value};

use super::journal::{Checkpoint as StoredCheckpoint, Due, StepWait};
use super::scope::Scope;
use super::step::Frame;
use super::verbs::failed;
use super::{Exit, Run};
use crate::error::Error;

/// The key of the data of a checkpoint that are encrypted.
const SEALED: &str = "sealed";

impl Run {
    /// Executes an action step: calls the action, and goes on from its checkpoints until it has ended.
    pub(super) async fn action(
        &self,
        step: &Step,
        call: &ActionStep,
        key: &str,
        attempt: u32,
        scope: &Scope,
        frame: &Frame,
    ) -> Result<Value, Exit> {
        let mut is_lost = false;
        loop {
            match self.stage(step, call, key, attempt, scope, frame).await? {
                Progress::Ended(value) => return Ok(value),
                Progress::Reached(checkpoint) => self.reach(key, checkpoint, frame).await?,
                // Once in an attempt, so that a service that loses each work is not asked without end.
                Progress::Lost(error) if !is_lost => {
                    is_lost = true;
                    self.journal.log(LogLevel::Warn, Some(key), &format!("begins anew: {}", error.message));
                    self.journal.record_checkpoint(key, Value::Null);
                }
                Progress::Failed(error) | Progress::Lost(error) => return Err(self.begins_anew(key, error)),
            }
        }
    }

    /// True if the step calls an action with stages, which may pause.
    pub(super) fn has_stages(&self, step: &Step) -> bool {
        let Verb::Action(call) = &step.verb else { return false };
        let catalog = self.context.catalog.load();
        catalog.registry().action(&call.action.name).is_some_and(|action| action.has_stages())
    }

    /// Records a checkpoint durably, with the pause after it.
    async fn reach(&self, key: &str, checkpoint: Checkpoint, frame: &Frame) -> Result<(), Exit> {
        let Checkpoint { data, is_secret, pause } = checkpoint;
        let data = if is_secret { self.seal(key, &data).await? } else { data };
        let is_new = self.journal.checkpoint(key).is_none_or(|known| known.data != data);
        if is_new {
            self.journal.record_checkpoint(key, data);
        }
        if let Some(Pause { operation, length }) = pause {
            let open = self.journal.pause(key);
            let looks = match &open {
                Some(StepWait { on: WaitReason::Operation { looks, .. }, .. }) => looks.saturating_add(1),
                _ => 0,
            };
            let on = WaitReason::Operation { id: operation, looks };
            let due = Due::After(self.context.clock.monotonic_now().after(length));
            match open {
                Some(_) => self.pause_goes_on(key, on, due, frame),
                None => self.pause_begins(key, on, Some(due), frame)?,
            }
        }
        if is_new {
            // The first request is never sent again from here on.
            self.await_commit(key, frame, self.journal.commit()).await?;
        }
        Ok(())
    }

    /// Returns the checkpoint of a call, once the next look is due; `None` if the call begins.
    pub(super) async fn checkpoint(
        &self,
        key: &str,
        frame: &Frame,
    ) -> Result<Option<StoredCheckpoint>, Exit> {
        let Some(checkpoint) = self.journal.checkpoint(key) else { return Ok(None) };
        self.await_look(key, frame).await?;
        self.unsealed(key, checkpoint).map(Some)
    }

    /// The checkpoint as the action sees it, with its data as they were.
    fn unsealed(&self, key: &str, checkpoint: StoredCheckpoint) -> Result<StoredCheckpoint, Exit> {
        let Some(sealed) = checkpoint.data.get(SEALED) else { return Ok(checkpoint) };
        let lost = |error: Error| {
            let message = format!("the address with which the call goes on cannot be read: {error}");
            self.begins_anew(key, ActionError::new(ErrorKind::Connection, message))
        };
        let vault = self.context.vault().map_err(lost)?;
        let text = vault.unseal(&self.sealed_name(key), &sealed).map_err(lost)?;
        let data = Value::from_json(text.as_bytes(), JsonLimits::default());
        let data = data.map_err(|error| lost(Error::Vault(error.to_string())))?;
        Ok(StoredCheckpoint { data, ..checkpoint })
    }

    /// The checkpoint as the action gets it.
    pub(super) fn reached<'c>(&self, checkpoint: &'c StoredCheckpoint) -> Reached<'c> {
        Reached { data: &checkpoint.data, age: self.context.clock.monotonic_now().since(checkpoint.at) }
    }

    /// Encrypts the data of a checkpoint. The store of a test, which has no key, is in memory only.
    async fn seal(&self, key: &str, data: &Value) -> Result<Value, Exit> {
        let Ok(vault) = self.context.vault() else { return Ok(data.clone()) };
        let sealed = vault.seal(&self.sealed_name(key), &data.to_json(), self.context.clock.now()).await;
        let sealed = sealed.map_err(|error| {
            let message = format!("the address with which the call goes on cannot be kept: {error}");
            failed(ActionError::new(ErrorKind::Connection, message))
        })?;
        Ok(Value::from(Map::from_iter([(SEALED, sealed)])))
    }

    /// The name under which the data of a step are encrypted.
    fn sealed_name(&self, key: &str) -> String {
        format!("checkpoint/{}.{key}", self.journal.id())
    }

    /// Waits until the next look at an operation is due. After a restart, the recorded pause goes on.
    async fn await_look(&self, key: &str, frame: &Frame) -> Result<(), Exit> {
        let Some(due) = self.journal.pause_due(key) else { return Ok(()) };
        // The time limit of the step may have ended the pause.
        self.check_may_start(frame)?;
        if let Some(_live) = self.context.doubles.as_ref().and_then(|doubles| doubles.track_live_call()) {
            // A recording asks the real service, whose work takes its time; the clock of a test would skip the pause.
            tokio::time::sleep(self.time_left(due)).await;
        }
        self.suspend_until(due, frame).await
    }

    /// The key that tells the service which call this is, the same for each attempt. Work that begins anew has another one: by the first key
    /// a service would answer with the work that has failed.
    pub(super) fn idempotency_key(&self, key: &str) -> String {
        let id = self.journal.id();
        match self.journal.begun_anew(key) {
            0 => format!("{id}.{key}"),
            times => format!("{id}.{key}#{}", times.saturating_add(1)),
        }
    }

    /// Drops the checkpoint of work that has failed, so that another attempt begins anew.
    fn begins_anew(&self, key: &str, error: ActionError) -> Exit {
        if self.journal.checkpoint(key).is_some() {
            self.journal.record_checkpoint(key, Value::Null);
        }
        failed(error)
    }
}

/// Returns the action of a call. With a checkpoint, the action must be able to go on from there.
pub(super) fn callable(
    catalog: &Catalog,
    call: &ActionStep,
    checkpoint: Option<&StoredCheckpoint>,
) -> Result<Arc<dyn Action>, Exit> {
    let name = &call.action.name;
    let action = catalog.registry().action(name);
    let message = match action {
        None => format!("the action `{name}` no longer exists"),
        Some(action) if checkpoint.is_some() && !action.has_stages() => format!(
            "the first request of `{name}` has been sent, and its connector says no longer how the call goes on; restore `operation` of the action, or replay the execution"
        ),
        Some(action) => return Ok(action.clone()),
    };
    Err(failed(ActionError::new(ErrorKind::Input, message)))
}
