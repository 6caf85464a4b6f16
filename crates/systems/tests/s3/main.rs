//! Object storage against real servers: SeaweedFS, and moto for what it does not do.

#![expect(
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a test fails with the reason, and says that it was skipped"
)]

mod errors;
mod events;
mod hostile;
mod identity;
mod objects;
mod parts;
mod recordings;
mod store;
