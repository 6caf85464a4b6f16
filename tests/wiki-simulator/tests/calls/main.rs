//! The suite of the wiki simulator: each rule of the wiki that a client can meet, over a real connection.

#![expect(clippy::disallowed_methods, reason = "the suite is a client of the simulator, not of the product")]
#![expect(clippy::unwrap_used, reason = "a wrong assumption ends the test, also in its helpers")]

mod client;

mod access;
mod faults;
mod files;
mod lists;
mod oauth;
mod pages;
mod product;
mod properties;
