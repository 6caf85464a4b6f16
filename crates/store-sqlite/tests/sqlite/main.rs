//! Tests of the store in a SQLite file, beyond the conformance suite.

#![expect(clippy::expect_used, reason = "what a test prepares has to work")]

mod backup;
mod blobs;
mod budget;
mod common;
mod conformance;
mod crash;
mod damage;
// Fault injection exists only in builds for tests.
#[cfg(debug_assertions)]
mod faults;
mod files;
#[cfg(debug_assertions)]
mod outage;
mod referenced_files;
mod restore;
