//! Redis.

mod actions;
mod broker;
mod faults;
mod hostile;
mod messages;
mod refusals;
