//! A server of a test with a connection to it.

use connector::MessageSource;
use model::ActionError;
use serde_json::json;
use servers::rabbitmq::{PASSWORD, Server, USER};

pub(crate) type Broker = crate::support::Broker<Server>;

impl Broker {
    /// Starts a server; `None` if it is not installed.
    pub(crate) fn start() -> Option<Self> {
        Self::start_with("")
    }

    /// Starts a server with further lines of configuration.
    pub(crate) fn start_with(lines: &str) -> Option<Self> {
        let server = Server::start_with(lines)?;
        let with = with(server.port);
        Some(Self::of(server, "amqp.server", with))
    }

    /// Opens a source of a queue.
    pub(crate) async fn open(&self, queue: &str) -> Result<Box<dyn MessageSource>, ActionError> {
        self.source(None, ("amqp.message", json!({ "queue": queue }))).await
    }

    /// Opens a source of a queue through another port.
    pub(crate) async fn open_at(
        &self,
        port: u16,
        queue: &str,
    ) -> Result<Box<dyn MessageSource>, ActionError> {
        self.source(Some(("amqp.server", with(port))), ("amqp.message", json!({ "queue": queue }))).await
    }
}

pub(crate) fn with(port: u16) -> serde_json::Value {
    json!({"host": "127.0.0.1", "port": port, "tls": "none", "user": USER, "password": PASSWORD})
}
