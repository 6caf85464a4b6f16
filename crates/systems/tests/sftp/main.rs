//! Files over SSH against OpenSSH.

#![cfg(feature = "sftp")]
#![expect(
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a test fails with the reason, and says that it was skipped"
)]

mod arrivals;
mod errors;
mod files;
mod server;
