//! The runtime: lets executions in and runs them.
//!
//! A [`Context`] has the services that every component may use, and knows no component. A [`Runtime`] lists the components, each of
//! which holds the context: [`Admission`] makes an execution durable before anybody hears of it and starts its run, which walks its
//! plan. The runtime knows neither HTTP serving, nor SQL, nor any vendor, and starts nothing itself: triggers call
//! [`Admission::accept`].
//!
//! Modules, in reading order:
//!
//! * `context`: the services that every component may use
//! * `runtime`: the list of components
//! * `admission`: accepts, queues, suspends and recovers executions
//! * `peers`: the other daemons that share the store
//! * `run`: runs one execution and writes its log
//! * `records`: reads stored executions and their definitions
//! * `definition`: the stored form of a definition
//! * `recent_events`: retains events for steps that wait later
//! * `outbox`: events on their way to triggers
//! * `own_events`: the own events of a project, for people
//! * `engine_events`: failures and changes on their way to triggers
//! * `rerun`: replays that people start
//! * `native`: the native actions that need an execution
//! * `event_filter`: finds the steps that an event concerns
//! * `isolation`: finds the execution that a crash counts against
//! * `evaluator`: runs long evaluations on threads of their own
//! * `memory`: bounds large values and the large data of triggers
//! * `history_memory`: reads histories within the memory budgets
//! * `answer_memory`: reserves memory for the answers of called hosts
//! * `connections`: tokens, logins and statistics of connections
//! * `secrets`: the values of secrets
//! * `project_secrets`: the secrets that the project requires
//! * `subscription_secrets`: the secrets that applications give with their subscriptions
//! * `store_secret`: the key from which tokens are derived
//! * `vault`: the encrypted secrets in the store
//! * `credentials`: removes the credentials of senders from payloads
//! * `resume_tokens`: removes the tokens of resume addresses from what readers get
//! * `inputs`: checks the inputs of a start
//! * `trigger_inputs`: the inputs that a trigger gives
//! * `loop_guard`: bounds chains of executions over HTTP
//! * `refused_writes`: pauses executions whose writes are refused
//! * `rejections`: counts the requests that were rejected
//! * `answers`: the latest answers of people
//! * `wait_listing`: the waits in lists of executions
//! * `attempt_listing`: the attempts in lists of executions
//! * `statistics`: outcomes and durations by hour
//! * `metrics`: counters for monitoring
//! * `observer`: gives ended executions and log lines to exporters
//! * `deployment_times`: the time at which each definition came into force
//! * `timer`: the loop of schedules, polls and subscriptions
//! * `clock`: the monotonic and the wall clock
//! * `ids`: the ids of executions, in the order of acceptance
//! * `random`: random bytes for ids
//! * `locks`: locks by key
//! * `detached`: futures that outlive their caller
//! * `doubles`: the trait of test doubles
//! * `failpoint`: faults that tests inject
//! * `settings`: the settings of a runtime
//! * `api`: the plain values of its interface
//! * `error`: the error of this crate

mod admission;
mod answer_memory;
mod answers;
mod api;
mod attempt_listing;
mod clock;
mod connections;
mod context;
mod credentials;
mod definition;
mod deployment_times;
mod detached;
mod doubles;
mod engine_events;
mod error;
mod evaluator;
mod event_filter;
mod failpoint;
mod history_memory;
mod ids;
mod inputs;
mod isolation;
mod locks;
mod loop_guard;
mod memory;
mod metrics;
mod native;
mod observer;
mod outbox;
mod own_events;
mod peers;
mod project_secrets;
mod random;
mod recent_events;
mod records;
mod refused_writes;
mod rejections;
mod rerun;
mod resume_tokens;
mod run;
mod runtime;
mod secrets;
mod settings;
mod statistics;
mod store_secret;
mod subscription_secrets;
mod timer;
mod trigger_inputs;
mod vault;
mod wait_listing;

pub use admission::{Admission, Answer, NewStart};
pub use answer_memory::Answers;
pub use answers::{AnswerLog, AnsweredQuestion, MAX_ANSWERS};
pub use api::{
    AcceptOptions, Acceptance, ConcurrencyWait, EngineEvent, ManualStart, Pending, Progress, QueueStatus,
    SentEvent, SignalError, Start, StartedBy, Status,
};
pub use attempt_listing::StepAttempt;
pub use clock::{Clock, ClusterClock, ManualClock, MonotonicTime, SystemClock};
pub use connections::{
    ConnectionReport, ConnectionState, ConnectionTest, Connections, Health, LoginCallback, LoginState,
    StartedLogin,
};
pub use connector::http::StreamingBody;
pub use context::{Context, RuntimeParts};
pub use credentials::{mask_credentials, remove_credentials};
pub use definition::{Version, read_definition};
pub use deployment_times::DeploymentTimes;
pub use detached::{SpawnOnDrop, spawn_on_drop};
pub use doubles::{CallTarget, Doubles, StubRequest};
pub use engine_events::{
    EngineRow, FailureStreak, Occurrence, Subject, content_mark, parse_engine_row_name, shared_place,
};
pub use error::Error;
pub use evaluator::{EvaluationCounters, Evaluator, Inline, inline};
pub use history_memory::ReadMemory;
pub use ids::Ids;
pub use inputs::{convert_declared, convert_event_data, convert_inputs, is_address};
pub use isolation::Isolation;
#[cfg(any(test, feature = "simulation"))]
pub use isolation::RecordMemory;
pub use locks::KeyedLocks;
pub use loop_guard::check_chain_depth;
pub use memory::Share;
pub use metrics::{ActionMetrics, CODE_BLOCKS, MAX_ACTIONS, Metrics, OTHER_ACTIONS, QueueWaits};
pub use native::{StateScope, StateValue};
pub use observer::{Attempt, EndedExecution, Observer, ObserverCounts, TRACEPARENT, traceparent_of};
pub use outbox::{DeliveryWait, ENGINE_EVENTS, Outbox};
pub use own_events::{KeptEvent, OwnEvent};
pub use peers::{Peers, ShardHold, ShardRequests, Shards};
pub use records::Records;
pub use rejections::RejectionCounters;
pub use rerun::{RepeatedCall, ReplayPlan, ReplayRequest};
pub use resume_tokens::ResumeTokens;
pub use run::{DerivedInput, ExpressionValue, MissingSource, expression_error, level, to_action_error};
pub use runtime::Runtime;
pub use secrets::{
    PROVIDER_FAILURE, ProviderNetwork, SecretSources, Secrets, SourceKind, SourceRule, exposed_secret_files,
    is_secret_set, secret_files,
};
pub use settings::{Limits, Settings};
pub use statistics::{AutomationStatistics, MAX_WINDOW_HOURS, Outcomes, Statistics};
pub use store_secret::Secret;
pub use timer::{Due, Timed, Timer};
pub use vault::is_name as is_secret_name;
pub use vault::{KeySource, ListedSecret, Rotation, RowKind, SecretSource, Vault};
pub use wait_listing::{Pause, PauseKind, Pauses};
