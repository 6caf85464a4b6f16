//! The engine: puts the catalog, the runtime and the ingress together, reloads the project when its files change, and clears
//! away old executions. An [`Engine`] is the handle that the rest of Cogwork uses.
//!
//! Modules, in reading order:
//!
//! * `engine`: the handle
//! * `validate`: all checks with nothing running
//! * `fix`: applies the fixes of diagnostics
//! * `watch`: reloads when files change
//! * `generations`: definitions that are deployed into a shared store
//! * `project_edit`: changes of files by people
//! * `assist`: completion, hovers and definitions for editors
//! * `inspect`: the structure of a text
//! * `preview`: schedules in words, and schemas
//! * `scaffold`: new automations
//! * `text_edit`: edits of texts that are not stored
//! * `bulk`: replays and cancellations of many executions
//! * `trials`: recorded executions and tests on a text that is not saved
//! * `test_draft`: a test from an execution, as a change of its file
//! * `retention`: deletes old executions
//! * `search`: finds executions by a scan
//! * `transfer`: exports and imports executions as JSON lines
//! * `simulation`: in tests, the whole core by seeds, with crashes

mod assist;
mod bulk;
mod engine;
mod fix;
mod generations;
mod inspect;
mod preview;
mod project_edit;
mod retention;
pub mod scaffold;
mod search;
mod test_draft;
mod text_edit;
pub mod transfer;
mod trials;
mod validate;
mod watch;

#[cfg(test)]
mod simulation;

pub use assist::{
    AssistRequest, Completion, CompletionItem, Definition, Hover, TextRange, complete, definition, hover,
};
pub use bulk::{
    BULK_PER_SECOND, Bulk, BulkAction, BulkFailure, BulkPlan, BulkProgress, BulkSelection, BulkState,
    MAX_BULK, MAX_BULK_PER_SECOND,
};
pub use catalog::{
    AddressKind, BlockGraph, CODE_WORKER, Catalog, Change, ChangeKind, Deployment, DeploymentState, Detail,
    DiffKind, Error as CatalogError, FileChange, FileKind, Graph, GraphBlock, GraphBlockKind, GraphStep,
    GraphTrigger, InFlightExecutions, InvalidFile, LineRange, MissingSecret, PROJECT_FOLDERS, Plan,
    ProjectFile, ProjectFileError, ReloadPreview, ReloadSummary, Workers, automation_ids,
    check_project_target, is_own_variable, preview_project, project_files, read_project_file, schema_context,
    serve_code, set_code_limits, set_code_program,
};
pub use engine::Engine;
pub use fix::{FixedText, fix_text};
pub use generations::{Deploy, DeployError, Deployed, RunningDefinitions, deployable_files};
pub use ingress::{
    AnsweredBy, Caller, CallerAnswer, Capture, ForwardError, Ingress, ListenError, ListenView, MAX_CAPTURES,
    MAX_LISTEN_TIME, NonTrigger, PayloadError, PayloadPreview, PayloadProblem, PollError, PollView, Refusal,
    RefusedRequest, RouteMatch, SavedPayload, SubscriptionError, Verdict, VersionedPayload, caller,
};
pub use inspect::{Inspection, StepPlace, Structure, inspect_text};
pub use preview::{ScheduleWords, preview_schedule, schema};
pub use project_edit::{EditError, ExpectedVersion, ProjectText, replace_text};
pub use runtime::{
    Answer, AnsweredQuestion, AutomationStatistics, Clock, ClusterClock, ConcurrencyWait, ConnectionReport,
    ConnectionState, ConnectionTest, DerivedInput, EngineEvent, Error, ExpressionValue, Health, KeySource,
    Limits, ListedSecret, LoginCallback, LoginState, MAX_WINDOW_HOURS, ManualClock, Metrics, MissingSource,
    MonotonicTime, Outcomes, Pause, PauseKind, Pauses, Pending, QueueStatus, ReadMemory, RepeatedCall,
    ReplayPlan, ReplayRequest, ResumeTokens, Rotation, SecretSource, Settings, SignalError, Start,
    StartedLogin, StateScope, StateValue, Status, StepAttempt, StoredSecret, StreamingBody, SystemClock,
    Vault, Version, exposed_secret_files, is_secret_name, is_secret_set, read_definition, secret_files,
};
pub use search::{Search, SearchResult};
pub use test_draft::TestDraft;
pub use testing;
pub use text_edit::{TextChange, edit_text};
pub use trials::{MAX_TRIALS, TestOutcome, TestText, TrialOutcome, TrialRequest, Trials};
pub use validate::{ProjectCheck, check_draft, check_project, check_text};
