//! NATS against a real server.

#![cfg(feature = "nats")]
#![expect(clippy::expect_used, reason = "a test fails with the reason")]

mod actions;
mod broker;
mod messages;
mod refusals;
