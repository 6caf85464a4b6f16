//! Runs real code on real workers.

#![expect(clippy::expect_used, reason = "in a test a panic is the answer")]

mod contract;
mod errors;
mod globals;
mod hostile;
mod isolation;
mod memory;
mod sequences;
mod support;
mod tasks;
mod values;
mod workers;
