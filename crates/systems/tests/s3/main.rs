//! Object storage against real servers: SeaweedFS, and moto for what it does not do.

#![expect(clippy::expect_used, reason = "a test fails with the reason")]

mod errors;
mod events;
mod hostile;
mod identity;
mod objects;
mod parts;
mod recordings;
mod store;
