//! `call`: starts another Automation as a child execution, exactly once.

use std::sync::Arc;

use model::action::{ActionError, Effect, ErrorKind};
use model::automation::{CallStep, Step, Trigger};
use model::execution::{CallRecord, ExecutionId, Origin, Outcome, WaitReason};
use model::payload::Payload;
use value::{Map, Value};

use super::action::chosen_name;
use super::journal::StepWait;
use super::scope::Scope;
use super::step::Frame;
use super::verbs::failed;
use super::{Exit, Run};
use crate::api::{AcceptOptions, Slot, Start, StartedBy};
use crate::doubles::CallTarget;

/// Maximum depth of nested calls. The loader rejects cycles, but files may change during an execution.
const MAX_DEPTH: u32 = 32;

impl Run {
    pub(super) async fn call(
        &self,
        step: &Step,
        call: &CallStep,
        key: &str,
        attempt: u32,
        scope: &Scope,
        frame: &Frame,
    ) -> Result<Value, Exit> {
        let callee = chosen_name(&call.automation, frame)?;
        let child = match self.journal.pause(key) {
            Some(StepWait { on: WaitReason::Call { execution }, .. }) => execution,
            _ => {
                let inputs = self.evaluate_inputs(&call.with, None, scope, frame).await?;
                let called = CallTarget::Automation(callee);
                if let Some(answer) = self.double(step, (key, ""), (called, None, false), &inputs) {
                    return self.bounded(step, frame, answer).await?.map_err(failed);
                }
                self.start_child((call, callee), key, attempt, inputs, frame).await?
            }
        };
        if call.detached {
            return Ok(Value::from(Map::from_iter([("executionId", child.to_string())])));
        }
        let mut awaited = AwaitedChild { run: self, child, is_cut: true };
        let outcome = self.outcome_of(child, key, frame).await;
        awaited.is_cut = matches!(
            outcome,
            Err(Exit::Stop(_)
                | Exit::Break
                | Exit::Continue(_)
                | Exit::Failed(_)
                | Exit::Expired(_)
                | Exit::Cancelled)
        );
        result(callee, outcome?)
    }

    async fn start_child(
        &self,
        (call, id): (&CallStep, &str),
        key: &str,
        attempt: u32,
        inputs: Map,
        frame: &Frame,
    ) -> Result<ExecutionId, Exit> {
        let refuse = |kind, message: String| failed(ActionError::new(kind, message));
        let catalog = self.context.catalog.load_full();
        let deployment =
            catalog.find(id).map_err(|error| refuse(ErrorKind::Input, error.to_string()))?.clone();
        let manual =
            deployment.automation.triggers.iter().find(|trigger| matches!(trigger.on, Trigger::Manual));
        let manual = manual.cloned().ok_or_else(|| {
            refuse(ErrorKind::Input, format!("`{id}` cannot be called: it has no `manual` trigger"))
        })?;
        // A manual start has no results.
        let given =
            self.context.trigger_inputs(&deployment.automation, &manual, &Value::Null, Some(inputs)).await;
        let inputs = given.map_err(|error| refuse(ErrorKind::Input, format!("`{id}`: {}", error.message)))?;
        let inputs = inputs.unwrap_or_default();
        let depth = match &self.origin {
            Origin::Call { depth, .. } => depth + 1,
            _ => 1,
        };
        if depth > MAX_DEPTH {
            let message =
                format!("`{id}` would be the {depth}th call inside one another, more than {MAX_DEPTH}");
            return Err(refuse(ErrorKind::Limit, message));
        }
        // The inputs may depend on all earlier results.
        self.await_commit(key, frame, self.journal.before_effect(Effect::Write)).await?;
        let origin = Origin::Call {
            execution: self.journal.id(),
            step: key.to_owned(),
            depth,
            test: self.origin.is_test(),
            awaited: !call.detached,
            trace: Some(self.chain_of_run().to_string()),
        };
        // The inputs become part of another execution's log.
        let by = StartedBy::trigger(&manual.id);
        let start = Start { payload: Payload::manual(self.journal.redact_map(inputs)), origin, by };
        let options = AcceptOptions {
            // The same key in every repetition of this attempt, so that the child is started once.
            key: Some(format!("call:{}:{key}:{}.{attempt}", self.journal.id(), self.journal.attempt())),
            // This execution is idle meanwhile, so the child uses its slot. Otherwise callers that hold all slots would
            // wait forever.
            slot: if call.detached { Slot::Own } else { Slot::Shared },
            ..AcceptOptions::default()
        };
        let accepted = self.starter.clone().start(deployment, start, options).await;
        let admission = accepted.map_err(|error| match error {
            crate::error::Error::Closing => Exit::ShuttingDown,
            crate::error::Error::Store(error) if error.outcome_unknown() => {
                Exit::StoreFailed(Arc::new(error))
            }
            error => refuse(ErrorKind::Limit, format!("`{id}` could not be started: {error}")),
        })?;
        self.journal.step_called(key, CallRecord::Execution { id: admission.id });
        // Records the child for observers of this execution. A short call costs no extra commit.
        self.journal.call_ended(Effect::Read);
        Ok(admission.id)
    }

    /// Awaits the outcome of the child. If the child is suspended or queued, this execution is suspended too.
    async fn outcome_of(&self, child: ExecutionId, key: &str, frame: &Frame) -> Result<Outcome, Exit> {
        let ended = tokio::select! {
            biased;
            ended = self.starter.outcome(child) => ended,
            () = self.cancellation(Some(frame)) => return Err(Exit::Cancelled),
            () = self.context.closing.cancelled() => return Err(Exit::ShuttingDown),
            exit = self.expiry(Some(frame)) => return Err(exit),
        };
        match ended {
            Ok(Some(outcome)) => Ok(outcome),
            Ok(None) => {
                if self.journal.pause(key).is_none() {
                    self.pause_begins(key, WaitReason::Call { execution: child }, None, frame)?;
                }
                Err(Exit::Suspended)
            }
            Err(crate::error::Error::Closing) => Err(Exit::ShuttingDown),
            Err(crate::error::Error::Store(error)) if error.outcome_unknown() => {
                Err(Exit::StoreFailed(Arc::new(error)))
            }
            Err(error) => Err(failed(ActionError::new(ErrorKind::Internal, error.to_string()))),
        }
    }
}

/// A child execution that a call waits for. It is cancelled if the call ends before it, also if the branch of the call is cut off.
struct AwaitedChild<'a> {
    run: &'a Run,
    child: ExecutionId,
    is_cut: bool,
}

impl Drop for AwaitedChild<'_> {
    fn drop(&mut self) {
        // A daemon that stops drops its branches too; the call goes on at the next start.
        if self.is_cut && !self.run.context.closing.is_cancelled() {
            self.run.cancel_child(self.child);
        }
    }
}

/// Converts the child's outcome to the result of the call.
fn result(id: &str, outcome: Outcome) -> Result<Value, Exit> {
    match outcome {
        Outcome::Succeeded { result } => Ok(result),
        Outcome::Failed { mut error } | Outcome::Stuck { mut error } => {
            error.message = format!("`{id}` failed: {}", error.message);
            error.step = None;
            Err(failed(error))
        }
        Outcome::Cancelled { reason } => {
            Err(failed(ActionError::new(ErrorKind::Cancelled, format!("`{id}` was cancelled: {reason}"))))
        }
    }
}
