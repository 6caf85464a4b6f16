//! Events of executions: the append-only log that the store keeps.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use value::{Map, Value};

use super::{ExecutionId, Outcome, StepOutcome};
use crate::action::ActionError;
use crate::automation::{AutomationId, DefinitionHash, TriggerId};
use crate::payload::{HttpResponse, Payload};

/// One entry of an execution's append-only log. The state of an execution is the fold of its events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Event {
    /// The execution was accepted. Always the first event, committed before any caller learns of it.
    Started {
        /// The time of the event.
        at: Timestamp,
        /// The id of the automation.
        automation: AutomationId,
        /// The hash of the definition, which the store keeps until the execution ends.
        definition: DefinitionHash,
        /// The kind of start.
        origin: Origin,
        /// The input. Shared, because its body may be large.
        payload: Arc<Payload>,
        /// The trigger that started it.
        #[serde(default, skip_serializing_if = "TriggerId::is_main")]
        trigger: TriggerId,
        /// The inputs that the trigger or its caller gave; `None` if the payload has the inputs, as for a manual trigger.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        inputs: Option<Arc<Map>>,
    },
    /// A daemon resumed the execution after another one had stopped before its end.
    Resumed {
        /// The time of the event.
        at: Timestamp,
        /// True if the execution was waiting at the stop, which therefore does not count as an interruption.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        waited: bool,
    },
    /// An attempt of a step started. Committed before the attempt only if the step must not run twice.
    StepStarted {
        /// The time of the event.
        at: Timestamp,
        /// The step, with the index of each iteration around it: `createPage`, `copy[2]`.
        step: String,
        /// The number of the attempt, from 1.
        attempt: u32,
    },
    /// An attempt failed and will be retried.
    StepRetry {
        /// The time of the failure.
        at: Timestamp,
        /// The step.
        step: String,
        /// The number of the failed attempt, from 1.
        attempt: u32,
        /// The error.
        error: ActionError,
        /// The time of the next attempt.
        next_at: Timestamp,
        /// The number of the policy that covers the error, from 1; `None` if the step has only one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        policy: Option<u32>,
    },
    /// A step failed permanently, and its `onError` block starts. The step itself never runs again.
    StepFailed {
        /// The time of the event.
        at: Timestamp,
        /// The step.
        step: String,
        /// The error.
        error: ActionError,
    },
    /// The last attempt of a step and its `onError` block have ended, and its `finally` block starts. Committed before that block; the
    /// steps inside the step never start again. With the mark [`Event::CUT`] behind the step it shows that lists side by side were cut off
    /// in which steps have a `finally` to run.
    StepClosing {
        /// The time of the event.
        at: Timestamp,
        /// The step.
        step: String,
        /// The outcome, as `finally` reads it.
        outcome: StepOutcome,
    },
    /// A step finished; it never runs again in this execution.
    StepFinished {
        /// The time of the event.
        at: Timestamp,
        /// The step.
        step: String,
        /// The duration of its last attempt, in microseconds.
        took_us: u64,
        /// The outcome.
        outcome: StepOutcome,
    },
    /// A step made a call. Committed with the next event, so a crash during the call leaves no record of it.
    StepCalled {
        /// The time of this record.
        at: Timestamp,
        /// The step.
        step: String,
        /// The call.
        call: CallRecord,
    },
    /// Records the start time of a step and the state that it read, so that a replay gives the same values.
    ///
    /// Written for steps that read the clock or the automation's state, and for steps whose timeout includes pauses. With the mark
    /// [`Event::BEGUN`] behind the step it shows only that the step has begun; with the mark [`Event::CHECKPOINT`], how far its call has
    /// come.
    #[serde(rename = "stepDated")]
    StepContextRecorded {
        /// The time of the event.
        at: Timestamp,
        /// The step.
        step: String,
        /// The values of the state that the step read, by key.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        state: Value,
    },
    /// A step started to wait. It holds no slot meanwhile.
    Waiting {
        /// The start of the wait.
        at: Timestamp,
        /// The step.
        step: String,
        /// The latest end of the wait; `None` if it is unknown.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Timestamp>,
        /// The deadline of the innermost timeout around the step; `None` if there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit: Option<Timestamp>,
        /// The event, approval, child, retry or instant that the step waits for.
        on: WaitReason,
    },
    /// A signal arrived for a waiting step. The step's condition decides if it ends the wait.
    Signalled {
        /// The time of the event.
        at: Timestamp,
        /// The step.
        step: String,
        /// The signal.
        signal: Signal,
    },
    /// The wait of a step ended.
    WaitEnded {
        /// The time of the event.
        at: Timestamp,
        /// The step.
        step: String,
        /// The id of the signal that ended the wait; `None` if it timed out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<String>,
    },
    /// A `respond` step set the response to the caller.
    Responded {
        /// The time of the event.
        at: Timestamp,
        /// The response.
        response: HttpResponse,
    },
    /// The execution failed permanently, and its `undo`, `onError` and `finally` blocks start. They read this error.
    Failing {
        /// The time of the event.
        at: Timestamp,
        /// The error.
        error: ActionError,
    },
    /// The execution was cancelled, and its closing blocks start.
    Cancelling {
        /// The time of the event.
        at: Timestamp,
        /// The reason, as text that names the source of the cancellation.
        reason: String,
    },
    /// The wall clock was set since the previous event. Durations measured from earlier timestamps must shift those
    /// timestamps by this amount.
    #[serde(rename = "clockSet")]
    ClockChanged {
        /// The time of detection, by the new clock.
        at: Timestamp,
        /// The shift in milliseconds; negative if the clock was set back.
        by_ms: i64,
    },
    /// The execution was delayed by something other than its own waits and retries, for [`Event::MIN_WAITED`] or longer.
    /// Recorded when the delay ends, and committed with the next event.
    Waited {
        /// The end of the delay.
        at: Timestamp,
        /// The delayed step; `None` if the whole execution was delayed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step: Option<String>,
        /// The cause of the delay.
        reason: DelayReason,
        /// The length of the delay, in milliseconds.
        ms: u64,
    },
    /// The caller of a synchronous webhook got a response that no other event records: 504 after a timeout.
    Answered {
        /// The time of the response.
        at: Timestamp,
        /// The HTTP status code.
        status: u16,
    },
    /// The execution failed and will be retried from the failed step.
    Retried {
        /// The time of the failure.
        at: Timestamp,
        /// The number of the failed attempt of the execution, from 1.
        attempt: u32,
        /// The error.
        error: ActionError,
        /// The time of the next attempt.
        next_at: Timestamp,
    },
    /// The execution finished. Always the last event.
    Finished {
        /// The time of the event.
        at: Timestamp,
        /// The outcome.
        outcome: Outcome,
    },
}

impl Event {
    /// The mark behind the step of an [`Event::StepContextRecorded`] that shows its start.
    pub const BEGUN: &str = "#begun";

    /// The mark behind the step of an [`Event::StepClosing`] that shows the end of lists side by side: of that step, or of the list that
    /// begins with it.
    pub const CUT: &str = "#cut";

    /// The mark behind the step of an [`Event::StepContextRecorded`] whose `state` is the checkpoint of a call in stages: a repetition goes
    /// on from there. The state is null if another attempt has to begin anew.
    pub const CHECKPOINT: &str = "#checkpoint";

    /// The mark behind the first of some closing steps, in an [`Event::StepContextRecorded`] that shows when their time limit began.
    pub const LIMITED: &str = "#limit";

    /// The shortest wait that is recorded as [`Event::Waited`].
    pub const MIN_WAITED: Duration = Duration::from_millis(100);

    /// True if the event only explains the history: the folded state does not depend on it.
    #[must_use]
    pub fn is_informational(&self) -> bool {
        matches!(self, Self::Waited { .. } | Self::Answered { .. })
    }

    /// The time of the event.
    #[must_use]
    pub fn at(&self) -> Timestamp {
        match self {
            Self::Started { at, .. }
            | Self::Resumed { at, .. }
            | Self::StepStarted { at, .. }
            | Self::StepRetry { at, .. }
            | Self::StepFailed { at, .. }
            | Self::StepClosing { at, .. }
            | Self::StepFinished { at, .. }
            | Self::StepCalled { at, .. }
            | Self::StepContextRecorded { at, .. }
            | Self::Waiting { at, .. }
            | Self::Signalled { at, .. }
            | Self::WaitEnded { at, .. }
            | Self::Responded { at, .. }
            | Self::Failing { at, .. }
            | Self::Cancelling { at, .. }
            | Self::ClockChanged { at, .. }
            | Self::Waited { at, .. }
            | Self::Answered { at, .. }
            | Self::Retried { at, .. }
            | Self::Finished { at, .. } => *at,
        }
    }
}

/// A call made by a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum CallRecord {
    /// The last HTTP request of one attempt of an action.
    Request {
        /// The HTTP method.
        method: String,
        /// The URL without credentials, query and fragment, at most [`CallRecord::MAX_URL_CHARS`] characters.
        url: String,
    },
    /// The execution started by one attempt of a `call`.
    Execution {
        /// Its id.
        id: ExecutionId,
    },
}

impl CallRecord {
    /// The maximum number of characters of a recorded URL.
    pub const MAX_URL_CHARS: usize = 300;
}

/// The cause of a delay that the automation did not request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
#[schema(as = HoldReason)]
pub enum DelayReason {
    /// The number of running executions was at the limit `limits.inFlight`.
    Slot,
    /// The large values of other executions took the memory that the data of its trigger need (`limits.memory`).
    Memory,
    /// Other executions held all permits of its concurrency key.
    Permit {
        /// The concurrency key; empty if the automation has none.
        key: String,
        /// The execution that passed on its permit, or that held one when the wait was cancelled.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<String>)]
        holder: Option<ExecutionId>,
    },
    /// The store had not yet committed the events that the step depends on.
    Commit,
    /// The number of concurrent requests to a host was at its limit, or the host had requested a pause.
    Host {
        /// The name of the host.
        host: String,
    },
}

impl DelayReason {
    /// Returns the name used in JSON and tables.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Slot => "slot",
            Self::Memory => "memory",
            Self::Permit { .. } => "permit",
            Self::Commit => "commit",
            Self::Host { .. } => "host",
        }
    }
}

/// The end condition of a waiting step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum WaitReason {
    /// Waits for a duration or until an instant.
    Time,
    /// Waits for an event.
    Event {
        /// The name of the event.
        name: String,
    },
    /// Waits for a person's answer.
    Approval {
        /// The question.
        message: String,
        /// The options to choose from.
        options: Vec<String>,
    },
    /// Waits for the end of a called execution.
    Call {
        /// The id of the called execution.
        #[schema(value_type = String)]
        execution: ExecutionId,
    },
    /// Waits until the next look at work that goes on at a service.
    Operation {
        /// The id that the service has given it.
        id: String,
        /// The number of looks so far.
        looks: u32,
    },
}

impl WaitReason {
    /// Returns the name used in JSON and tables.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Event { .. } => "event",
            Self::Approval { .. } => "approval",
            Self::Call { .. } => "call",
            Self::Operation { .. } => "operation",
        }
    }
}

/// An event or an answer delivered to a waiting step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Signal {
    /// The unique id, by which a repeated delivery is ignored.
    pub id: String,
    /// The name of the event; empty for an answer.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The data of the event, or the answer `{option, form}`.
    pub data: Value,
    /// A description of the sender; `None` if it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// The kind of start of an execution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Origin {
    /// A request to the live webhook.
    Webhook,
    /// A request to the test webhook; marked as a test everywhere.
    Test,
    /// A schedule.
    Schedule {
        /// The scheduled instant. With the automation's id it is unique for all time.
        instant: Timestamp,
    },
    /// New data found by a poll.
    Poll,
    /// An event of another application, received from a subscription or found by a poll.
    Event,
    /// A manual start by a person, the command line or the API.
    Manual,
    /// A `call` step of another execution.
    Call {
        /// The id of the calling execution.
        #[schema(value_type = String)]
        execution: ExecutionId,
        /// The calling step.
        step: String,
        /// The depth of nested calls: 1 if the caller was not called itself.
        depth: u32,
        /// True if the caller is a test.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        test: bool,
        /// True if the caller waits for it, and so cancels it when it ends first.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        awaited: bool,
        /// The trace id of the caller's chain of executions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trace: Option<String>,
    },
    /// An own event.
    Emitted {
        /// The name of the event.
        event: String,
        /// The id of the event.
        id: String,
        /// The execution that sent it; absent for an event of the API.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<String>)]
        sender: Option<ExecutionId>,
        /// The step that sent it, with its iteration indices; absent for an event of the API.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step: Option<String>,
        /// True if the sender is a test.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        test: bool,
        /// The trace id of the sender's chain of executions, with the depth of this execution.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trace: Option<String>,
    },
    /// A replay of an earlier execution, started by a person, the command line or the API.
    Replay {
        /// The replayed execution.
        #[schema(value_type = String)]
        of: ExecutionId,
        /// The first step that runs again, with its iteration indices; absent if all steps run again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<String>,
        /// The number of events after *started* that come from the log of the replayed execution: the results of the steps
        /// before `from`.
        #[serde(default, skip_serializing_if = "is_zero")]
        kept: u32,
        /// True if it is a test.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        test: bool,
    },
    /// An import of an execution that ran on another daemon. It has ended, and never runs here.
    Imported {
        /// The time of the import.
        at: Timestamp,
        /// Its origin there.
        #[schema(no_recursion)]
        original: Box<Origin>,
    },
}

impl Origin {
    /// True if the execution is a test. Tests are listed separately and have their own state.
    #[must_use]
    pub fn is_test(&self) -> bool {
        match self {
            Self::Test
            | Self::Call { test: true, .. }
            | Self::Emitted { test: true, .. }
            | Self::Replay { test: true, .. } => true,
            Self::Imported { original, .. } => original.is_test(),
            _ => false,
        }
    }

    /// Returns the number of events after *started* that are stored before the execution runs; 0 unless it is a replay from
    /// a step.
    #[must_use]
    pub fn kept_events(&self) -> u32 {
        match self {
            Self::Replay { kept, .. } => *kept,
            Self::Imported { original, .. } => original.kept_events(),
            _ => 0,
        }
    }

    /// Returns the name of the own event, or the event of the engine, that started it.
    #[must_use]
    pub fn emitted_event(&self) -> Option<&str> {
        if let Self::Emitted { event, .. } = self { Some(event) } else { None }
    }

    /// Returns the id of the own event, or of the event of the engine, that started it.
    #[must_use]
    pub fn event_id(&self) -> Option<&str> {
        if let Self::Emitted { id, .. } = self { Some(id) } else { None }
    }

    /// Returns the execution that this one replays.
    #[must_use]
    pub fn replay_of(&self) -> Option<ExecutionId> {
        match self {
            Self::Replay { of, .. } => Some(*of),
            _ => None,
        }
    }

    /// Returns the execution whose event started this one: an own event that it sent, or an event of the engine about it.
    #[must_use]
    pub fn sender(&self) -> Option<ExecutionId> {
        if let Self::Emitted { sender, .. } = self { *sender } else { None }
    }

    /// Returns the step that sent the own event, with its iteration indices.
    #[must_use]
    pub fn sender_step(&self) -> Option<&str> {
        if let Self::Emitted { step, .. } = self { step.as_deref() } else { None }
    }

    /// Returns the name used in tables and filters.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Webhook => "webhook",
            Self::Test => "test",
            Self::Schedule { .. } => "schedule",
            Self::Poll => "poll",
            Self::Event => "event",
            Self::Manual => "manual",
            Self::Call { .. } => "call",
            Self::Emitted { .. } => "emitted",
            Self::Replay { .. } => "replay",
            Self::Imported { .. } => "imported",
        }
    }
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}
