//! AMQP 0-9-1, as RabbitMQ speaks it: messages of queues, and their publishing.
//!
//! * `spec`: the inputs and results of the actions and of the event
//! * `frame`: frames, read with a limit
//! * `properties`: the properties and headers of messages
//! * `link`: a connection to a server
//! * `reader`: the task that reads and writes it
//! * `channel`: requests, answers and messages on one of its channels
//! * `publish`: the actions
//! * `source`: messages for triggers

#[cfg(feature = "amqp")]
mod channel;
#[cfg(feature = "amqp")]
mod frame;
#[cfg(feature = "amqp")]
mod link;
#[cfg(feature = "amqp")]
mod properties;
#[cfg(feature = "amqp")]
mod publish;
#[cfg(feature = "amqp")]
mod reader;
#[cfg(feature = "amqp")]
mod source;
mod spec;

use std::sync::Arc;

use connector::Registry;
#[cfg(feature = "amqp")]
pub use frame::read_frames;
use text::diagnostic::Report;

use crate::stream::family::{Connector, Family};

/// The called system as messages name it.
const SUBJECT: &str = "the AMQP server";

/// The connector.
pub(crate) static CONNECTOR: Connector<Kind> = Connector {
    name: "amqp",
    subject: SUBJECT,
    connection: "amqp.server",
    manifest: ("connectors/amqp.yaml", include_str!("../../manifests/amqp.yaml")),
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

#[cfg(feature = "amqp")]
fn family() -> Option<Arc<dyn Family<Kind>>> {
    Some(Arc::<publish::Amqp>::default())
}

#[cfg(not(feature = "amqp"))]
fn family() -> Option<Arc<dyn Family<Kind>>> {
    None
}

/// The actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "amqp"), allow(dead_code))]
pub(crate) enum Kind {
    Publish,
    ServerInfo,
}
