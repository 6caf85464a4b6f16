//! The suite of the wiki simulator: each rule of the wiki that a client can meet, over a real connection.

#![expect(clippy::disallowed_methods, reason = "the suite is a client of the simulator, not of the product")]
#![expect(
    clippy::unwrap_used,
    reason = "in a test a belief that is false may end it, in its helpers as well"
)]

mod client;

mod access;
mod attachments;
mod control;
mod eventual;
mod faults;
mod graphql;
mod limits;
mod lists;
mod missing;
mod oauth;
mod pages_delete;
mod pages_read;
mod pages_write;
mod properties;
mod round_trip;
mod spaces;
mod words;
