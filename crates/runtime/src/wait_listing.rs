//! The waiting steps of an execution in short form, for lists: read from the store without the events.

use std::sync::Arc;

use jiff::Timestamp;
use model::automation::{Automation, Verb, WaitOn};
use model::execution::ExecutionId;
use serde::Serialize;
use store::{ExecutionRow, Wait};

use crate::error::Error;
use crate::records::Records;

/// The maximum number of waiting steps that a list shows of one execution.
const SHOWN: usize = 5;

/// The waiting steps of an execution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Pauses {
    /// Their total number.
    pub count: usize,
    /// The first five.
    pub first: Vec<Pause>,
}

/// A waiting step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Pause {
    /// The step with its loop iterations; empty if the whole execution waits for its next attempt.
    pub step: String,
    /// The kind of the wait.
    pub kind: PauseKind,
    /// When the wait ends at the latest; absent if that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The name of the event, for kind `event`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// The called execution, for kind `call`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub execution: Option<ExecutionId>,
}

/// The kind of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum PauseKind {
    /// A duration, or an instant.
    Time,
    /// An event.
    Event,
    /// The answer of a person.
    Approval,
    /// The end of a called execution.
    Call,
    /// The next look at work that goes on at a service.
    Operation,
    /// The next attempt.
    Retry,
}

impl PauseKind {
    /// Returns the name used in JSON and filters.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Event => "event",
            Self::Approval => "approval",
            Self::Call => "call",
            Self::Operation => "operation",
            Self::Retry => "retry",
        }
    }
}

impl Pauses {
    /// Describes the waits that the store lists, by the definition that the execution runs on.
    #[must_use]
    pub fn new(automation: Option<&Automation>, waits: Vec<Wait>) -> Self {
        let count = waits.len();
        let first = waits.into_iter().take(SHOWN).map(|wait| Pause::new(automation, wait)).collect();
        Self { count, first }
    }
}

impl Pause {
    fn new(automation: Option<&Automation>, wait: Wait) -> Self {
        let kind = match &wait {
            Wait { event: Some(_), .. } => PauseKind::Event,
            Wait { child: Some(_), .. } => PauseKind::Call,
            Wait { step, .. } if step.ends_with(Wait::OPERATION) => PauseKind::Operation,
            Wait { step, .. } => kind(automation, step),
        };
        let event = wait.event.map(|event| event.name);
        let step = wait.step.trim_end_matches(Wait::OPERATION).to_owned();
        Self { step, kind, until: wait.until, event, execution: wait.child }
    }
}

/// The kind of a wait, derived from the verb of its step.
fn kind(automation: Option<&Automation>, step: &str) -> PauseKind {
    // An entry such as `poll[2]#delay` is the delay before one iteration of a loop.
    if step.contains('#') {
        return PauseKind::Time;
    }
    let id = step.split('[').next().unwrap_or_default();
    let mut kind = PauseKind::Retry;
    if let Some(automation) = automation {
        automation.walk(&mut |known| match &known.verb {
            Verb::Wait(_) if known.id.as_ref() == id => kind = PauseKind::Time,
            Verb::WaitFor(wait) if known.id.as_ref() == id && matches!(wait.on, WaitOn::Approval(_)) => {
                kind = PauseKind::Approval;
            }
            _ => {}
        });
    }
    kind
}

impl Records {
    /// The waiting steps of an execution in short form.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub async fn pauses(&self, row: &ExecutionRow) -> Result<Pauses, Error> {
        let waits = self.context.store.waits(row.id).await?;
        // Without the definition some kinds are unknown and shown as `retry`.
        let deployment = self.deployment(&row.automation, row.definition).await.ok();
        Ok(Pauses::new(deployment.as_ref().map(|deployment| deployment.automation.as_ref()), waits))
    }

    /// The automation of an execution, in the version that it runs on; `None` if this version cannot load the definition.
    pub async fn automation_of(&self, row: &ExecutionRow) -> Option<Arc<Automation>> {
        let deployment = self.deployment(&row.automation, row.definition).await.ok();
        deployment.map(|deployment| deployment.automation.clone())
    }
}
