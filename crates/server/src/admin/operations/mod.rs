//! The daemon itself: status, statistics, state, secrets, news and metrics.

pub(crate) mod hosts;
pub(crate) mod metrics;
pub(crate) mod nodes;
pub(crate) mod notices;
pub(crate) mod secrets;
pub(crate) mod state;
pub(crate) mod statistics;
pub(crate) mod status;
pub(crate) mod stream;
