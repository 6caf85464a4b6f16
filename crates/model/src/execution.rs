//! One run: its id, its events, and the state that is their fold.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::action::ActionError;
use crate::automation::{AutomationId, DefinitionHash};
use crate::payload::{HttpResponse, Payload};
use crate::value::Value;

/// The identity of an execution: a version 7 UUID, so ids sort by the time of acceptance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ExecutionId(Uuid);

impl ExecutionId {
    /// An id for an execution accepted at `now`, with these random bits.
    #[must_use]
    pub fn new(now: Timestamp, random: [u8; 10]) -> Self {
        let millis = u64::try_from(now.as_millisecond()).unwrap_or_default();
        Self(uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid())
    }

    /// The 16 bytes, in order of time.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }

    /// The id of these 16 bytes.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }
}

impl fmt::Display for ExecutionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl FromStr for ExecutionId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

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
        /// With what.
        payload: Payload,
    },
    /// A daemon took it up again after another had stopped in its midst.
    Resumed {
        /// When.
        at: Timestamp,
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
    /// A step began at an instant that stays part of what it does: it reads the clock or the Automation's state, or its
    /// time limit spans pauses.
    StepDated {
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
    /// When it happened.
    #[must_use]
    pub fn at(&self) -> Timestamp {
        match self {
            Self::Started { at, .. }
            | Self::Resumed { at }
            | Self::StepStarted { at, .. }
            | Self::StepRetry { at, .. }
            | Self::StepFailed { at, .. }
            | Self::StepFinished { at, .. }
            | Self::StepDated { at, .. }
            | Self::Waiting { at, .. }
            | Self::Signalled { at, .. }
            | Self::Responded { at, .. }
            | Self::Failing { at, .. }
            | Self::Cancelling { at, .. }
            | Self::Retried { at, .. }
            | Self::Finished { at, .. } => *at,
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
            Self::Manual => "manual",
            Self::Call { .. } => "call",
        }
    }
}

/// How a step ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "camelCase")]
pub enum StepOutcome {
    /// With this result.
    Succeeded {
        /// The result; `null` for steps that give none.
        result: Value,
    },
    /// Its guard did not hold.
    Skipped,
    /// With this error.
    Failed {
        /// Why.
        error: ActionError,
        /// What takes its place where `onError` lets the execution go on; absent where the error passes up.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        handled: Option<Value>,
    },
    /// By a step inside it, or itself, that led out of more than it.
    Left {
        /// How.
        by: Leave,
        /// The execution's result, for `stop`.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        result: Value,
    },
}

/// What leads out of more than one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Leave {
    /// Out of the loop.
    Break,
    /// Out of the turn of the loop.
    Continue,
    /// Out of the execution.
    Stop,
}

/// How an execution ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "camelCase")]
pub enum Outcome {
    /// With this result.
    Succeeded {
        /// The last step's result, or the Automation's `outputs`.
        result: Value,
    },
    /// With this error.
    Failed {
        /// Why.
        error: ActionError,
    },
    /// Somebody ended it.
    Cancelled {
        /// Who or what, in words.
        reason: String,
    },
    /// A crash interrupted the same step too often; it is kept for a person to look at.
    Stuck {
        /// Why.
        error: ActionError,
    },
}

/// Where an execution stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Status {
    /// Accepted, not begun.
    Queued,
    /// Its steps run, or wait for a retry.
    Running,
    /// It is paused: for a time, an event, an answer or another execution. It takes no slot.
    Waiting,
    /// It ended well.
    Succeeded,
    /// It ended with an error.
    Failed,
    /// Somebody ended it.
    Cancelled,
    /// It was interrupted too often.
    Stuck,
}

impl Status {
    /// All of them, in the order of a life.
    pub const ALL: [Self; 7] = [
        Self::Queued,
        Self::Running,
        Self::Waiting,
        Self::Succeeded,
        Self::Failed,
        Self::Cancelled,
        Self::Stuck,
    ];

    /// Whether nothing more will happen.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        !matches!(self, Self::Queued | Self::Running | Self::Waiting)
    }

    /// The word for it in JSON, tables and filters.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Stuck => "stuck",
        }
    }
}

impl FromStr for Status {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|status| status.word() == text).ok_or_else(|| {
            format!("`{text}` is no state of an execution; use {}", Self::ALL.map(Self::word).join(", "))
        })
    }
}

impl Outcome {
    /// The status it leaves.
    #[must_use]
    pub fn status(&self) -> Status {
        match self {
            Self::Succeeded { .. } => Status::Succeeded,
            Self::Failed { .. } => Status::Failed,
            Self::Cancelled { .. } => Status::Cancelled,
            Self::Stuck { .. } => Status::Stuck,
        }
    }

    /// What went wrong, in words, if anything did.
    #[must_use]
    pub fn message(&self) -> Option<&str> {
        match self {
            Self::Succeeded { .. } => None,
            Self::Failed { error } | Self::Stuck { error } => Some(&error.message),
            Self::Cancelled { reason } => Some(reason),
        }
    }
}

/// How grave a log line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LogLevel {
    /// For whoever looks for a fault.
    Debug,
    /// For whoever follows along.
    Info,
    /// Something is not as it should be.
    Warn,
    /// Something failed.
    Error,
}

/// A line that an execution left for people.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LogLine {
    /// When.
    pub at: Timestamp,
    /// How grave.
    pub level: LogLevel,
    /// By which step, if by one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub step: Option<String>,
    /// The text, cut at [`LogLine::MAX_CHARS`] characters.
    pub message: String,
}

impl LogLine {
    /// The most characters of a line (semantics 3.9).
    pub const MAX_CHARS: usize = 4096;

    /// A line, cut with a mark where it is too long, control characters escaped.
    #[must_use]
    pub fn new(at: Timestamp, level: LogLevel, step: Option<String>, message: &str) -> Self {
        let mut text = String::with_capacity(message.len().min(Self::MAX_CHARS));
        for (count, character) in message.chars().enumerate() {
            if count == Self::MAX_CHARS {
                text.push('…');
                break;
            }
            match character {
                '\n' | '\t' => text.push(character),
                control if control.is_control() => text.extend(control.escape_default()),
                plain => text.push(plain),
            }
        }
        Self { at, level, step, message: text }
    }
}

/// The state of an execution: the fold of its events.
#[derive(Clone, Debug)]
pub struct Execution {
    /// Its id.
    pub id: ExecutionId,
    /// Of which Automation.
    pub automation: AutomationId,
    /// On which definition.
    pub definition: DefinitionHash,
    /// What started it.
    pub origin: Origin,
    /// With what.
    pub payload: Payload,
    /// When it was accepted.
    pub started_at: Timestamp,
    /// The steps that have begun, by step with loop turns.
    pub steps: HashMap<String, StepState>,
    /// The answer that a `respond` step decided.
    pub response: Option<HttpResponse>,
    /// The try of the whole execution, from 1.
    pub attempt: u32,
    /// When the next try of the whole execution begins, while one is due.
    pub retry_at: Option<Timestamp>,
    /// How often it was taken up again since a step last came to the end of a try.
    pub interruptions: u32,
    /// How it ended, if it did.
    pub outcome: Option<Outcome>,
    /// When it ended, if it did.
    pub finished_at: Option<Timestamp>,
    /// How many events were folded.
    pub events: u32,
}

/// Where one step of an execution stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepState {
    /// The tries that have failed.
    pub failed_attempts: u32,
    /// Whether a try has begun whose end is not known.
    pub in_flight: bool,
    /// When the next try begins, while one is due.
    pub retry_at: Option<Timestamp>,
    /// Why it failed for good, while its `onError` list runs.
    pub failure: Option<ActionError>,
    /// For what it pauses, while it does.
    pub waiting: Option<Waiting>,
    /// How it ended, if it did.
    pub outcome: Option<StepOutcome>,
}

/// A pause.
#[derive(Clone, Debug, PartialEq)]
pub struct Waiting {
    /// When it began.
    pub since: Timestamp,
    /// When it ends at the latest, where that is known.
    pub until: Option<Timestamp>,
    /// For what.
    pub on: WaitReason,
}

/// An event that cannot follow the ones before it: the log is damaged or was written by something else.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("event {index} of execution {id} is not possible there: {reason}")]
pub struct IllegalEvent {
    /// Of which execution.
    pub id: ExecutionId,
    /// Which event, from 0.
    pub index: u32,
    /// Why.
    pub reason: &'static str,
}

impl Execution {
    /// Folds the whole log of an execution.
    ///
    /// # Errors
    /// An event that cannot stand where it stands.
    pub fn fold(id: ExecutionId, events: impl IntoIterator<Item = Event>) -> Result<Self, IllegalEvent> {
        let mut events = events.into_iter();
        let Some(Event::Started { at, automation, definition, origin, payload }) = events.next() else {
            return Err(IllegalEvent { id, index: 0, reason: "the first event must be `started`" });
        };
        let mut execution = Self {
            id,
            automation,
            definition,
            origin,
            payload,
            started_at: at,
            steps: HashMap::new(),
            response: None,
            attempt: 1,
            retry_at: None,
            interruptions: 0,
            outcome: None,
            finished_at: None,
            events: 1,
        };
        for event in events {
            execution.apply(event)?;
        }
        Ok(execution)
    }

    /// Folds one more event.
    ///
    /// # Errors
    /// The event cannot follow those before it.
    pub fn apply(&mut self, event: Event) -> Result<(), IllegalEvent> {
        let illegal = |reason| IllegalEvent { id: self.id, index: self.events, reason };
        if self.outcome.is_some() {
            return Err(illegal("the execution has finished"));
        }
        match event {
            Event::Started { .. } => return Err(illegal("it has started already")),
            Event::Resumed { .. } => self.interruptions += 1,
            Event::Cancelling { .. } => {}
            Event::StepStarted { step, .. } => {
                let state = self.steps.entry(step).or_default();
                if state.outcome.is_some() {
                    return Err(illegal("a finished step never runs again"));
                }
                state.in_flight = true;
                state.retry_at = None;
            }
            Event::StepRetry { step, attempt, next_at, .. } => {
                let state = self.steps.entry(step).or_default();
                if state.outcome.is_some() {
                    return Err(illegal("a finished step never runs again"));
                }
                *state =
                    StepState { failed_attempts: attempt, retry_at: Some(next_at), ..StepState::default() };
                self.interruptions = 0;
            }
            Event::StepFailed { step, error, .. } => {
                let state = self.steps.entry(step).or_default();
                if state.outcome.is_some() {
                    return Err(illegal("a finished step never runs again"));
                }
                *state = StepState { failure: Some(error), ..StepState::default() };
                self.interruptions = 0;
            }
            Event::StepFinished { step, outcome, .. } => {
                let state = self.steps.entry(step).or_default();
                if state.outcome.is_some() {
                    return Err(illegal("a step finishes once"));
                }
                *state = StepState { outcome: Some(outcome), ..StepState::default() };
                self.interruptions = 0;
            }
            Event::StepDated { .. } | Event::Signalled { .. } | Event::Failing { .. } => {}
            // What a loop keeps of one of its turns is no step: `poll[2]#delay`.
            Event::Waiting { step, .. } if step.contains('#') => {}
            Event::Waiting { at, step, until, on, .. } => {
                let state = self.steps.entry(step).or_default();
                if state.outcome.is_some() {
                    return Err(illegal("a finished step never runs again"));
                }
                state.waiting = Some(Waiting { since: at, until, on });
            }
            Event::Responded { response, .. } => {
                if self.response.is_some() {
                    return Err(illegal("the caller is answered once"));
                }
                self.response = Some(response);
            }
            Event::Retried { attempt, next_at, .. } => {
                self.attempt = attempt + 1;
                self.retry_at = Some(next_at);
                self.interruptions = 0;
                // What failed is forgotten, what succeeded stays: the next try starts at the failure.
                self.steps.retain(|_, step| {
                    !matches!(step.outcome, None | Some(StepOutcome::Failed { handled: None, .. }))
                });
            }
            Event::Finished { at, outcome } => {
                self.outcome = Some(outcome);
                self.finished_at = Some(at);
            }
        }
        self.events += 1;
        Ok(())
    }

    /// Where it stands.
    #[must_use]
    pub fn status(&self) -> Status {
        match &self.outcome {
            Some(outcome) => outcome.status(),
            None if self.events == 1 => Status::Queued,
            None => Status::Running,
        }
    }
}
