//! Mailboxes against Dovecot, and against servers that break the rules.

#![cfg(feature = "mail")]
#![expect(clippy::expect_used, reason = "a test fails with the reason")]

mod account;
mod arrivals;
mod changes;
mod faults;
mod hostile;
mod messages;
mod refusals;
mod selections;
mod sessions;
