//! The plain clients: the library of NATS, and clients of AMQP and Redis that do the least.

use async_nats::jetstream::consumer::{AckPolicy, pull};
use async_nats::jetstream::{self, Context};
use futures_util::StreamExt as _;
use servers::{nats, rabbitmq, redis};
use value::{Map, Value};

use super::super::ours::failed;
use super::{BATCH, BODY};
use crate::Error;
use crate::process::Processors;

/// The queue, which is a stream with a group at Redis, and the stream of NATS with its subject.
const QUEUE: &str = "rows";
const GROUP: &str = "measured";
const STREAM: &str = "ROWS";
const SUBJECT: &str = "rows.new";

/// A broker with its client.
pub(super) enum Plain {
    Nats { server: nats::Server, prepares: nats::Client, client: Box<Context>, exists: bool },
    RabbitMq { server: rabbitmq::Server, client: rabbitmq::Client, exists: bool },
    Redis { server: redis::Server, client: redis::Client },
}

impl Plain {
    /// The brokers that this machine has.
    pub(super) async fn all(processors: Processors) -> Result<Vec<Self>, Error> {
        let mut all = Vec::new();
        if let Some(server) = processors.for_servers(nats::Server::start) {
            let client = async_nats::connect(format!("127.0.0.1:{}", server.port)).await.map_err(failed)?;
            let (prepares, client) = (server.client(), Box::new(jetstream::new(client)));
            all.push(Self::Nats { server, prepares, client, exists: false });
        }
        if let Some(server) = processors.for_servers(rabbitmq::Server::start) {
            let client = server.client();
            all.push(Self::RabbitMq { server, client, exists: false });
        }
        if let Some(server) = processors.for_servers(redis::Server::start) {
            let client = server.client();
            all.push(Self::Redis { server, client });
        }
        Ok(all)
    }

    /// The name of the broker, and of the client.
    pub(super) fn names(&self) -> (&'static str, &'static str) {
        match self {
            Self::Nats { .. } => ("NATS", "async-nats"),
            Self::RabbitMq { .. } => ("RabbitMQ", "a plain client"),
            Self::Redis { .. } => ("Redis", "a plain client"),
        }
    }

    /// The connection type and its inputs.
    pub(super) fn connection(&self) -> (&'static str, Map) {
        let inputs = |port: u16| {
            Map::from_iter([
                ("host", Value::from("127.0.0.1")),
                ("port", Value::from(port)),
                ("tls", Value::from("none")),
            ])
        };
        match self {
            Self::Nats { server, .. } => ("nats.server", inputs(server.port)),
            Self::RabbitMq { server, .. } => {
                let mut inputs = inputs(server.port);
                inputs.insert("user", rabbitmq::USER);
                inputs.insert("password", rabbitmq::PASSWORD);
                ("amqp.server", inputs)
            }
            Self::Redis { server, .. } => ("redis.server", inputs(server.port)),
        }
    }

    /// The action that publishes, with the input that says where to.
    pub(super) fn publishing(&self) -> (&'static str, (&'static str, Value)) {
        match self {
            Self::Nats { .. } => ("nats.publish", ("subject", Value::from(SUBJECT))),
            Self::RabbitMq { .. } => ("amqp.publish", ("routingKey", Value::from(QUEUE))),
            Self::Redis { .. } => ("redis.add", ("stream", Value::from(QUEUE))),
        }
    }

    /// The event of a message, with its inputs.
    pub(super) fn event(&self) -> (&'static str, Vec<(&'static str, Value)>) {
        match self {
            Self::Nats { .. } => {
                let inputs = [("stream", STREAM), ("consumer", "measured")];
                ("nats.message", inputs.map(|(name, value)| (name, Value::from(value))).into())
            }
            Self::RabbitMq { .. } => ("amqp.message", vec![("queue", Value::from(QUEUE))]),
            Self::Redis { .. } => {
                let inputs = [("stream", QUEUE), ("group", GROUP)];
                ("redis.message", inputs.map(|(name, value)| (name, Value::from(value))).into())
            }
        }
    }

    /// Makes an empty stream or queue in place of the one before.
    pub(super) fn set_up(&mut self) {
        match self {
            Self::Nats { prepares, exists, .. } => {
                if std::mem::replace(exists, true) {
                    prepares.delete_stream(STREAM);
                }
                prepares.create_stream(STREAM);
            }
            Self::RabbitMq { client, exists, .. } => {
                if std::mem::replace(exists, true) {
                    client.delete_queue(QUEUE);
                }
                client.create_queue(QUEUE);
            }
            Self::Redis { client, .. } => {
                client.get(&["DEL", QUEUE]);
                client.get(&["XGROUP", "CREATE", QUEUE, GROUP, "0", "MKSTREAM"]);
            }
        }
    }

    /// Puts this many messages there.
    pub(super) fn fill(&mut self, count: usize) {
        match self {
            Self::Nats { prepares, .. } => {
                for _ in 0..count {
                    prepares.publish(SUBJECT, BODY.as_bytes());
                }
            }
            Self::RabbitMq { client, .. } => client.publish_all(QUEUE, BODY.as_bytes(), count),
            Self::Redis { client, .. } => {
                for _ in 0..count {
                    client.add(QUEUE, BODY.as_bytes());
                }
            }
        }
    }

    /// Publishes messages, each confirmed before the next.
    pub(super) async fn publish(&mut self, count: u32) -> Result<Option<u64>, Error> {
        for _ in 0..count {
            match self {
                Self::Nats { client, .. } => {
                    let sent = client.publish(SUBJECT, BODY.into()).await.map_err(failed)?;
                    sent.await.map_err(failed)?;
                }
                Self::RabbitMq { client, .. } => client.publish(QUEUE, BODY.as_bytes(), Some("id")),
                Self::Redis { client, .. } => drop(client.add(QUEUE, BODY.as_bytes())),
            }
        }
        Ok(None)
    }

    /// Takes messages, and acknowledges them.
    pub(super) async fn take(&mut self, count: usize) -> Result<Option<u64>, Error> {
        match self {
            Self::Nats { client, .. } => {
                let config = pull::Config {
                    durable_name: Some("plain".to_owned()),
                    ack_policy: AckPolicy::Explicit,
                    ..pull::Config::default()
                };
                let consumer = client.create_consumer_on_stream(config, STREAM).await.map_err(failed)?;
                let mut left = count;
                while left > 0 {
                    let mut batch = consumer.fetch().max_messages(BATCH).messages().await.map_err(failed)?;
                    while let Some(message) = batch.next().await {
                        message.map_err(failed)?.ack().await.map_err(failed)?;
                        left -= 1;
                    }
                }
            }
            Self::RabbitMq { client, .. } => client.take(QUEUE, count, BATCH),
            Self::Redis { client, .. } => client.take(QUEUE, GROUP, (count, BATCH)),
        }
        Ok(None)
    }
}
