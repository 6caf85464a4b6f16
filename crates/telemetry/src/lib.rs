//! Traces and logs for an OpenTelemetry collector, sent by OTLP and configured by the standard `OTEL_*` variables.
//!
//! The spans of an execution are derived from its stored log when it ends: nothing is kept in memory meanwhile, and an
//! execution that outlives the daemon has all its spans. Ids of spans are hashes of their subjects, so a
//! `traceparent` that a call sends needs no state. The crate implements [`runtime::Observer`]; without it the runtime does
//! nothing of this.
//!
//! Modules, in reading order:
//!
//! * `telemetry`: start, observer of the runtime, stop
//! * `config`: the variables
//! * `context`: trace and span ids, and the header that carries them
//! * `spans`: derives the spans of an execution from its log
//! * `tree`: the step around a step
//! * `logs`: log lines of executions and of the daemon
//! * `queue`: the bounded queue of the exporter
//! * `batch`: batches of the queue
//! * `export`: sends batches by OTLP
//! * `error`: the error of this crate

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
