//! The parts that the connectors of all brokers have.
//!
//! * `family`: their actions and their event, in a program with and without their client
//! * `links`: the connections that steps share
//! * `body`: the content of published messages

#[cfg(any(feature = "amqp", feature = "nats", feature = "redis"))]
pub(crate) mod body;
pub(crate) mod family;
#[cfg(any(feature = "amqp", feature = "nats", feature = "redis"))]
pub(crate) mod links;

/// The values of `parse`. The ingress reads them, and `maxBody`.
pub(crate) const PARSES: &[&str] = &["json", "text", "file"];
pub(crate) const ABOUT_PARSE: &str =
    "The form of `body`: the value of a JSON text (json), a text (text), or a file with the bytes (file).";
pub(crate) const ABOUT_MAX_BODY: &str =
    "The largest body, at most 8MiB: a larger message starts nothing. Default: 1MiB.";
