//! A file of tests after checking: `order-to-page.test.yaml`, beside the Automation that it tests.
//!
//! A test provides the start of an execution, the doubles of external systems, and the expectations. It runs offline on a
//! simulated clock; see `docs/src/testing.md`.

mod pattern;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use expression::Expression;
use expression::template::Template;
use jiff::Timestamp;
use text::diagnostic::{Source, Span};
use value::{Map, Value};

use crate::action::ErrorKind;
use crate::automation::{Automation, DeclaredTrigger, SpannedName, StartForm, Trigger, TriggerId};

pub use pattern::{Matcher, Mismatch, Pattern, Rule};

/// The endings of a file of tests.
pub const FILE_SUFFIXES: [&str; 2] = [".test.yaml", ".test.yml"];

/// The name of a file of tests without folder and ending, which is that of the Automation's file; `None` for any other
/// file.
#[must_use]
pub fn suite_stem(path: &str) -> Option<&str> {
    let name = path.rsplit('/').next().unwrap_or(path);
    FILE_SUFFIXES.iter().find_map(|ending| name.strip_suffix(ending)).filter(|stem| !stem.is_empty())
}

/// The folder beside the tests in which recordings are kept.
pub const CASSETTE_DIR: &str = "cassettes";

/// True if a file is a test suite or a cassette, and so not an Automation although it lies in the same folder.
#[must_use]
pub fn is_test_file(path: &str) -> bool {
    suite_stem(path).is_some() || path.split('/').any(|folder| folder == CASSETTE_DIR)
}

/// The tests of one file.
#[derive(Clone, Debug)]
pub struct Suite {
    /// The id of the Automation that is tested; where the file names none, its own stem.
    pub automation: SpannedName,
    /// The tests, in the order of the file.
    pub cases: Vec<Case>,
    /// The file.
    pub source: Arc<Source>,
}

/// One test.
#[derive(Clone, Debug)]
pub struct Case {
    /// The automation under test, with its span.
    pub name: SpannedName,
    /// The reason to skip it, if it is skipped.
    pub skip: Option<String>,
    /// The trigger that starts it; `None` if the start decides.
    pub trigger: Option<SpannedName>,
    /// The start of the execution.
    pub start: Start,
    /// The position of the start; the name of the test if it has none.
    pub start_span: Span,
    /// The time of the clock at the start.
    pub now: Timestamp,
    /// The secrets.
    pub secrets: BTreeMap<String, String>,
    /// The environment variables.
    pub env: BTreeMap<String, String>,
    /// The initial state, by key.
    pub state: Vec<(SpannedName, Value)>,
    /// The stubs for actions; the stubs of the test precede the stubs of the file.
    pub doubles: Vec<Stub>,
    /// The stimuli while it runs, in the order of the file.
    pub stimuli: Vec<Stimulus>,
    /// The automations that events start which the test's executions send. Any other is not started.
    pub receivers: Vec<SpannedName>,
    /// The recording that answers HTTP requests.
    pub cassette: Option<SpannedName>,
    /// The expectations.
    pub expect: Expect,
}

/// The reason why a test selects no trigger of its automation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriggerChoice {
    /// The automation has no trigger of the id that the test names.
    Unknown,
    /// Several triggers can start in the way of the test.
    Several,
}

impl Case {
    /// Returns the trigger that the test starts: by its id, or else the only trigger, or the only trigger of the kind of start.
    ///
    /// # Errors
    /// Returns the reason why the test selects no trigger.
    pub fn trigger_of<'a>(&self, automation: &'a Automation) -> Result<&'a DeclaredTrigger, TriggerChoice> {
        if let Some(named) = &self.trigger {
            let id = TriggerId::parse(&named.name);
            return id.and_then(|id| automation.trigger(&id)).ok_or(TriggerChoice::Unknown);
        }
        if let [only] = automation.triggers.as_slice() {
            return Ok(only);
        }
        let mut fitting = automation.triggers.iter().filter(|trigger| self.start.fits(&trigger.on));
        match (fitting.next(), fitting.next()) {
            (Some(only), None) => Ok(only),
            _ => Err(TriggerChoice::Several),
        }
    }
}

impl Start {
    /// Returns true if a trigger starts in this way.
    fn fits(&self, trigger: &Trigger) -> bool {
        matches!(
            (self, trigger.start_form()),
            (Self::Request(_), StartForm::Request(_))
                | (Self::Inputs(_), StartForm::Inputs)
                | (Self::ScheduledAt(_), StartForm::Instant)
                | (Self::Polled(_), StartForm::Data { .. })
        )
    }
}

/// The start of an execution in a test.
#[derive(Clone, Debug)]
pub enum Start {
    /// An empty start for any kind of trigger.
    Default,
    /// A request on the webhook's address.
    Request(Request),
    /// By hand, with these inputs.
    Inputs(Vec<(SpannedName, Value)>),
    /// An instant of its schedule.
    ScheduledAt(Timestamp),
    /// The data that a poll found, or an event brought.
    Polled(Value),
}

/// A request on a webhook's address.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The method, and where it is written; the first that the webhook takes where it is not.
    pub method: Option<SpannedName>,
    /// The path after the token.
    pub path_fragment: String,
    /// The parameters of the query: a list repeats its parameter.
    pub query_parameters: Vec<(SpannedName, Value)>,
    /// The headers.
    pub headers: Vec<(SpannedName, String)>,
    /// The body.
    pub body: RequestBody,
    /// True if the test verifies the sender as the trigger demands; if false, the sender counts as verified.
    pub verify: bool,
}

/// The body of a request.
#[derive(Clone, Debug, Default)]
pub enum RequestBody {
    /// None.
    #[default]
    Empty,
    /// A text as it is; any other value as JSON.
    Value(Value),
    /// These bytes.
    Bytes(Bytes),
    /// The bytes of a file, by its path from the folder of the tests.
    File(SpannedName),
}

/// A stub that answers in place of an action, or of a step.
#[derive(Clone, Debug)]
pub struct Stub {
    /// In whose place.
    pub target: Target,
    /// Where that is written.
    pub span: Span,
    /// True if the stub belongs to this test alone, so that a call must use it.
    pub own: bool,
    /// The answers; the first that fits a call and is not used up answers it.
    pub answers: Vec<StubResponse>,
}

/// In whose place a double answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Of every call of this action.
    Action(String),
    /// Of the step with this id.
    Step(String),
}

impl Target {
    /// The target as written: the name of an action contains a dot, and no id of a step does.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        if text.contains('.') { Self::Action(text.to_owned()) } else { Self::Step(text.to_owned()) }
    }

    /// As it is written.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Action(name) | Self::Step(name) => name,
        }
    }
}

/// One answer of a double.
#[derive(Clone, Debug)]
pub struct StubResponse {
    /// Where it is written.
    pub span: Span,
    /// The calls that it answers, by their inputs; `None` for any.
    pub when: Option<Pattern>,
    /// The number of calls that it answers; `None` for any.
    pub times: Option<u32>,
    /// The duration of the call on the test's clock.
    pub takes: Duration,
    /// The response.
    pub reply: StubOutcome,
}

/// The response of a stub.
#[derive(Clone, Debug)]
pub enum StubOutcome {
    /// This result. Its expressions read `inputs`, the inputs of the call, and `index`, the number of earlier calls.
    Result(Template),
    /// This error.
    Error(Box<StubError>),
}

/// An error that a double answers with.
#[derive(Clone, Debug)]
pub struct StubError {
    /// Its kind.
    pub kind: ErrorKind,
    /// The message of the error.
    pub message: Option<String>,
    /// The HTTP status.
    pub status: Option<u16>,
    /// The other side's own code.
    pub code: Option<String>,
    /// The body of the answer.
    pub body: Option<Value>,
    /// The data that an author added.
    pub data: Option<Value>,
    /// The delay that the other side requests.
    pub retry_after: Option<Duration>,
}

/// Something that happens while an execution runs.
#[derive(Clone, Debug)]
pub struct Stimulus {
    /// Where it is written.
    pub span: Span,
    /// The time after the start; `None` for as soon as a step waits for it.
    pub after: Option<Duration>,
    /// The kind of stimulus.
    pub what: StimulusKind,
}

/// The kind of stimulus.
#[derive(Clone, Debug)]
pub enum StimulusKind {
    /// An event comes.
    Event {
        /// Its name.
        name: SpannedName,
        /// The data of the event.
        data: Value,
    },
    /// A person answers.
    Approval {
        /// The step that asks, with its loop iterations.
        step: SpannedName,
        /// The answer that is chosen.
        option: SpannedName,
        /// The values of the form.
        form: Map,
    },
    /// A cancellation.
    Cancel {
        /// The reason.
        reason: String,
    },
}

/// The expectations of a test.
#[derive(Clone, Debug, Default)]
pub struct Expect {
    /// The position; the name of the test if it is not written.
    pub span: Span,
    /// True if an execution is expected to start; the default is true.
    pub started: Option<(bool, Span)>,
    /// The outcome of the execution.
    pub outcome: Option<(Ending, Span)>,
    /// Its result.
    pub result: Option<Pattern>,
    /// Its error, a map of what an error has.
    pub error: Option<Pattern>,
    /// Steps by their id, with their loop iterations.
    pub steps: Vec<(SpannedName, StepExpect)>,
    /// The answer to the caller.
    pub response: Option<ResponseExpect>,
    /// The calls that the doubles received.
    pub calls: Option<CallsExpect>,
    /// The events that it sent: a list of maps of `name` and `data`.
    pub events: Option<Pattern>,
    /// The lines that it logged: a list of maps of `message`, `level` and `step`.
    pub logs: Option<Pattern>,
    /// The duration on the test's clock.
    pub duration: Option<DurationExpect>,
    /// The state after the execution, by key.
    pub state: Vec<(SpannedName, Pattern)>,
    /// Conditions.
    pub that: Vec<Expression>,
}

/// The end of an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Well.
    Succeeded,
    /// With an error.
    Failed,
    /// It was cancelled.
    Cancelled,
}

impl Ending {
    /// All of them by the words that are written.
    pub const ALL: [(&'static str, Self); 3] =
        [("succeeded", Self::Succeeded), ("failed", Self::Failed), ("cancelled", Self::Cancelled)];

    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// The expectations of a step.
#[derive(Clone, Debug, Default)]
pub struct StepExpect {
    /// The outcome.
    pub outcome: Option<(StepEnding, Span)>,
    /// Its result.
    pub result: Option<Pattern>,
    /// Its error.
    pub error: Option<Pattern>,
    /// The list of steps inside it that ran: `then`, `else`, a case, `default`, or `none`.
    pub branch: Option<SpannedName>,
    /// The expected number of iterations.
    pub turns: Option<(u32, Span)>,
    /// The expected number of attempts.
    pub tries: Option<(u32, Span)>,
}

/// The end of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepEnding {
    /// It succeeded.
    Succeeded,
    /// With an error, dealt with or not.
    Failed,
    /// Its guard did not hold.
    Skipped,
    /// It did not come to it.
    NotRun,
}

impl StepEnding {
    /// All of them by the words that are written.
    pub const ALL: [(&'static str, Self); 4] = [
        ("succeeded", Self::Succeeded),
        ("failed", Self::Failed),
        ("skipped", Self::Skipped),
        ("notRun", Self::NotRun),
    ];
}

/// The expectations of the response to the caller.
#[derive(Clone, Debug)]
pub struct ResponseExpect {
    /// Where it is written.
    pub span: Span,
    /// Its status.
    pub status: Option<Pattern>,
    /// Some of its headers; names in any case.
    pub headers: Vec<(SpannedName, Pattern)>,
    /// Its body: read as JSON if its content type says so, else as text.
    pub body: Option<Pattern>,
}

/// The expectations of the calls.
#[derive(Clone, Debug)]
pub enum CallsExpect {
    /// These calls and no others, in any order.
    Whole {
        /// Where they are written.
        span: Span,
        /// The calls.
        calls: Vec<CallExpect>,
    },
    /// Numbers of calls of these actions or steps; others may be called any number of times.
    Counts(Vec<(SpannedName, u32)>),
}

/// A call, or several that are alike.
#[derive(Clone, Debug)]
pub struct CallExpect {
    /// Where it is written.
    pub span: Span,
    /// The called action or step.
    pub target: Target,
    /// Its inputs.
    pub with: Option<Pattern>,
    /// The name of its connection; `None` for any.
    pub connection: Option<String>,
    /// The id of the called automation; `None` for any.
    pub automation: Option<String>,
    /// The expected number.
    pub times: u32,
}

/// The duration of an execution.
#[derive(Clone, Copy, Debug)]
pub struct DurationExpect {
    /// Where it is written.
    pub span: Span,
    /// At least.
    pub at_least: Duration,
    /// At most.
    pub at_most: Duration,
}
