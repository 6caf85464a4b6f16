//! A server of a test with a connection to it.

use std::time::Duration;

use connector::MessageSource;
use model::ActionError;
use serde_json::json;
use servers::redis::Server;

pub(crate) type Broker = crate::support::Broker<Server>;

impl Broker {
    /// Starts a server; `None` if it is not installed.
    pub(crate) fn start() -> Option<Self> {
        let server = Server::start()?;
        let with = with(server.port);
        Some(Self::of(server, "redis.server", with))
    }

    /// Opens a source of the stream `orders` from its oldest entry.
    pub(crate) async fn open(&self) -> Box<dyn MessageSource> {
        self.open_as(inputs()).await.expect("it opens")
    }

    pub(crate) async fn open_as(
        &self,
        inputs: serde_json::Value,
    ) -> Result<Box<dyn MessageSource>, ActionError> {
        self.source(None, ("redis.message", inputs)).await
    }

    /// Opens a source of the stream through another port.
    pub(crate) async fn open_at(&self, port: u16) -> Box<dyn MessageSource> {
        let source = self.source(Some(("redis.server", with(port))), ("redis.message", inputs())).await;
        source.expect("it opens")
    }
}

/// Lets a source wait until it only waits for new messages: its first looks are for messages that were left.
pub(crate) async fn wait_for_new(source: &mut dyn MessageSource) {
    for _ in 0..3 {
        source.wait(Duration::from_millis(1)).await.expect("it waits");
    }
}

pub(crate) fn with(port: u16) -> serde_json::Value {
    json!({"host": "127.0.0.1", "port": port, "tls": "none"})
}

pub(crate) fn inputs() -> serde_json::Value {
    json!({"stream": "orders", "group": "shop", "start": "all"})
}
