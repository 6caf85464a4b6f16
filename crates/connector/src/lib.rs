//! Calls to other systems: connectors, their actions and the HTTP client that they share.
//!
//! A [`Registry`] holds [`Connector`]s. A connector is data: a YAML manifest declares connection types and actions,
//! and one interpreter here runs them all. An operation that data cannot describe is a native action in Rust behind
//! the same [`Action`] trait. Every request goes through one [`Http`], whose guard decides which addresses it may
//! call. This crate does not know what an automation is.

mod error;
mod log;
mod static_inputs;
mod trace;

pub mod action;
pub mod connection;
pub mod event;
pub mod input;

pub mod http;
pub mod oauth;
pub mod oidc;

mod import;
mod manifest;
mod native;

pub mod registry;

pub use action::{Action, AnswerMemory, Call, UncountedAnswers};
pub use connection::{
    BaseUrl, ConnectionInput, ConnectionTest, ConnectionType, ConnectionValue, ResolvedConnection,
};
pub use error::Error;
pub use event::{
    EventDelivery, EventSource, EventSpec, PolledEvent, Record, SubscribedEvent, SubscriptionListing,
};
pub use http::{
    AllowList, Cassette, Gate, HostHealth, Http, HttpOptions, Lookup, RateLimit, Recording, Timer, Transport,
    UnmatchedRequest, install_crypto, may_have_acted,
};
pub use import::{ImportOptions, Imported, openapi};
pub use input::{bytes_to_load, check_inputs, check_value};
pub use log::LogSink;
pub use manifest::{Shown, show};
pub use registry::{Connector, Registry, manifest_schema};
pub use static_inputs::{InputProblem, StaticInputs};
pub use trace::{ParseTraceError, TRACE_HEADER, Trace};
