//! The specifications of the actions and of the event: inputs, results, effects.

use std::sync::Arc;

use connector::{Broker, EventSource, EventSpec, StreamedEvent};
use model::action::ResultField;
use model::{ActionSpec, Effect, InputType, ResultType};

use crate::spec::{choice, defaulted, object, optional, required};
use crate::stream;

/// `nats.publish`.
pub(super) fn publish(spec: ActionSpec) -> ActionSpec {
    ActionSpec {
        title: "Publish a message to a stream".to_owned(),
        description: Some(
            "A stream of the server must take the subject. The message carries the key of the step as `Nats-Msg-Id`: \
             within the duplicate window of the stream (2 minutes by default) the server drops repetitions."
                .to_owned(),
        ),
        effect: Effect::Write,
        inputs: vec![
            required("subject", InputType::Text, "The subject, such as `orders.created`."),
            optional("body", InputType::Any, "The content: a text or a file as it is, anything else as JSON."),
            optional("headers", InputType::Map { values: Box::new(InputType::Text) }, "Headers of the message."),
        ],
        result: Some("`{stream, sequence, repeated}`".to_owned()),
        results: object([
            ResultField::new("stream", ResultType::Text).with_description("The stream that has the message."),
            ResultField::new("sequence", ResultType::Integer).with_description("Its number in the stream."),
            ResultField::new("repeated", ResultType::Boolean)
                .with_description("True if an earlier attempt had published it."),
        ]),
        ..spec
    }
}

/// `nats.serverInfo`.
pub(super) fn server_info(spec: ActionSpec) -> ActionSpec {
    let fields = [
        ResultField::new("name", ResultType::Text),
        ResultField::new("version", ResultType::Text),
        ResultField::new("jetStream", ResultType::Boolean)
            .with_description("True if the account may use streams."),
    ];
    stream::server_info(spec, "Read the name and the version of the server", fields)
}

/// `nats.message`.
pub(super) fn message(broker: Arc<dyn Broker>) -> EventSpec {
    EventSpec {
        name: "nats.message".to_owned(),
        title: "Messages of a stream".to_owned(),
        description: Some(
            "Each message starts an execution once. A durable pull consumer of the server keeps the position."
                .to_owned(),
        ),
        connections: Vec::new(),
        connection_required: true,
        inputs: vec![
            required("stream", InputType::Text, "The stream, such as `ORDERS`."),
            required(
                "consumer",
                InputType::Text,
                "The durable consumer, which keeps the position at the server. It is created if it is not there.",
            ),
            optional("subject", InputType::Text, "Only messages with this subject, such as `orders.*`; default: all."),
            defaulted("parse", choice(stream::PARSES), "json", stream::ABOUT_PARSE),
            optional("maxBody", InputType::Text, stream::ABOUT_MAX_BODY),
        ],
        results: None,
        source: EventSource::Stream(StreamedEvent {
            properties: &["sequence", "deliveries"],
            broker,
            starts: true,
        }),
    }
}
