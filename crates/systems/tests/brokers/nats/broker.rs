//! A server of a test with a connection to it.

use connector::MessageSource;
use model::ActionError;
use serde_json::json;
use servers::nats::Server;

pub(crate) type Broker = crate::support::Broker<Server>;

impl Broker {
    /// Starts a server with a stream `ORDERS`; `None` if it is not installed.
    pub(crate) fn start() -> Option<Self> {
        let server = Server::start()?;
        server.client().create_stream("ORDERS");
        let with = with(server.port);
        Some(Self::of(server, "nats.server", with))
    }

    /// Opens a source of the stream.
    pub(crate) async fn open(
        &self,
        inputs: serde_json::Value,
    ) -> Result<Box<dyn MessageSource>, ActionError> {
        self.source(None, ("nats.message", inputs)).await
    }

    /// Opens a source of the stream through another port.
    pub(crate) async fn open_at(
        &self,
        port: u16,
        inputs: serde_json::Value,
    ) -> Result<Box<dyn MessageSource>, ActionError> {
        self.source(Some(("nats.server", with(port))), ("nats.message", inputs)).await
    }
}

fn with(port: u16) -> serde_json::Value {
    json!({"host": "127.0.0.1", "port": port, "tls": "none"})
}
