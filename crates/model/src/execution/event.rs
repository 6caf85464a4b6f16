//! What happens to an execution.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{ExecutionId, Outcome, StepOutcome};
use crate::action::ActionError;
use crate::automation::{AutomationId, DefinitionHash};
use crate::payload::{HttpResponse, Payload};
use crate::value::Value;

/// One thing that happened to an execution. The list is append-only; the state is its fold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Event {
    /// It was accepted. Always the first event, committed before any caller hears of it.
    Started {
        /// When.
        at: Timestamp,
        /// Of which Automation.
        automation: AutomationId,
        /// On which definition, kept by content hash until the end.
        definition: DefinitionHash,
        /// What started it.
        origin: Origin,
        /// With what. Shared with whoever carries it on: a body may be large.
        payload: Arc<Payload>,
    },
    /// A daemon took it up again after another had stopped in its midst.
    Resumed {
        /// When.
        at: Timestamp,
        /// Whether it waited when the other one stopped, so that the stop does not count as an interruption.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        waited: bool,
    },
    /// A step began a try. Committed beforehand only where the step may not run twice.
    StepStarted {
        /// When.
        at: Timestamp,
        /// Which step, with its loop turns: `createPage`, `copy[2]`.
        step: String,
        /// Which try, from 1.
        attempt: u32,
    },
    /// A try failed and another follows.
    StepRetry {
        /// When it failed.
        at: Timestamp,
        /// Which step.
        step: String,
        /// Which try failed, from 1.
        attempt: u32,
        /// Why.
        error: ActionError,
        /// When the next try begins.
        next_at: Timestamp,
    },
    /// A step failed for good and its `onError` list begins: the step itself never runs again.
    StepFailed {
        /// When.
        at: Timestamp,
        /// Which step.
        step: String,
        /// Why.
        error: ActionError,
    },
    /// A step came to its end; it never runs again in this execution.
    StepFinished {
        /// When.
        at: Timestamp,
        /// Which step.
        step: String,
        /// How long its last try took, in microseconds.
        took_us: u64,
        /// How it ended.
        outcome: StepOutcome,
    },
    /// A step made a call. Recorded with what follows it and committed with that: a call that a crash cut off is not named.
    StepCalled {
        /// When the call was recorded.
        at: Timestamp,
        /// Which step.
        step: String,
        /// The call.
        call: CallRecord,
    },
    /// A step began at an instant that stays part of what it does: it reads the clock or the Automation's state, or its
    /// time limit spans pauses.
    #[serde(rename = "stepDated")]
    StepContextRecorded {
        /// When.
        at: Timestamp,
        /// Which step.
        step: String,
        /// What it read of the state, by key.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        state: Value,
    },
    /// A step pauses. It holds no slot while it does.
    Waiting {
        /// When the pause began.
        at: Timestamp,
        /// Which step.
        step: String,
        /// When it ends at the latest, where that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Timestamp>,
        /// When a time limit around it is up.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit: Option<Timestamp>,
        /// For what.
        on: WaitReason,
    },
    /// What a pausing step may have waited for has come. Whether it lets it through is the step's to say.
    Signalled {
        /// When.
        at: Timestamp,
        /// Which step.
        step: String,
        /// What came.
        signal: Signal,
    },
    /// The wait of a step ended.
    WaitEnded {
        /// When.
        at: Timestamp,
        /// Which step.
        step: String,
        /// The id of the signal that it let through; `None` where its time was up.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<String>,
    },
    /// The caller's answer was decided by a `respond` step.
    Responded {
        /// When.
        at: Timestamp,
        /// The answer.
        response: HttpResponse,
    },
    /// It failed for good, and its closing steps begin: what was undone, handled and closed goes by this error.
    Failing {
        /// When.
        at: Timestamp,
        /// Why.
        error: ActionError,
    },
    /// Somebody ended it, and its closing steps begin.
    Cancelling {
        /// When.
        at: Timestamp,
        /// Who or what, in words.
        reason: String,
    },
    /// Since the event before, the clock of the machine was set: what lasts a certain time counts from the instants before
    /// as if they had been so much later.
    #[serde(rename = "clockSet")]
    ClockChanged {
        /// When that was seen, as the clock shows it by now.
        at: Timestamp,
        /// Forward by so many milliseconds; back where it is negative.
        by_ms: i64,
    },
    /// The execution waited for something other than its own pauses and retries, for [`Event::MIN_WAITED`] or longer.
    /// Recorded when the wait ends and committed with what follows it.
    Waited {
        /// When the wait ended.
        at: Timestamp,
        /// The step that waited; `None` if the whole execution did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step: Option<String>,
        /// The cause of the wait.
        reason: DelayReason,
        /// The length of the wait in milliseconds.
        ms: u64,
    },
    /// The answer that the caller of a synchronous webhook got, if no other event of the log tells it: 504 after a timeout.
    Answered {
        /// When the caller was answered.
        at: Timestamp,
        /// The HTTP status code.
        status: u16,
    },
    /// The whole execution will be tried again from the step that failed.
    Retried {
        /// When it failed.
        at: Timestamp,
        /// Which try of the execution failed, from 1.
        attempt: u32,
        /// Why.
        error: ActionError,
        /// When the next try begins.
        next_at: Timestamp,
    },
    /// It came to its end. Always the last event.
    Finished {
        /// When.
        at: Timestamp,
        /// How it ended.
        outcome: Outcome,
    },
}

impl Event {
    /// The shortest wait that is recorded as [`Event::Waited`].
    pub const MIN_WAITED: Duration = Duration::from_millis(100);

    /// True for events that only explain the history: nothing in the state of an execution depends on them.
    #[must_use]
    pub fn is_informational(&self) -> bool {
        matches!(self, Self::Waited { .. } | Self::Answered { .. })
    }

    /// When it happened.
    #[must_use]
    pub fn at(&self) -> Timestamp {
        match self {
            Self::Started { at, .. }
            | Self::Resumed { at, .. }
            | Self::StepStarted { at, .. }
            | Self::StepRetry { at, .. }
            | Self::StepFailed { at, .. }
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

/// A call that a step made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum CallRecord {
    /// The last request that one try of an action sent.
    Request {
        /// The HTTP method.
        method: String,
        /// The address without credentials, query and fragment, at most [`CallRecord::MAX_URL_CHARS`] characters.
        url: String,
    },
    /// The execution that one try of a `call` started.
    Execution {
        /// Its id.
        id: ExecutionId,
    },
}

impl CallRecord {
    /// The most characters of an address that are kept.
    pub const MAX_URL_CHARS: usize = 300;
}

/// The cause of a delay that the execution itself did not ask for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum DelayReason {
    /// As many executions as `limits.inFlight` allows were running.
    Slot,
    /// Other executions held all permits of its concurrency key.
    Permit {
        /// The concurrency key; empty if the automation has none.
        key: String,
        /// The execution whose permit it got, or that held one when the wait was cancelled.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        holder: Option<ExecutionId>,
    },
    /// The store had not committed what the step depends on.
    Commit,
    /// The limit of concurrent requests to a host was reached, or the host had asked for a break.
    Host {
        /// The name of the host.
        host: String,
    },
}

impl DelayReason {
    /// The word for it in JSON and tables.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Slot => "slot",
            Self::Permit { .. } => "permit",
            Self::Commit => "commit",
            Self::Host { .. } => "host",
        }
    }
}

/// For what a step pauses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum WaitReason {
    /// For its time to be up.
    Time,
    /// For an event of this name.
    Event {
        /// The name.
        name: String,
    },
    /// For a person's answer.
    Approval {
        /// The question.
        message: String,
        /// The answers to choose from.
        options: Vec<String>,
    },
    /// For the end of the execution that it started.
    Call {
        /// Which.
        execution: ExecutionId,
    },
}

impl WaitReason {
    /// The word for it in JSON and tables.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Event { .. } => "event",
            Self::Approval { .. } => "approval",
            Self::Call { .. } => "call",
        }
    }
}

/// What comes to a step that pauses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Signal {
    /// What tells it from others, so that one that is sent twice counts once.
    pub id: String,
    /// The event's name; empty for an answer.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The event's data, or the answer `{option, form}`.
    pub data: Value,
    /// Who or what sent it, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// What started an execution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Origin {
    /// A request on the live address.
    Webhook,
    /// A request on the test address; marked as a test everywhere.
    Test,
    /// The clock.
    Schedule {
        /// The instant that was due; with the Automation it is unique for ever.
        instant: Timestamp,
    },
    /// New data that a poll found.
    Poll,
    /// Something that happened in another application, which told of it or was polled for it.
    Event,
    /// A person, the command line or the API.
    Manual,
    /// A `call` step of another execution.
    Call {
        /// Which execution.
        execution: ExecutionId,
        /// Which of its steps.
        step: String,
        /// How many calls deep: 1 for a call by an execution that was not called itself.
        depth: u32,
        /// Whether the caller is a test.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        test: bool,
        /// The chain of executions that the caller belongs to, as its calls name it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trace: Option<String>,
    },
}

impl Origin {
    /// Whether the execution is a test: shown apart, with its own state.
    #[must_use]
    pub fn is_test(&self) -> bool {
        matches!(self, Self::Test | Self::Call { test: true, .. })
    }

    /// The word for it in tables and filters.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Webhook => "webhook",
            Self::Test => "test",
            Self::Schedule { .. } => "schedule",
            Self::Poll => "poll",
            Self::Event => "event",
            Self::Manual => "manual",
            Self::Call { .. } => "call",
        }
    }
}
