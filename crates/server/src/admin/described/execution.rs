//! Schemas of the parts of an execution, as [`model`] serialises them.
#![expect(
    dead_code,
    clippy::large_enum_variant,
    reason = "its types exist to be described, and have no values"
)]

use std::collections::{BTreeMap, HashMap};

use utoipa::ToSchema;

use super::AnyJson;

/// The cause of an execution.
#[derive(ToSchema)]
#[schema(as = Origin)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub(crate) enum OriginInfo {
    /// A request to the live address.
    Webhook,
    /// A request to the test address, or a start as a test.
    Test,
    /// An instant of the schedule.
    Schedule {
        /// The scheduled instant.
        #[schema(format = DateTime)]
        instant: String,
    },
    /// New data that a poll has found.
    Poll,
    /// An event of another application.
    Event,
    /// A start by a person or a program.
    Manual,
    /// A `call` step of another execution.
    Call {
        /// The calling execution.
        execution: String,
        /// The calling step.
        step: String,
        /// The depth of nested calls, from 1.
        depth: u32,
        /// True if the caller is a test.
        test: Option<bool>,
        /// The trace id of the chain of executions.
        trace: Option<String>,
    },
    /// A replay of an earlier execution.
    Replay {
        /// The replayed execution.
        of: String,
        /// The first step that ran again; absent if all did.
        from: Option<String>,
        /// The number of events that come from the replayed execution.
        kept: Option<u32>,
        /// True if it is a test.
        test: Option<bool>,
    },
    /// An import of an execution that ran on another daemon.
    Imported {
        /// The time of the import.
        #[schema(format = DateTime)]
        at: String,
        /// Its origin there, in the same form.
        original: AnyJson,
    },
}

/// Bytes with their media type: a body, an attachment.
#[derive(ToSchema)]
#[schema(as = FileValue, rename_all = "camelCase")]
pub(crate) struct FileInfo {
    /// The media type; empty if it is unknown.
    content_type: String,
    /// The name that the sender gave.
    filename: Option<String>,
    /// The number of bytes.
    size: u64,
    encoding: FileEncoding,
    /// The bytes in that encoding; absent if they are `kept`.
    data: Option<String>,
    /// The digest of bytes that are `kept`.
    sha256: Option<String>,
    /// The stored file that these bytes are a part of.
    part_of: Option<PartOf>,
}

/// How the bytes of a file are written: as text, as base64, or not at all since the store keeps them in a file of its own.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(crate) enum FileEncoding {
    Utf8,
    Base64,
    Kept,
}

/// A range of a stored file.
#[derive(ToSchema)]
pub(crate) struct PartOf {
    /// The digest of the stored file.
    sha256: String,
    /// Its number of bytes.
    size: u64,
    /// The offset of the range.
    at: u64,
}

/// The input of an execution as it arrived.
#[derive(ToSchema)]
#[schema(as = Payload)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub(crate) enum PayloadInfo {
    /// A request to a webhook.
    #[serde(rename_all = "camelCase")]
    Webhook {
        /// The HTTP method.
        method: String,
        /// The path after the token, without encoding.
        path_fragment: String,
        /// The values of a repeated name are a list.
        query_parameters: HashMap<String, AnyJson>,
        /// The query as it was received; absent if there was none.
        raw_query: Option<String>,
        /// By lower-case name; a header that may hold a credential is masked.
        headers: BTreeMap<String, String>,
        #[schema(inline = false)]
        body: FileInfo,
        /// The decision of the trigger's code; absent if it has no code.
        decided: Option<Decided>,
    },
    /// An instant of a schedule.
    #[serde(rename_all = "camelCase")]
    Schedule {
        #[schema(format = DateTime)]
        scheduled_at: String,
        /// When the execution was accepted.
        #[schema(format = DateTime)]
        started_at: String,
        /// The schedule's IANA zone.
        timezone: String,
    },
    /// The items that a poll found, or an event of a connector.
    #[serde(rename_all = "camelCase")]
    Poll {
        data: AnyJson,
        #[schema(format = DateTime)]
        polled_at: String,
    },
    /// A start with inputs by name.
    Manual { inputs: HashMap<String, AnyJson> },
}

/// A payload in the form of its file and of a capture: files in it are marked, so that a start reads them back exactly.
#[derive(ToSchema)]
#[schema(as = StoredPayload)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub(crate) enum SavedPayloadInfo {
    /// A request to a webhook.
    #[serde(rename_all = "camelCase")]
    Webhook {
        /// The HTTP method.
        method: String,
        /// The path after the token, without encoding.
        path_fragment: String,
        /// The values of a repeated name are a list.
        query_parameters: HashMap<String, AnyJson>,
        /// The query as it was received; absent if there was none.
        raw_query: Option<String>,
        /// By lower-case name; those that may hold a credential are left out.
        headers: BTreeMap<String, String>,
        body: StoredFile,
        /// The decision of the trigger's code; absent if it has no code.
        decided: Option<Decided>,
    },
    /// An instant of a schedule.
    #[serde(rename_all = "camelCase")]
    Schedule {
        #[schema(format = DateTime)]
        scheduled_at: String,
        #[schema(format = DateTime)]
        started_at: String,
        /// The schedule's IANA zone.
        timezone: String,
    },
    /// The items that a poll found, or an event of a connector.
    #[serde(rename_all = "camelCase")]
    Poll {
        data: AnyJson,
        #[schema(format = DateTime)]
        polled_at: String,
    },
    /// A start with inputs by name.
    Manual { inputs: HashMap<String, AnyJson> },
}

/// A file with its mark.
#[derive(ToSchema)]
pub(crate) struct StoredFile {
    #[schema(rename = "$file")]
    file: FileInfo,
}

/// The decision of a trigger's code about a request.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(crate) struct Decided {
    /// The replacement of `trigger.results`.
    results: Option<AnyJson>,
    /// The response to the caller.
    response: Option<AnyJson>,
    /// True if no step runs.
    declined: Option<bool>,
    /// The lines that the code logged.
    logs: Option<Vec<DecidedLog>>,
}

/// A line that the code of a trigger logged.
#[derive(ToSchema)]
pub(crate) struct DecidedLog {
    level: LogLevel,
    message: String,
}

/// The payload of a start, whole or in a short form: of a webhook `method`, `headers`, `query`, `path`, `body`; of a poll or
/// an event `data`; of a schedule `scheduledAt`; of a manual start `inputs`. Each part has a default. With `kind` it is a
/// whole payload as it was saved.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(crate) struct StartPayload {
    /// `webhook`, `schedule`, `poll` or `manual`, for a whole payload.
    kind: Option<String>,
    /// The HTTP method.
    method: Option<String>,
    /// The headers by name.
    headers: Option<HashMap<String, AnyJson>>,
    /// The query: parameters by name, or a text as it is sent.
    query: Option<AnyJson>,
    /// The path after the token.
    path: Option<String>,
    /// JSON, a text, or a file.
    body: Option<AnyJson>,
    /// As `query`, in a saved payload.
    query_parameters: Option<AnyJson>,
    /// The encoded query, in a saved payload.
    raw_query: Option<String>,
    /// As `path`, in a saved payload.
    path_fragment: Option<String>,
    /// The decision of the trigger's code, in a saved payload.
    decided: Option<AnyJson>,
    /// The items that a poll found.
    data: Option<AnyJson>,
    #[schema(format = DateTime)]
    polled_at: Option<String>,
    /// The instant of the schedule.
    #[schema(format = DateTime)]
    scheduled_at: Option<String>,
    #[schema(format = DateTime)]
    started_at: Option<String>,
    /// The IANA zone, in a saved payload.
    timezone: Option<String>,
    /// The inputs by name.
    inputs: Option<HashMap<String, AnyJson>>,
}

/// The end of an execution.
#[derive(ToSchema)]
#[schema(as = Outcome)]
#[serde(tag = "outcome", rename_all = "camelCase")]
pub(crate) enum OutcomeInfo {
    Succeeded {
        /// Its `outputs`, or the result of its last step.
        result: AnyJson,
    },
    Failed {
        error: ErrorInfo,
    },
    Cancelled {
        /// In words that name the source of the cancellation.
        reason: String,
    },
    /// Crashes interrupted the same step too often.
    Stuck {
        error: ErrorInfo,
    },
}

/// The kind of an error.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(crate) enum ErrorKind {
    Input,
    Expression,
    Connection,
    Network,
    Timeout,
    Status,
    Response,
    Blocked,
    Limit,
    Failed,
    Cancelled,
    Interrupted,
    Internal,
}

/// The error of a step.
#[derive(ToSchema)]
#[schema(as = ActionError, rename_all = "camelCase")]
pub(crate) struct ErrorInfo {
    kind: ErrorKind,
    /// In words, with a way out if there is one.
    message: String,
    /// The HTTP status of the response.
    status: Option<u16>,
    /// The error code of the other system.
    code: Option<String>,
    /// The other system's id of the request.
    request_id: Option<String>,
    /// The body of the response.
    body: Option<AnyJson>,
    /// The step in which it occurred first.
    step: Option<String>,
    /// The `Retry-After` of the response, in milliseconds.
    retry_after_ms: Option<u64>,
    /// True if the effect may have happened.
    outcome_unknown: Option<bool>,
    /// The first earlier attempt whose effect may have happened.
    lost_attempt: Option<LostAttempt>,
    /// The place in the author's code.
    place: Option<CodePlace>,
}

/// A failed attempt whose effect may have happened.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(crate) struct LostAttempt {
    /// The number of the attempt, from 1.
    attempt: u32,
    kind: ErrorKind,
    message: String,
    status: Option<u16>,
    request_id: Option<String>,
}

/// A place in an author's code.
#[derive(ToSchema)]
pub(crate) struct CodePlace {
    /// Relative to the project folder.
    file: String,
    /// From 1.
    line: usize,
    /// From 1, in characters.
    column: usize,
    /// The text of the line, shortened.
    text: String,
}

/// An answer that a `respond` step decided.
#[derive(ToSchema)]
#[schema(as = HttpResponse)]
pub(crate) struct ResponseInfo {
    /// The HTTP status.
    status: u16,
    /// Name and value of each header, in order.
    headers: Vec<(String, String)>,
    body: FileInfo,
}

/// The severity of a log line.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(crate) enum LogLevel {
    Debug,
    Info,
    Warn,
    Error,
}

/// A log line.
#[derive(ToSchema)]
#[schema(as = LogLine)]
pub(crate) struct LogLineInfo {
    #[schema(format = DateTime)]
    at: String,
    level: LogLevel,
    /// The step that wrote it; absent if the execution as a whole did.
    step: Option<String>,
    message: String,
}

/// The cause of a step's wait.
#[derive(ToSchema)]
#[schema(as = WaitReason)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub(crate) enum WaitReasonInfo {
    /// A duration, or an instant.
    Time,
    /// An event.
    Event {
        /// The name of the event.
        name: String,
    },
    /// The answer of a person.
    Approval {
        /// The question.
        message: String,
        /// The answers to choose from.
        options: Vec<String>,
    },
    /// The end of an execution that it started.
    Call {
        /// The called execution.
        execution: String,
    },
}

/// Why an execution or a step waited. Steps ask for those from `retry` on.
#[derive(ToSchema)]
#[schema(as = DelayReason)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub(crate) enum DelayReasonInfo {
    /// The number of running executions was at its limit.
    Slot,
    /// The large values of other executions took the memory that the data of its trigger need.
    Memory,
    /// Other executions held all permits of its concurrency key.
    Permit {
        /// The key; empty if the automation has none.
        key: String,
        /// The execution that held a permit.
        holder: Option<String>,
    },
    /// The store had not yet committed what the step depends on.
    Commit,
    /// A host was called as often as it allows.
    Host {
        /// The name of the host.
        host: String,
    },
    /// The daemon had stopped.
    Interrupted,
    /// A delay before the next attempt.
    Retry,
    /// A time.
    Time,
    /// An event.
    Event {
        /// Its name.
        name: String,
    },
    /// An answer of a person.
    Approval,
    /// The end of a called execution.
    Call {
        /// The called execution.
        execution: Option<String>,
    },
}

/// The cause of a waiting step's wait.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(crate) enum PauseKind {
    Time,
    Event,
    Approval,
    Call,
    Retry,
}

/// A waiting step in the short form of lists.
#[derive(ToSchema)]
#[schema(as = Pause)]
pub(crate) struct PauseInfo {
    /// The step with its loop turns; empty if the whole execution waits for its next try.
    step: String,
    kind: PauseKind,
    /// The latest end of the wait.
    #[schema(format = DateTime)]
    until: Option<String>,
    /// The name of the event.
    event: Option<String>,
    /// The called execution.
    execution: Option<String>,
}
