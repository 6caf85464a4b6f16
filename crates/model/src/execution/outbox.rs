//! Events on their way to the triggers that they start.

use serde::{Deserialize, Serialize};

use super::{ExecutionId, Origin};
use crate::automation::TriggerKey;
use crate::payload::EmittedEvent;

/// An event on its way to triggers, as the body of a row of the store's outbox.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OutboxEvent {
    /// The event as its consumers get it.
    pub event: EmittedEvent,
    /// The execution that sent it; absent for an event of the API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender: Option<ExecutionId>,
    /// The step that sent it, with its iteration indices; absent for an event of the API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The chain of executions that sent it: `<chain>;<depth>`, with the depth of the sender; absent for an event of the API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// True if the sender is a test: the event starts tests only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub test: bool,
    /// The triggers in force that it was to start when it was sent. Another node may not have all of them yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub consumers: Vec<TriggerKey>,
}

impl EmittedEvent {
    /// Returns the origin of an execution that the event starts without a sender.
    #[must_use]
    pub fn origin(&self) -> Origin {
        let (event, id) = (self.event.clone(), self.id.clone());
        Origin::Emitted { event, id, sender: None, step: None, test: false, trace: None }
    }
}

impl OutboxEvent {
    /// Returns the origin of an execution that the event starts, whose chain is `trace`.
    #[must_use]
    pub fn origin(&self, trace: Option<String>) -> Origin {
        Origin::Emitted {
            event: self.event.event.clone(),
            id: self.event.id.clone(),
            sender: self.sender,
            step: self.step.clone(),
            test: self.test,
            trace,
        }
    }
}
