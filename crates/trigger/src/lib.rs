//! Triggers: when an Automation starts, and with what payload. Pure functions of times and requests.
//!
//! Nothing here reads the clock, opens a connection or waits. [`webhook::receive`] turns a request into the stored payload
//! and the results that steps read; [`challenge`] answers verification requests; [`dedup`] detects duplicate requests;
//! [`response`] builds every response to a caller, with headers that keep it harmless in a browser;
//! [`schedule::Schedule`] computes when a schedule fires, in any zone, across clock changes. The caller provides the inputs
//! and acts on the outputs.
//!
//! Modules, in reading order:
//!
//! * `webhook`: a request becomes a payload and the results that steps read
//! * `challenge`: answers the verification requests of senders
//! * `verify`: signatures
//! * `dedup`: finds requests that were sent twice
//! * `response`: every response to a caller
//! * `schedule`: cron expressions in zones, and misfires
//! * `results`: the value of `trigger.results`
//! * `rejection`: the reasons why a request starts nothing

pub mod challenge;
pub mod dedup;
pub mod response;
pub mod schedule;
pub mod verify;
pub mod webhook;

mod rejection;
mod results;

pub use rejection::Rejection;
pub use results::{body_names, kind_with_result, result_names, results};
pub use schedule::{MissedFires, Schedule, ScheduleError};
