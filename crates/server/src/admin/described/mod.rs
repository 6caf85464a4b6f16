//! Schemas of values that other crates serialise. The types exist for the description of the API only, and a test compares
//! them with the values.

mod catalog;
mod execution;

use utoipa::ToSchema;

pub(crate) use catalog::{ActionInfo, ConnectionTypeInfo, HostInfo, InputInfo};
pub(crate) use execution::{
    DelayReasonInfo, ErrorInfo, LogLineInfo, OriginInfo, OutcomeInfo, PauseInfo, PayloadInfo, ResponseInfo,
    SavedPayloadInfo, StartPayload, WaitReasonInfo,
};

/// Any JSON value: data of a person or of another system, whose form Cogwork does not decide.
#[derive(Debug, ToSchema)]
#[schema(as = Json, value_type = Value)]
#[expect(dead_code, reason = "it exists to be described")]
pub(crate) struct AnyJson(serde_json::Value);

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
    /// the execution ended before it.
    StepWord as StepStatus { Running, Waiting, Handling, Succeeded, Failed, Skipped, Left }

    /// The state of an automation: `stale` if its file does not load and its last good version is in force.
    StateWord as AutomationState { Active, Disabled, Stale }

    /// The kind of a trigger.
    TriggerWord as TriggerKind { Webhook, Schedule, Event, Poll, Manual }

    /// The state of a connection.
    HealthWord as ConnectionState { Unused, Healthy, Failing, NeedsLogin }

    /// The gravity of a diagnostic.
    SeverityWord as Severity { Error, Warning, Hint }

    /// How a step ended a loop, a turn of it, or the execution.
    JumpWord as Jump { Break, Continue, Stop }
}
