//! Calls to other systems: connectors, their actions and the HTTP client that they share.
//!
//! A [`Registry`] holds [`Connector`]s. A connector is data: a YAML manifest declares connection types and actions,
//! and one interpreter here runs them all. An operation that data cannot describe is a native action in Rust behind
//! the same [`Action`] trait. Every request goes through one [`Http`], whose guard decides which addresses it may
//! call. This crate does not know what an automation is.
//!
//! Modules, in reading order:
//!
//! * `registry`: all connectors and their actions
//! * `manifest`: reads, interprets and proves manifests
//! * `import`: makes a manifest from an OpenAPI document
//! * `against`: compares a connector with the OpenAPI document of its service
//! * `native`: actions in Rust, a file each
//! * `action`: the trait of actions, and the context of a call
//! * `file_sink`: files of results while they are written
//! * `connection`: connection types and their credentials
//! * `input`: checks inputs
//! * `static_inputs`: the inputs of a step that are known before it runs
//! * `stages`: calls that take several requests, with their checkpoints
//! * `event`: events of other applications
//! * `source`: messages of brokers
//! * `http`: the client with its guard, limits, redirects, failures and cassettes
//! * `net`: connections for other protocols, under the same guard
//! * `oauth`: the OAuth protocol, without state
//! * `oidc`: logins of people: a provider's description, keys and ID tokens
//! * `secret_provider`: reads secrets from the services that keep them
//! * `trace`: the chain of executions that a call belongs to
//! * `log`: takes the log lines of a call
//! * `error`: the error of this crate

mod error;
mod file_sink;
mod log;
mod static_inputs;
mod trace;

pub mod action;
pub mod connection;
pub mod event;
pub mod input;

pub mod http;
pub mod net;
pub mod oauth;
pub mod oidc;
pub mod secret_provider;
pub mod source;
pub mod stages;

mod against;
mod import;
mod manifest;
mod native;

pub mod registry;

pub use action::{Action, AnswerMemory, Call, Exchanged, FileAccess, UncountedAnswers};
pub use against::{Difference, differences};
pub use connection::{
    BaseUrl, ConnectionInput, ConnectionTest, ConnectionType, ConnectionValue, ResolvedConnection,
    SigningKeys,
};
pub use error::Error;
pub use event::{
    EventDelivery, EventSource, EventSpec, PolledEvent, Record, Since, SubscribedEvent, SubscriptionListing,
    SubscriptionRenewal,
};
pub use file_sink::{FILE_MEMORY, FileMemory, FileShare, FileSink, MAX_IN_MEMORY};
pub use http::{
    AllowList, BodySink, Cassette, FileBody, Gate, HostHealth, Http, HttpOptions, Lookup, RateLimit,
    Recording, Timer, Transport, UnmatchedRequest, install_crypto, may_have_acted,
};
pub use import::{ImportOptions, Imported, openapi};
pub use input::{bytes_to_load, check_event_inputs, check_inputs, convert_input, convert_value};
pub use log::LogSink;
pub use manifest::{Idempotency, Proof, ProofKind, Shown, show};
pub use native::http_request::is_http_call;
pub use registry::{BuildSystemAction, Connector, Registry, manifest_schema};
pub use source::{Broker, Fate, Message, MessageSource, SourceOptions, StreamedEvent, TakeLimits};
pub use stages::{Checkpoint, Pause, Progress, Reached, StatusExample};
pub use static_inputs::{InputProblem, StaticInputs};
pub use trace::{ParseTraceError, TRACE_HEADER, Trace};
