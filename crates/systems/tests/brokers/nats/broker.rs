//! A server of a test with a connection to it.

use connector::{Http, MessageSource, Registry, ResolvedConnection};
use model::ActionError;
use servers::nats::Server;
use value::Value;

use crate::support::{call, connect, http, open, registry};

pub(crate) struct Broker {
    pub server: Server,
    pub registry: Registry,
    pub http: Http,
    pub connection: ResolvedConnection,
}

impl Broker {
    /// Starts a server with a stream `ORDERS`; `None` if it is not installed.
    pub(crate) fn start() -> Option<Self> {
        let server = Server::start()?;
        server.client().create_stream("ORDERS");
        let (registry, http) = (registry(), http(&["127.0.0.1"]));
        let connection = connect(&registry, "nats.server", with(server.port));
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

    /// Opens a source of the stream.
    pub(crate) async fn open(
        &self,
        inputs: serde_json::Value,
    ) -> Result<Box<dyn MessageSource>, ActionError> {
        open(&self.registry, &self.http, &self.connection, ("nats.message", inputs)).await
    }

    /// Opens a source of the stream through another port.
    pub(crate) async fn open_at(
        &self,
        port: u16,
        inputs: serde_json::Value,
    ) -> Result<Box<dyn MessageSource>, ActionError> {
        let connection = connect(&self.registry, "nats.server", with(port));
        open(&self.registry, &self.http, &connection, ("nats.message", inputs)).await
    }
}

fn with(port: u16) -> serde_json::Value {
    serde_json::json!({"host": "127.0.0.1", "port": port, "tls": "none"})
}
