//! The specifications of the actions and of the event: inputs, results, effects.

use std::sync::Arc;

use connector::{Broker, EventSource, EventSpec, StreamedEvent};
use model::action::ResultField;
use model::{ActionSpec, Effect, InputType, ResultType};

use crate::spec::{choice, defaulted, object, optional, required};
use crate::stream;

/// `amqp.publish`.
pub(super) fn publish(spec: ActionSpec) -> ActionSpec {
    let priority = InputType::Integer { min: Some(0), max: Some(255) };
    ActionSpec {
        title: "Publish a message to an exchange or a queue".to_owned(),
        description: Some(
            "It succeeds when the server has the message and a queue takes it. The message carries the key of the step as its \
             message-id, which is the same in every attempt: a consumer that compares it, as `amqp.message` does, takes it once."
                .to_owned(),
        ),
        effect: Effect::Write,
        inputs: vec![
            required("routingKey", InputType::Text, "The routing key; without `exchange` the name of the queue."),
            optional("exchange", InputType::Text, "The exchange that passes the message on; default: directly to the queue."),
            optional("body", InputType::Any, "The content: a text or a file as it is, anything else as JSON."),
            optional("headers", InputType::Map { values: Box::new(InputType::Any) }, "Headers of the message."),
            optional("contentType", InputType::Text, "The type of the content; default: by the body."),
            optional("type", InputType::Text, "The kind of message, as the application names it."),
            optional("correlationId", InputType::Text, "The id of the request that it answers."),
            optional("replyTo", InputType::Text, "The queue that an answer goes to."),
            optional("priority", priority, "The priority in queues that have some."),
            defaulted("persistent", InputType::Boolean, true, "If the server writes it to disk."),
            defaulted(
                "mandatory",
                InputType::Boolean,
                true,
                "If it is an error that no queue takes it; else `routed` tells.",
            ),
        ],
        result: Some("`{messageId, routed}`".to_owned()),
        results: object([
            ResultField::new("messageId", ResultType::Text)
                .with_description("Its message-id: the key of the step."),
            ResultField::new("routed", ResultType::Boolean).with_description("True if a queue has it."),
        ]),
        ..spec
    }
}

/// `amqp.serverInfo`.
pub(super) fn server_info(spec: ActionSpec) -> ActionSpec {
    let fields =
        [ResultField::new("product", ResultType::Text), ResultField::new("version", ResultType::Text)];
    stream::server_info(spec, "Read the product and the version of the server", fields)
}

/// The properties of a message.
const PROPERTIES: [&str; 14] = [
    "exchange",
    "messageId",
    "contentType",
    "contentEncoding",
    "correlationId",
    "replyTo",
    "type",
    "appId",
    "userId",
    "clusterId",
    "priority",
    "expiration",
    "timestamp",
    "persistent",
];

/// `amqp.message`.
pub(super) fn message(broker: Arc<dyn Broker>) -> EventSpec {
    EventSpec {
        name: "amqp.message".to_owned(),
        title: "Messages of a queue".to_owned(),
        description: Some(
            "Each message with a message-id starts an execution once. One without starts an execution each time that the server \
             brings it, unless `dedup.by` names its id."
                .to_owned(),
        ),
        connections: Vec::new(),
        connection_required: true,
        inputs: vec![
            required("queue", InputType::Text, "The queue, such as `orders`. It has to be there."),
            defaulted("parse", choice(stream::PARSES), "json", stream::ABOUT_PARSE),
            optional("maxBody", InputType::Text, stream::ABOUT_MAX_BODY),
        ],
        results: None,
        source: EventSource::Stream(StreamedEvent { properties: &PROPERTIES, broker, starts: false }),
    }
}
