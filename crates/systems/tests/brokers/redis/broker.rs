//! A server of a test with a connection to it.

use connector::{Http, MessageSource, Registry, ResolvedConnection};
use model::ActionError;
use serde_json::json;
use servers::redis::Server;
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
        let server = Server::start()?;
        let (registry, http) = (registry(), http(&["127.0.0.1"]));
        let connection = connect(&registry, "redis.server", with(server.port));
        Some(Self { server, registry, http, connection })
    }

    pub(crate) async fn call(&self, action: &str, inputs: serde_json::Value) -> Result<Value, ActionError> {
        call(&self.registry, &self.http, &self.connection, action, (inputs, "execution.step")).await
    }

    /// Opens a source of the stream `orders` from its oldest entry.
    pub(crate) async fn open(&self) -> Box<dyn MessageSource> {
        self.open_as(inputs()).await.expect("it opens")
    }

    pub(crate) async fn open_as(
        &self,
        inputs: serde_json::Value,
    ) -> Result<Box<dyn MessageSource>, ActionError> {
        open(&self.registry, &self.http, &self.connection, ("redis.message", inputs)).await
    }

    /// Opens a source of the stream through another port.
    pub(crate) async fn open_at(&self, port: u16) -> Box<dyn MessageSource> {
        let connection = connect(&self.registry, "redis.server", with(port));
        open(&self.registry, &self.http, &connection, ("redis.message", inputs())).await.expect("it opens")
    }
}

pub(crate) fn with(port: u16) -> serde_json::Value {
    json!({"host": "127.0.0.1", "port": port, "tls": "none"})
}

pub(crate) fn inputs() -> serde_json::Value {
    json!({"stream": "orders", "group": "shop", "start": "all"})
}
