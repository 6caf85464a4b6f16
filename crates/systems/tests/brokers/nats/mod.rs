//! NATS.

mod actions;
mod broker;
mod messages;
mod refusals;
