//! The plain values of the engine's API: starts, events, and views of its state.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use model::LogLine;
use model::action::{ActionError, InputSpec};
use model::automation::{AutomationId, TriggerId};
use model::execution::{Event, ExecutionId, Origin, Outcome, WaitReason};
use model::payload::{HttpResponse, Payload};
use serde::Serialize;
use store::{AcceptOutcome, DedupRecord, OutboxRow, Watermark};
use tokio::sync::watch;
use value::{Map, Value};

use crate::error::Error;

/// The start of an execution.
#[derive(Clone, Debug)]
pub struct Start {
    /// The data that it starts with.
    pub payload: Payload,
    /// The kind of start.
    pub origin: Origin,
    /// The trigger.
    pub by: StartedBy,
}

/// The trigger of a start, and what it gives beside the payload.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StartedBy {
    /// The id of the trigger.
    pub trigger: TriggerId,
    /// The inputs; `None` if the payload has them.
    pub inputs: Option<Arc<Map>>,
}

impl StartedBy {
    /// The start by a trigger that gives no inputs beside the payload.
    #[must_use]
    pub fn trigger(id: &TriggerId) -> Self {
        Self { trigger: id.clone(), inputs: None }
    }
}

/// A start by hand.
#[derive(Clone, Debug)]
pub struct ManualStart {
    /// The payload of the trigger. For a manual trigger it contains the inputs that the caller gives.
    pub payload: Payload,
    /// The inputs with which the caller overrides the inputs of the trigger; `None` without any, and for a manual trigger.
    pub inputs: Option<Map>,
    /// The kind of start.
    pub origin: Origin,
}

impl ManualStart {
    /// A start with nothing beside its payload.
    #[must_use]
    pub fn new(payload: Payload, origin: Origin) -> Self {
        Self { payload, inputs: None, origin }
    }
}

/// The options of an acceptance.
#[derive(Default)]
pub struct AcceptOptions {
    /// The id of the execution; `None` to create one.
    pub id: Option<ExecutionId>,
    /// A key that is unique in its automation.
    pub key: Option<String>,
    /// The deduplication keys of the request.
    pub dedup_records: Vec<DedupRecord>,
    /// The watermark of the schedule, committed with the execution.
    pub watermark: Option<Watermark>,
    /// Events of the engine that are committed with the execution.
    pub emits: Vec<OutboxRow>,
    /// True if the execution must start at once or be rejected.
    pub at_once: bool,
    /// The slot in which it runs.
    pub slot: Slot,
    /// `trigger.results`, if the caller has parsed the payload already.
    pub results: Option<Value>,
    /// An initial error: only `onError` and `finally` run, none of the main steps.
    pub fails: Option<ActionError>,
    /// The events that a replay keeps of the execution that it replays; as many as its origin says.
    pub kept: Vec<Event>,
}

/// The slot in which an execution runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Slot {
    /// A slot of its own, for which it may have to wait.
    #[default]
    Own,
    /// The slot of the calling execution, which waits for its end.
    Shared,
}

/// The result of a start.
pub struct Acceptance {
    /// The new execution, or the earlier one of the same key or request.
    pub id: ExecutionId,
    /// New, or found by its key.
    pub accepted: AcceptOutcome,
    /// Its progress, if it runs already and the caller waits for its end.
    pub progress: Option<watch::Receiver<Progress>>,
}

/// The progress of an execution, for callers that wait.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// The committed answer of a `respond` step.
    pub response: Option<HttpResponse>,
    /// The committed outcome.
    pub outcome: Option<Outcome>,
    /// True if this process will not run it to its end.
    pub is_left: bool,
    /// True while it is suspended or waits for a slot or a permit.
    pub(crate) is_parked: bool,
}

/// The result of sending an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SentEvent {
    /// The number of steps that received it.
    pub delivered: u64,
    /// True if it is retained for steps that wait for it later.
    pub kept: bool,
    /// The id of the event.
    pub id: String,
    /// The triggers that it starts, as people call them: `orders`, `orders/paid`.
    pub starts: Vec<String>,
    /// True if an event with this name and id was sent before, so that nothing was sent now.
    pub repeated: bool,
}

/// The reason why a signal was not delivered.
#[derive(Debug, thiserror::Error)]
pub enum SignalError {
    /// No step waits for the signal, or it has been answered already.
    #[error("no step of the execution waits for this; it may have been answered already")]
    NotWaiting,
    /// Several steps wait, and the request names none.
    #[error("several steps wait; name one of them: {}", .0.join(", "))]
    Several(Vec<String>),
    /// The answer is not one of the options, or the form is invalid.
    #[error("{0}")]
    Answer(String),
    /// The step has received more signals than it reads.
    #[error(
        "the step has received too many events that it does not wait for; use event names that tell them apart"
    )]
    TooMany,
    /// An error of the engine.
    #[error(transparent)]
    Engine(#[from] Error),
}

/// An event that the engine publishes to its subscribers.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum EngineEvent {
    /// Another catalog snapshot is in force.
    CatalogChanged {
        /// The number of the snapshot.
        generation: u64,
    },
    /// An execution made progress.
    ExecutionEvents {
        /// The execution.
        id: ExecutionId,
        /// Its automation.
        automation: AutomationId,
        /// Its status after these events.
        status: model::Status,
        /// Its new events, in order. Step starts are published at once, and may come twice; all other events are
        /// published when they are committed. Empty, as `logs` is, if there was no subscriber when the commit began: then
        /// the events are in the store only.
        events: Arc<Vec<Event>>,
        /// Its new log lines.
        logs: Arc<Vec<LogLine>>,
    },
}

/// The waits of an execution: for a slot, for a concurrency permit, and of its steps.
#[derive(Clone, Debug, Default, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueStatus {
    /// The number of executions before it in the queue for a slot or for memory; absent if it is not queued.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queued_behind: Option<usize>,
    /// True if the queue is the one for memory, which the large data of its trigger need (`limits.memory`).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub for_memory: bool,
    /// True if the store refuses a write of it, which is tried again: `outage` in the status has the reason.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub for_store: bool,
    /// The concurrency group in which it waits for a permit; absent if it waits for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<ConcurrencyWait>,
    /// The waiting steps.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pauses: Vec<Pending>,
}

/// The wait for a permit of a concurrency group.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Turn)]
pub struct ConcurrencyWait {
    /// The concurrency key; empty if the automation has none.
    pub key: String,
    /// The executions that hold a permit, in the order in which they got it.
    #[schema(value_type = Vec<String>)]
    pub holders: Vec<ExecutionId>,
    /// The number of executions that wait before it.
    pub ahead: usize,
}

/// The state of the engine.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The number of executions that run.
    pub in_flight: usize,
    /// The number of suspended executions.
    pub resting: usize,
    /// The number of executions that wait for a slot.
    pub queued: usize,
    /// True if starts are accepted.
    pub accepting: bool,
    /// The number of the catalog snapshot in force.
    pub generation: u64,
    /// The number of starts that were rejected or skipped, by reason.
    pub refused: BTreeMap<String, u64>,
    /// When the engine started.
    pub started_at: Timestamp,
}

/// A waiting step, with what is needed to answer it.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Pending {
    /// The execution.
    #[schema(value_type = String)]
    pub execution: ExecutionId,
    /// The automation.
    #[schema(value_type = String)]
    pub automation: AutomationId,
    /// The display name of the automation.
    pub automation_name: String,
    /// The step with its loop iterations.
    pub step: String,
    /// When the wait began.
    pub since: Timestamp,
    /// When the wait ends at the latest; absent if that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The reason of the wait.
    pub on: WaitReason,
    /// The form fields that a person fills in with the answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub form: Vec<InputSpec>,
}
