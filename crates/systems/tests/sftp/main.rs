//! Files over SSH against OpenSSH.

#![cfg(feature = "sftp")]
#![expect(clippy::expect_used, reason = "a test fails with the reason")]

mod arrivals;
mod errors;
mod files;
mod server;
mod sessions;
