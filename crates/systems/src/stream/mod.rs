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

use model::action::ResultField;
use model::{ActionSpec, Effect};

use crate::spec::object;

/// The specification of an action that reads what a server tells about itself.
pub(crate) fn server_info<const N: usize>(
    spec: ActionSpec,
    title: &str,
    fields: [ResultField; N],
) -> ActionSpec {
    let names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
    ActionSpec {
        title: title.to_owned(),
        description: None,
        effect: Effect::Read,
        inputs: Vec::new(),
        result: Some(format!("`{{{}}}`", names.join(", "))),
        results: object(fields),
        ..spec
    }
}

/// The values of `parse`. The ingress reads them, and `maxBody`.
pub(crate) const PARSES: &[&str] = &["json", "text", "file"];
pub(crate) const ABOUT_PARSE: &str =
    "The form of `body`: the value of a JSON text (json), a text (text), or a file with the bytes (file).";
pub(crate) const ABOUT_MAX_BODY: &str =
    "The largest body, at most 8MiB: a larger message starts nothing. Default: 1MiB.";
