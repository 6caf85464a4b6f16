//! What the engine is told and what it tells, in plain values.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use model::action::InputSpec;
use model::automation::AutomationId;
use model::execution::{Event, ExecutionId, LogLine, Origin, WaitReason};
use model::payload::Payload;
use serde::Serialize;

/// What started an execution, and with what.
#[derive(Clone, Debug)]
pub struct Start {
    /// With what.
    pub payload: Payload,
    /// By whom or what.
    pub origin: Origin,
}

/// Something that happened, for whoever watches.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Notice {
    /// Another snapshot is in force.
    CatalogChanged {
        /// Which.
        generation: u64,
    },
    /// An execution went on.
    ExecutionEvents {
        /// Which.
        id: ExecutionId,
        /// Of which Automation.
        automation: AutomationId,
        /// Where it stands now.
        status: model::Status,
        /// What happened, in order. Step starts are told at once, everything else once it is committed; a step
        /// start may come twice. Empty, with no lines either, where nobody watched yet when the commit began: then
        /// what happened is in the store alone.
        events: Arc<Vec<Event>>,
        /// What it logged.
        logs: Arc<Vec<LogLine>>,
    },
}

/// What an execution waits for.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Standing {
    /// How many are before it in the queue for a slot, where it is in there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queued_behind: Option<usize>,
    /// Who has the places of its concurrency key, where it waits for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<Turn>,
    /// The steps that pause.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pauses: Vec<Pending>,
}

/// The places of a concurrency key.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Turn {
    /// The key; empty where all executions of the Automation have the same.
    pub key: String,
    /// Who has a place, the one that had it first before the others.
    pub holders: Vec<ExecutionId>,
    /// How many are before it.
    pub ahead: usize,
}

/// How the engine is doing.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Executions whose steps run.
    pub in_flight: usize,
    /// Executions of which nothing but pauses is left.
    pub resting: usize,
    /// Executions accepted and not begun.
    pub queued: usize,
    /// Whether starts are accepted.
    pub accepting: bool,
    /// The snapshot in force.
    pub generation: u64,
    /// Starts that were refused or passed over, by reason.
    pub refused: BTreeMap<String, u64>,
    /// When the engine started.
    pub started_at: Timestamp,
}

/// A step that pauses.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pending {
    /// Of which execution.
    pub execution: ExecutionId,
    /// Of which Automation.
    pub automation: AutomationId,
    /// What people call the Automation.
    pub automation_name: String,
    /// Which step, with its loop turns.
    pub step: String,
    /// Since when.
    pub since: Timestamp,
    /// Until when at the latest, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// For what.
    pub on: WaitReason,
    /// What else a person is asked to fill in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub form: Vec<InputSpec>,
}
