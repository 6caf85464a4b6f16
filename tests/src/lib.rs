//! The doubles that the integration suite runs against, and that people can run on their own.
//!
//! Nothing in here depends on the product's crates: a double must not lean on what it tests.

pub mod canary;
pub mod collector;
pub mod commands;
pub mod daemon;
pub mod fake_clock;
pub mod faults;
pub mod github;
pub mod hostile;
pub mod identity;
#[cfg(unix)]
pub mod project;
#[cfg(unix)]
pub mod proxy;
pub mod recorder;
