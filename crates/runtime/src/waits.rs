//! What executions wait for, in short, as lists show it: read from the store alone, without their events.

use std::sync::Arc;

use jiff::Timestamp;
use model::automation::{Automation, Verb, WaitOn};
use model::execution::ExecutionId;
use serde::Serialize;
use store::{ExecutionRow, Wait};

use crate::Error;
use crate::context::Runtime;

/// The most pauses of one execution that are told.
const SHOWN: usize = 5;

/// The pauses of an execution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Pauses {
    /// How many there are.
    pub count: usize,
    /// The first five.
    pub first: Vec<Pause>,
}

/// A step that pauses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pause {
    /// Which step, with its loop turns; empty for the whole execution, which waits for its next try.
    pub step: String,
    /// For what: `time`, `event`, `approval`, `call` or `retry`.
    pub kind: &'static str,
    /// Until when at the latest, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The name of the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// The execution whose end it waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution: Option<ExecutionId>,
}

impl Pauses {
    /// What the store says of an execution, put into words with the definition that it runs on.
    #[must_use]
    pub fn new(automation: Option<&Automation>, waits: Vec<Wait>) -> Self {
        let count = waits.len();
        let first = waits.into_iter().take(SHOWN).map(|wait| Pause::of(automation, wait)).collect();
        Self { count, first }
    }
}

impl Pause {
    fn of(automation: Option<&Automation>, wait: Wait) -> Self {
        let kind = match &wait {
            Wait { event: Some(_), .. } => "event",
            Wait { child: Some(_), .. } => "call",
            Wait { step, .. } => kind(automation, step),
        };
        Self { step: wait.step, kind, until: wait.until, event: wait.event, execution: wait.child }
    }
}

/// The kind of a wait that only its step tells.
fn kind(automation: Option<&Automation>, step: &str) -> &'static str {
    // What a loop keeps for one of its turns is the pause before it: `poll[2]#delay`.
    if step.contains('#') {
        return "time";
    }
    let id = step.split('[').next().unwrap_or_default();
    let mut kind = "retry";
    if let Some(automation) = automation {
        automation.walk(&mut |known| match &known.verb {
            Verb::Wait(_) if known.id.as_ref() == id => kind = "time",
            Verb::WaitFor(wait) if known.id.as_ref() == id && matches!(wait.on, WaitOn::Approval(_)) => {
                kind = "approval";
            }
            _ => {}
        });
    }
    kind
}

impl Runtime {
    /// What an execution in the store's list waits for, in short.
    ///
    /// # Errors
    /// The store failed.
    pub async fn pauses(&self, row: &ExecutionRow) -> Result<Pauses, Error> {
        let waits = self.store.waits(row.id).await?;
        // A definition that this version does not load leaves the kinds a little vague, and nothing else.
        let deployed = self.deployed(&row.automation, row.definition).await.ok();
        Ok(Pauses::new(deployed.as_ref().map(|deployed| deployed.automation.as_ref()), waits))
    }

    /// The Automation that an execution runs on, or ran; none where this version does not load its definition.
    pub async fn automation_of(&self, row: &ExecutionRow) -> Option<Arc<Automation>> {
        let deployed = self.deployed(&row.automation, row.definition).await.ok();
        deployed.map(|deployed| deployed.automation.clone())
    }
}
