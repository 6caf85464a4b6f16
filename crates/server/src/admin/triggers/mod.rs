//! Addresses, listening, payloads, subscriptions, polls and messages of brokers.

pub(crate) mod addresses;
pub(crate) mod listening;
pub(crate) mod messages;
pub(crate) mod moves;
pub(crate) mod own_events;
pub(crate) mod payload;
pub(crate) mod polls;
pub(crate) mod saved_payloads;
pub(crate) mod subscriptions;
