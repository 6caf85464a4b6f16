//! A server of a test with a connection to it.

use connector::{Http, MessageSource, Registry, ResolvedConnection};
use model::ActionError;
use serde_json::json;
use servers::rabbitmq::{PASSWORD, Server, USER};
use value::Value;

use crate::support::{call, connect, http, open, registry};

pub(crate) struct Broker {
    pub server: Server,
    pub registry: Registry,
    pub http: Http,
    pub connection: ResolvedConnection,
}

impl Broker {
    /// Starts a server; `None` if it is not installed.
    pub(crate) fn start() -> Option<Self> {
        Self::start_with("")
    }

    /// Starts a server with further lines of configuration.
    pub(crate) fn start_with(lines: &str) -> Option<Self> {
        let server = Server::start_with(lines)?;
        let (registry, http) = (registry(), http(&["127.0.0.1"]));
        let connection = connect(&registry, "amqp.server", with(server.port));
        Some(Self { server, registry, http, connection })
    }

    pub(crate) async fn call(
        &self,
        action: &str,
        inputs: serde_json::Value,
        key: &str,
    ) -> Result<Value, ActionError> {
        call(&self.registry, &self.http, &self.connection, action, (inputs, key)).await
    }

    /// Opens a source of a queue.
    pub(crate) async fn open(&self, queue: &str) -> Result<Box<dyn MessageSource>, ActionError> {
        open(&self.registry, &self.http, &self.connection, ("amqp.message", json!({ "queue": queue }))).await
    }

    /// Opens a source of a queue through another port.
    pub(crate) async fn open_at(
        &self,
        port: u16,
        queue: &str,
    ) -> Result<Box<dyn MessageSource>, ActionError> {
        let connection = connect(&self.registry, "amqp.server", with(port));
        open(&self.registry, &self.http, &connection, ("amqp.message", json!({ "queue": queue }))).await
    }
}

pub(crate) fn with(port: u16) -> serde_json::Value {
    json!({"host": "127.0.0.1", "port": port, "tls": "none", "user": USER, "password": PASSWORD})
}
