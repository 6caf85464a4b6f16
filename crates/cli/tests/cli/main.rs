//! The command line as people use it: the real binary, its output and its exit codes.

#![allow(clippy::expect_used, reason = "a test may fail in its support code too")]

mod support;

mod access;
mod completions;
mod connectors;
mod daemon;
mod damage;
mod described;
mod diagnostics;
mod doctor;
#[cfg(unix)]
mod every;
mod generated;
mod help;
mod history;
mod pauses;
mod payloads;
mod plan;
mod recipes;
mod reference;
mod run;
mod scaffold;
mod secrets;
mod testing;
mod transfer;
mod validate;
