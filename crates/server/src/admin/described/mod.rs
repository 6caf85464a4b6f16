//! Schemas of values that other crates serialise. The types exist for the description of the API only, and a test compares
//! them with the values.

mod catalog;
mod execution;

use utoipa::ToSchema;

pub(crate) use catalog::{ActionInfo, ConnectionTypeInfo, Effect, HostInfo, InputInfo};
pub(crate) use execution::{
    DelayReasonInfo, ErrorInfo, LogLineInfo, OriginInfo, OutcomeInfo, PauseInfo, PayloadInfo, ResponseInfo,
    SavedPayloadInfo, StartPayload, WaitReasonInfo,
};
/// Any JSON value: data of a person or of another system, whose form Cogwork does not decide.
#[derive(Debug, ToSchema)]
#[schema(as = Json, value_type = Value)]
#[expect(dead_code, reason = "it exists to be described")]
pub(crate) struct AnyJson(serde_json::Value);

/// A segment of a path in a file: a key, or the index of an item.
#[derive(ToSchema)]
#[schema(as = PathSegment)]
#[serde(untagged)]
#[expect(dead_code, reason = "it exists to be described")]
pub(crate) enum SegmentInfo {
    Key(String),
    Index(usize),
}

/// Declares enums of words, for fields that are texts in the program.
macro_rules! words {
    ($($(#[$meta:meta])* $name:ident as $shown:ident { $($(#[$variant:meta])* $word:ident),+ $(,)? })+) => {$(
        $(#[$meta])*
        #[derive(Debug, ToSchema)]
        #[schema(as = $shown, rename_all = "camelCase")]
        #[expect(dead_code, reason = "it exists to be described")]
        pub(crate) enum $name { $($(#[$variant])* $word),+ }
    )+};
}

words! {
    /// The state of an execution.
    StatusWord as ExecutionStatus { Queued, Running, Waiting, Succeeded, Failed, Cancelled, Stuck }

    /// The state of a step: `waiting` if it pauses or its next try does, `handling` while its `onError` steps run, `left` if
    /// the execution ended before it, or before the answer to its `request`.
    StepWord as StepStatus { Running, Waiting, Handling, Succeeded, Failed, Skipped, Left }

    /// The state of an automation: `stale` if its file does not load and its last good version is in force.
    StateWord as AutomationState { Active, Disabled, Stale }

    /// The kind of a trigger.
    TriggerWord as TriggerKind { Webhook, Schedule, Event, Poll, Manual }

    /// The state of a connection.
    HealthWord as ConnectionState { Unused, Healthy, Failing, NeedsLogin }

    /// The gravity of a diagnostic.
    SeverityWord as Severity { Error, Warning, Hint }

    /// A list of steps: `case` (at most one of the step's lists runs), `loop`, `parallel` or `sequence`.
    BlockWord as BlockKind { Case, Loop, Parallel, Sequence }

    /// The state of the caller of a webhook: `waits` for the answer of a synchronous one, `left` if the daemon stopped before
    /// the answer.
    CallerWord as CallerState { Answered, Waits, Left }

    /// The source of an answer: `accepted` (the default of an asynchronous webhook), `static` (its `respond`), `code` (the code
    /// of the trigger), `respond` (a step), `result` or `failure` (the end of the execution), `timeout`.
    AnswerWord as AnswerSource { Accepted, Static, Code, Respond, Result, Failure, Timeout }

    /// The state of an operation on many executions: `planned` if nothing was started.
    BulkWord as BulkState { Planned, Running, Stopped, Finished }

    /// The result of a trial: `newCall` (it ends at a call that the record has no answer for), `notStarted` (the trigger starts
    /// nothing), `waits` (for something that the record does not have), `notRun` (the trial could not run).
    TrialWord as TrialVerdict { Same, Differs, NewCall, NotStarted, Waits, NotRun }

    /// The result of a test.
    TestWord as TestOutcome { Passed, Failed, Skipped }

    /// The expectations of a test: `endings` if values differ in each execution.
    ExpectsWord as TestStrictness { Full, Endings, Outcome }

    /// The fate of a captured request: `filtered` if `if` is false, `declined` if the code of the trigger starts no step,
    /// `nonTrigger` if it is of a kind that never starts an execution.
    CaptureWord as CaptureVerdict { Accepted, Filtered, Declined, Refused, NonTrigger }

    /// The state of a subscription: `pending` until it is made, `leaving` until it is taken back.
    SubscriptionWord as SubscriptionState { Active, Pending, Leaving }

    /// The way an event comes: the application sends it after a subscription, or the daemon polls.
    DeliveryWord as EventDelivery { Subscribed, Polled }

    /// The state of a login to a connection.
    LoginWord as LoginState { Waiting, Connected, Failed }

    /// How a step ended a loop, a turn of it, or the execution.
    JumpWord as Jump { Break, Continue, Stop }
}
