//! NATS: messages of JetStream, and their publishing.
//!
//! * `spec`: the inputs and results of the actions and of the event
//! * `client`: a connection to a server
//! * `publish`: the actions
//! * `source`: messages for triggers

#[cfg(feature = "nats")]
mod client;
#[cfg(feature = "nats")]
mod publish;
#[cfg(feature = "nats")]
mod source;
mod spec;

use std::sync::Arc;

use connector::Registry;
use text::diagnostic::Report;

use crate::stream::family::{Connector, Family};

/// The called system as messages name it.
const SUBJECT: &str = "the NATS server";

/// The connector.
pub(crate) static CONNECTOR: Connector<Kind> = Connector {
    name: "nats",
    subject: SUBJECT,
    connection: "nats.server",
    manifest: ("connectors/nats.yaml", include_str!("../../manifests/nats.yaml")),
    actions: &[
        ("publish", Kind::Publish, spec::publish),
        ("serverInfo", Kind::ServerInfo, spec::server_info),
    ],
    event: spec::message,
};

/// Adds the connector.
pub(crate) fn register(registry: Registry) -> Result<Registry, Box<Report>> {
    CONNECTOR.register(registry, family())
}

#[cfg(feature = "nats")]
fn family() -> Option<Arc<dyn Family<Kind>>> {
    Some(Arc::<publish::Nats>::default())
}

#[cfg(not(feature = "nats"))]
fn family() -> Option<Arc<dyn Family<Kind>>> {
    None
}

/// The actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "nats"), allow(dead_code))]
pub(crate) enum Kind {
    Publish,
    ServerInfo,
}
