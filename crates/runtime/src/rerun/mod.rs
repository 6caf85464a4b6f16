//! Replays: new executions with the payload, and optionally the first results, of an earlier one.
//!
//! A replay is an execution of its own, with an id and idempotency keys of its own. From a step, its log begins with the
//! recorded results of the steps before that step, which are committed together with its start: the walk takes them from
//! the log as it does after a restart.

mod kept;
mod position;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use catalog::Deployment;
use model::action::Effect;
use model::automation::{Automation, AutomationId, Block, DefinitionHash, Handler, Verb};
use model::execution::{Event, ExecutionId, Origin};
use model::payload::Payload;
use serde::Serialize;
use store::ExecutionRow;

use crate::api::StartedBy;
use crate::error::Error;
use crate::history_memory::ReadMemory;
use crate::inputs::convert_inputs;
use crate::records::Records;
use crate::run::effect_of;

/// The options of a replay.
#[derive(Clone, Debug, Default)]
pub struct ReplayRequest {
    /// The step to begin at, with its iteration indices: `save`, `copy[2]`; `None` for the first step.
    pub from: Option<String>,
    /// The payload; `None` for the recorded one.
    pub payload: Option<Payload>,
    /// True to run on the version that the execution ran on; otherwise it runs on the version in force.
    pub original: bool,
    /// True for a test, with a state of its own; `None` for the kind of the execution.
    pub test: Option<bool>,
}

/// A replay that can be accepted.
#[derive(Clone)]
pub struct ReplayPlan {
    /// The id of the new execution; `None` to create one.
    pub id: Option<ExecutionId>,
    /// The automation in the version that the replay runs on.
    pub deployment: Arc<Deployment>,
    /// The payload.
    pub payload: Payload,
    /// The trigger.
    pub by: StartedBy,
    /// True if the code of the trigger has to decide about the payload.
    pub decides_anew: bool,
    /// The origin of the new execution.
    pub origin: Origin,
    /// The events that it keeps of the execution.
    pub kept: Vec<Event>,
    /// The number of steps whose results it keeps.
    pub kept_steps: u32,
    /// The steps that call other systems again, or may do so.
    pub calls: Vec<RepeatedCall>,
    /// The memory of the kept events; `None` without any, or if another reader has reserved it.
    pub memory: Option<Arc<ReadMemory>>,
}

impl ReplayPlan {
    /// Converts the recorded inputs to the types that the version of the replay declares.
    ///
    /// # Errors
    /// Returns an error if an input does not fit.
    pub fn convert_inputs(&mut self) -> Result<(), Error> {
        let automation = &self.deployment.automation;
        if let Payload::Manual { inputs } = &mut self.payload {
            *inputs = convert_inputs(automation, inputs)?;
        }
        if let Some(inputs) = &mut self.by.inputs {
            *inputs = Arc::new(convert_inputs(automation, inputs)?);
        }
        Ok(())
    }
}

/// A step that calls another system again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[schema(as = RepeatedCallView)]
pub struct RepeatedCall {
    /// The id of the step.
    pub step: String,
    /// The action, or the called automation as `call: name`.
    pub action: String,
    /// The connection, if the action needs one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection: Option<String>,
    /// True if the call may change something; false if it only reads.
    pub writes: bool,
    /// The list that the step is in: `steps`, `onError`, `finally` or `undo`.
    pub list: &'static str,
    /// True if the execution made this call.
    pub called: bool,
}

impl Records {
    /// Prepares a replay. Changes nothing.
    ///
    /// # Errors
    /// There is no such execution, its version or its automation is not available, the replay cannot begin at the step, or
    /// the store failed.
    pub async fn plan_replay(&self, id: ExecutionId, request: ReplayRequest) -> Result<ReplayPlan, Error> {
        let row = self.context.store.execution(id).await?.ok_or(Error::NoSuchExecution(id))?;
        let (log, memory) = self.context.read_events(&row).await?.ok_or(Error::NoSuchExecution(id))?;
        let Some(Event::Started { automation, definition, origin, payload, trigger, inputs, .. }) =
            log.first()
        else {
            return Err(Error::NoSuchExecution(id));
        };
        let deployment = self.replay_version(automation, *definition, request.original).await?;
        let test = request.test.unwrap_or_else(|| origin.is_test());
        let is_edited = request.payload.is_some();
        let payload = request.payload.unwrap_or_else(|| Payload::clone(payload));
        let decides_anew =
            is_edited || (request.from.is_none() && deployment.automation.definition != *definition);
        let kept = match &request.from {
            None => kept::Kept::default(),
            Some(from) => {
                if !matches!(log.last(), Some(Event::Finished { .. })) {
                    let message =
                        format!("execution `{id}` has not ended; cancel it, or replay it from the start");
                    return Err(Error::NotReplayable(message));
                }
                let recorded = self.replay_version(automation, *definition, true).await?;
                kept::select(&deployment, &recorded.automation, &log, from, self.context.clock.now())
                    .map_err(Error::NotReplayable)?
            }
        };
        let kept_count = u32::try_from(kept.events.len()).unwrap_or(u32::MAX);
        let origin = Origin::Replay { of: id, from: request.from, kept: kept_count, test };
        let calls = self.repeated_calls(&deployment.automation, &log, &kept.settled);
        let kept_steps = kept.steps;
        let mut plan = ReplayPlan {
            id: None,
            deployment,
            payload,
            by: StartedBy { trigger: trigger.clone(), inputs: inputs.clone() },
            decides_anew,
            origin,
            memory: (!kept.events.is_empty()).then(|| Arc::new(memory)),
            kept: kept.events,
            kept_steps,
            calls,
        };
        plan.convert_inputs()?;
        Ok(plan)
    }

    /// Returns the version on which a replay of this execution runs.
    ///
    /// # Errors
    /// The version or the automation is not available, or the store failed.
    pub async fn replayed_deployment(
        &self,
        row: &ExecutionRow,
        original: bool,
    ) -> Result<Arc<Deployment>, Error> {
        self.replay_version(&row.automation, row.definition, original).await
    }

    /// True if an execution of this version may call other systems.
    #[must_use]
    pub fn calls_out(&self, deployment: &Deployment) -> bool {
        !self.repeated_calls(&deployment.automation, &[], &HashSet::new()).is_empty()
    }

    async fn replay_version(
        &self,
        automation: &AutomationId,
        definition: DefinitionHash,
        original: bool,
    ) -> Result<Arc<Deployment>, Error> {
        if !original {
            return Ok(self.context.catalog.load().find(automation.as_str())?.clone());
        }
        let available = self.deployment(automation, definition).await;
        available
            .map_err(|reason| Error::NotReplayable(format!("the execution cannot be replayed: {reason}")))
    }

    /// The calls of an automation to other systems, without those of settled steps.
    fn repeated_calls(
        &self,
        automation: &Automation,
        log: &[Event],
        settled: &HashSet<String>,
    ) -> Vec<RepeatedCall> {
        let catalog = self.context.catalog.load();
        let called: HashSet<&str> = log.iter().filter_map(called_step).collect();
        let mut found = Vec::new();
        let mut visit = |block: &Block, list: &'static str| {
            block.walk(&mut |step| {
                let id: &str = &step.id;
                let (action, connection, effect) = match &step.verb {
                    Verb::Action(call) => {
                        let connection = call.connection.as_ref().map(ToString::to_string);
                        (call.action.name.clone(), connection, effect_of(&catalog, call))
                    }
                    Verb::Call(call) => (format!("call: {}", call.automation), None, Effect::Write),
                    _ => return,
                };
                if effect != Effect::Pure && !settled.contains(id) {
                    let (step, called) = (id.to_owned(), called.contains(id));
                    let writes = effect == Effect::Write;
                    found.push(RepeatedCall { step, action, connection, writes, list, called });
                }
            });
        };
        visit(&automation.steps, "steps");
        for (block, list) in [(&automation.on_error, "onError"), (&automation.finally, "finally")] {
            if let Some(block) = block {
                visit(block, list);
            }
        }
        let mut closing = HashMap::new();
        automation.walk(&mut |step| {
            for (handler, block) in step.handlers().filter(|(handler, _)| *handler != Handler::OnError) {
                block.walk(&mut |inner| {
                    closing.insert(inner.id.to_string(), handler.key());
                });
            }
        });
        for call in &mut found {
            call.list = closing.get(&call.step).copied().unwrap_or(call.list);
        }
        found
    }
}

/// The id of the step that an event shows to have called another system.
fn called_step(event: &Event) -> Option<&str> {
    match event {
        Event::StepCalled { step, .. } | Event::StepStarted { step, .. } => step.split('[').next(),
        _ => None,
    }
}
