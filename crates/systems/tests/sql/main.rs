//! SQL against real databases: the same rules on each of them.

#![expect(
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a test fails with the reason, and says that it was skipped"
)]

mod canary;
mod cancel;
mod certificates;
mod confined;
mod database;
mod described;
mod faults;
mod inserts;
mod once;
mod parameters;
mod proof;
mod proxy;
mod results;
mod sessions;
mod transactions;
mod watermarks;
