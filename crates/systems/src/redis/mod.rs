//! Redis: messages of streams, and values by keys.
//!
//! * `spec`: the inputs and results of the actions and of the event
//! * `reply`: the bytes of a server, within limits
//! * `link`: a connection to a server
//! * `entry`: entries of streams as messages
//! * `group`: positions of consumer groups
//! * `actions`: the actions
//! * `source`: messages for triggers

#[cfg(feature = "redis")]
mod actions;
#[cfg(feature = "redis")]
mod entry;
#[cfg(feature = "redis")]
mod group;
#[cfg(feature = "redis")]
mod link;
#[cfg(feature = "redis")]
mod reply;
#[cfg(feature = "redis")]
mod source;
mod spec;

use std::sync::Arc;

use connector::Registry;
use text::diagnostic::Report;

use crate::stream::family::{Connector, Family};

/// The called system as messages name it.
const SUBJECT: &str = "the Redis server";

/// The connector.
pub(crate) static CONNECTOR: Connector<Kind> = Connector {
    name: "redis",
    subject: SUBJECT,
    connection: "redis.server",
    manifest: ("connectors/redis.yaml", include_str!("../../manifests/redis.yaml")),
    actions: &[
        ("add", Kind::Add, spec::add),
        ("get", Kind::Get, spec::get),
        ("set", Kind::Set, spec::set),
        ("delete", Kind::Delete, spec::delete),
        ("increment", Kind::Increment, spec::increment),
        ("serverInfo", Kind::ServerInfo, spec::server_info),
    ],
    event: spec::message,
};

/// Adds the connector.
pub(crate) fn register(registry: Registry) -> Result<Registry, Box<Report>> {
    CONNECTOR.register(registry, family())
}

#[cfg(feature = "redis")]
fn family() -> Option<Arc<dyn Family<Kind>>> {
    Some(Arc::<actions::Redis>::default())
}

#[cfg(not(feature = "redis"))]
fn family() -> Option<Arc<dyn Family<Kind>>> {
    None
}

/// The actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "redis"), allow(dead_code))]
pub(crate) enum Kind {
    Add,
    Get,
    Set,
    Delete,
    Increment,
    ServerInfo,
}
