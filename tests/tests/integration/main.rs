//! The product as users run it: the `cogwork` binary on a project folder, reached over real connections, and killed at
//! critical points. It calls the wiki simulator or a recorder in this process.
//!
//! `cargo build --bin cogwork` comes first.

#![expect(clippy::disallowed_methods, reason = "the suite is a client of the product, not a part of it")]
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "in a test a panic is the answer")]

mod site;

mod backup;
mod canaries_by_scope;
mod canary;
#[cfg(unix)]
mod cluster;
mod cluster_clock;
#[cfg(unix)]
mod cluster_pairing;
#[cfg(unix)]
mod cluster_triggers;
#[cfg(unix)]
mod cluster_work;
mod deployments;
#[cfg(unix)]
mod doctor;
mod failures;
mod github;
mod limits;
mod listening;
mod memory;
mod metrics;
#[cfg(unix)]
mod migrate;
mod news;
mod pauses;
#[cfg(unix)]
mod postgres;
mod reload;
mod repeats;
mod resume;
mod schedules;
mod secret_providers;
mod senders;
mod shipped;
mod staged_calls;
mod stop;
mod telemetry;
mod tokens;
mod transfer;
mod triggers;
mod upgrade;
mod uploads;
mod webhooks;
mod workers;
