//! What is particular to the store in a SQLite file.

#![expect(clippy::expect_used, reason = "what a test prepares has to work")]

mod backup;
mod blobs;
mod budget;
mod common;
mod crash;
mod damage;
// What a release build has nothing of.
#[cfg(debug_assertions)]
mod faults;
mod files;
mod kept;
mod upgrade;
