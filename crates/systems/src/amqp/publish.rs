//! The actions.

use async_trait::async_trait;
use connector::{Call, MessageSource, SourceOptions};
use model::ActionError;
use value::{Map, Value};

use super::channel::{Channel, Published};
use super::link::Link;
use super::properties::{Properties, short_text};
use super::source::Source;
use super::{Kind, SUBJECT};
use crate::convert::input_error;
use crate::stream::body::bytes_of;
use crate::stream::family::{Family, Target};
use crate::stream::links::{Links, refused};

/// The inputs that are properties of the message, by its name.
const PROPERTIES: [&str; 6] = ["contentType", "correlationId", "replyTo", "type", "priority", "persistent"];

/// The client.
#[derive(Default)]
pub(super) struct Amqp(Links<Link>);

#[async_trait]
impl Family<Kind> for Amqp {
    fn check(&self, kind: Kind, inputs: &Map) -> Result<(), ActionError> {
        if kind != Kind::Publish {
            return Ok(());
        }
        for name in ["exchange", "routingKey"] {
            check_short(inputs, name)?;
        }
        properties(inputs, "").map(drop)
    }

    fn check_event(&self, inputs: &Map) -> Result<(), ActionError> {
        if inputs.get("queue").and_then(Value::as_str) == Some("") {
            return Err(input_error("`queue` is empty"));
        }
        check_short(inputs, "queue")
    }

    async fn call(&self, kind: Kind, call: &Call<'_>, target: Target<'_>) -> Result<Value, ActionError> {
        let step = async |link: &Link| match kind {
            Kind::Publish => publish(link, call).await,
            Kind::ServerInfo => {
                let info = link.info();
                Ok(Value::from(Map::from_iter([
                    ("product", Value::from(info.product.as_str())),
                    ("version", Value::from(info.version.as_str())),
                ])))
            }
        };
        self.0.run(target, step).await
    }

    async fn open(&self, options: SourceOptions<'_>) -> Result<Box<dyn MessageSource>, ActionError> {
        Ok(Box::new(Source::open(options).await?))
    }
}

async fn publish(link: &Link, call: &Call<'_>) -> Result<Value, ActionError> {
    let text = |name: &str| call.inputs.get(name).and_then(|value| value.as_str().map(str::to_owned));
    let (exchange, key) = (text("exchange").unwrap_or_default(), text("routingKey").unwrap_or_default());
    let body = bytes_of(call, "body").await?;
    let properties = properties(call.inputs, call.idempotency_key)?;
    let mut channel = Channel::for_publishing(link).await?;
    // The process may have been frozen, and another one may have the execution now.
    call.http.dialer().pass_gate().await;
    let message = Published { exchange: &exchange, key: &key, properties: &properties, body: &body };
    let is_routed = channel.publish(&message).await?;
    link.rest(channel);
    let must_route = call.inputs.get("mandatory").and_then(|value| value.as_bool()).unwrap_or(true);
    if must_route && !is_routed {
        return Err(unrouted(&exchange, &key));
    }
    Ok(Value::from(Map::from_iter([
        ("messageId", properties.values.get("messageId").cloned().unwrap_or_default()),
        ("routed", Value::from(is_routed)),
    ])))
}

/// The error of a message that no queue takes.
pub(super) fn unrouted(exchange: &str, key: &str) -> ActionError {
    let message = match exchange {
        "" => format!(
            "{SUBJECT} has no queue `{key}`; create it, or give the `exchange` that passes the message on"
        ),
        _ => format!("no queue takes `{key}` from the exchange `{exchange}`; bind one that does"),
    };
    refused(message).with_code("312")
}

/// Checks a name, which has a length of one byte.
fn check_short(inputs: &Map, name: &str) -> Result<(), ActionError> {
    let text = inputs.get(name).map(Value::to_text).unwrap_or_default();
    short_text(name, &text).map(drop).map_err(input_error)
}

fn properties(inputs: &Map, key: &str) -> Result<Properties, ActionError> {
    let given = PROPERTIES.iter().filter_map(|name| Some((*name, inputs.get(name)?.clone())));
    let mut values: Map = given.filter(|(_, value)| !value.is_null()).collect();
    if !values.contains_key("contentType")
        && let Some(content_type) = content_type(inputs.get("body"))
    {
        values.insert("contentType", content_type);
    }
    if !key.is_empty() {
        values.insert("messageId", key);
    }
    let headers = inputs.get("headers").and_then(|headers| headers.as_map().cloned());
    let properties = Properties { values, headers: headers.unwrap_or_default() };
    properties.to_wire().map(drop).map_err(input_error)?;
    Ok(properties)
}

fn content_type(body: Option<&Value>) -> Option<String> {
    match body? {
        Value::Null => None,
        Value::String(_) => Some("text/plain".to_owned()),
        Value::File(file) => Some(file.content_type.to_string()),
        _ => Some("application/json".to_owned()),
    }
}
