//! The brokers of the round `messages`.

use std::io;

use servers::{nats, rabbitmq, redis};

use super::super::Error;

const STREAM: &str = "ORDERS";
const CONSUMER: &str = "shop";
const QUEUE: &str = "orders";

/// A kind of broker.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Nats,
    Amqp,
    Redis,
}

/// A running broker, with a stream or a queue.
pub(super) enum Broker {
    Nats(nats::Server),
    Amqp(rabbitmq::Server),
    Redis(redis::Server),
}

impl Broker {
    /// Starts one.
    pub(super) fn start(kind: Kind) -> Result<Self, Error> {
        let missing = |program: &str| Error::NotHere(format!("there is no `{program}`"));
        match kind {
            Kind::Nats => {
                let server = nats::Server::start().ok_or_else(|| missing("nats-server"))?;
                server.client().create_stream(STREAM);
                Ok(Self::Nats(server))
            }
            Kind::Amqp => {
                let server = rabbitmq::Server::start().ok_or_else(|| missing("rabbitmq-server"))?;
                server.client().create_queue(QUEUE);
                Ok(Self::Amqp(server))
            }
            Kind::Redis => {
                let server = redis::Server::start().ok_or_else(|| missing("redis-server"))?;
                // The consumers may begin after the first messages.
                server.client().get(&["XGROUP", "CREATE", QUEUE, CONSUMER, "0", "MKSTREAM"]);
                Ok(Self::Redis(server))
            }
        }
    }

    pub(super) fn port(&self) -> u16 {
        match self {
            Self::Nats(server) => server.port,
            Self::Amqp(server) => server.port,
            Self::Redis(server) => server.port,
        }
    }

    /// The connection to it at this port.
    pub(super) fn connection(&self, port: u16) -> String {
        match self {
            Self::Nats(_) => {
                format!("type: nats.server\nwith: {{host: 127.0.0.1, port: {port}, tls: none}}\n")
            }
            Self::Amqp(_) => format!(
                "type: amqp.server\nwith: {{host: 127.0.0.1, port: {port}, tls: none, user: {}, password: \"${{{{ secrets.rabbit }}}}\"}}\n",
                rabbitmq::USER
            ),
            Self::Redis(_) => {
                format!("type: redis.server\nwith: {{host: 127.0.0.1, port: {port}, tls: none}}\n")
            }
        }
    }

    /// The trigger of its messages, with one consumer for each of `consumers` daemons.
    pub(super) fn trigger(&self, consumers: usize) -> String {
        let (event, with, start) = match self {
            Self::Nats(_) => ("nats", "{stream: ORDERS, consumer: shop, parse: json}", "  start: all\n"),
            Self::Amqp(_) => ("amqp", "{queue: orders, parse: json}", ""),
            Self::Redis(_) => ("redis", "{stream: orders, group: shop, parse: json}", "  start: all\n"),
        };
        format!(
            "trigger:\n  event: {event}.message\n  connection: bus\n  with: {with}\n{start}  consumers: {consumers}\n"
        )
    }

    /// Some bytes of an acknowledgement, as clients send it.
    pub(super) fn acknowledgement(&self) -> &'static [u8] {
        match self {
            Self::Nats(_) => b"PUB $JS.ACK.",
            Self::Amqp(_) => b"\x00\x3c\x00\x50",
            Self::Redis(_) => b"XACK",
        }
    }

    /// Publishes the messages with these numbers.
    pub(super) async fn publish(&self, numbers: std::ops::Range<usize>) -> Result<(), Error> {
        match self {
            Self::Nats(server) => {
                let mut client = server.client();
                apart(move || {
                    for number in numbers {
                        client.publish("orders.new", number.to_string().as_bytes());
                    }
                })
                .await
            }
            Self::Amqp(server) => {
                let mut client = server.client();
                apart(move || {
                    for number in numbers {
                        let text = number.to_string();
                        client.publish(QUEUE, text.as_bytes(), Some(&text));
                    }
                })
                .await
            }
            Self::Redis(server) => {
                let mut client = server.client();
                apart(move || {
                    for number in numbers {
                        client.add(QUEUE, number.to_string().as_bytes());
                    }
                })
                .await
            }
        }
    }

    /// The number of messages that nobody has acknowledged. A server of AMQP tells of the ones only that no consumer has.
    pub(super) async fn unsettled(&self) -> Result<u64, Error> {
        match self {
            Self::Nats(server) => {
                let mut client = server.client();
                apart(move || client.unsettled(STREAM, CONSUMER)).await
            }
            Self::Amqp(server) => {
                let mut client = server.client();
                apart(move || client.count(QUEUE)).await
            }
            Self::Redis(server) => {
                let mut client = server.client();
                apart(move || client.unsettled(QUEUE, CONSUMER)).await
            }
        }
    }

    pub(super) fn kill(&mut self) {
        match self {
            Self::Nats(server) => server.kill(),
            Self::Amqp(server) => server.kill(),
            Self::Redis(server) => server.kill(),
        }
    }

    pub(super) fn start_again(&mut self) -> io::Result<()> {
        match self {
            Self::Nats(server) => server.start_again(),
            Self::Amqp(server) => server.start_again(),
            Self::Redis(server) => server.start_again(),
        }
    }
}

/// Runs what blocks.
async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
    tokio::task::spawn_blocking(work).await.map_err(|error| Error::from(io::Error::other(error)))
}
