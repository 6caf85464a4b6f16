//! Definitions in force: automations, their versions and graphs, connectors and connections.

pub(crate) mod automations;
pub(crate) mod connections;
pub(crate) mod connectors;
pub(crate) mod deployments;
pub(crate) mod plan;
pub(crate) mod versions;
