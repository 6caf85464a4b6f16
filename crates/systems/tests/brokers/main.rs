//! Brokers against real servers.

#![cfg(any(feature = "amqp", feature = "nats", feature = "redis"))]
#![expect(clippy::expect_used, reason = "a test fails with the reason")]

#[cfg(feature = "amqp")]
mod amqp;
#[cfg(feature = "nats")]
mod nats;
#[cfg(feature = "redis")]
mod redis;
mod support;
