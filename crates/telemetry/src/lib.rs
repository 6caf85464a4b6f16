//! Traces and logs for an OpenTelemetry collector, sent by OTLP and configured by the standard `OTEL_*` variables.
//!
//! The spans of an execution are derived from its stored log when it ends: nothing is kept in memory meanwhile, and an
//! execution that outlives the daemon has all its spans. Ids of spans are hashes of what they stand for, so a
//! `traceparent` that a call sends needs no state. The crate implements [`runtime::Observer`]; without it the runtime does
//! nothing of this.

mod batch;
mod config;
mod context;
mod error;
mod export;
mod logs;
mod queue;
mod spans;
mod telemetry;
mod tree;

pub use error::Error;
pub use telemetry::{Running, Telemetry};
