//! The specifications of the actions and of the event: inputs, results, effects.

use std::sync::Arc;

use connector::{Broker, EventSource, EventSpec, StreamedEvent};
use model::action::ResultField;
use model::{ActionSpec, Effect, InputSpec, InputType, ResultType};

use crate::spec::{choice, defaulted, object, optional, required};
use crate::stream;

fn key() -> InputSpec {
    required("key", InputType::Text, "The key, such as `rate:EUR`.")
}

/// The specification of an action with one result.
fn one_result(
    spec: ActionSpec,
    (title, description): (&str, &str),
    (inputs, result): (Vec<InputSpec>, (&str, ResultType, &str)),
) -> ActionSpec {
    let (name, kind, about) = result;
    ActionSpec {
        title: title.to_owned(),
        description: Some(description.to_owned()),
        effect: Effect::Write,
        inputs,
        result: Some(format!("`{{{name}}}`")),
        results: object([ResultField::new(name, kind).with_description(about)]),
        ..spec
    }
}

/// `redis.add`.
pub(super) fn add(spec: ActionSpec) -> ActionSpec {
    let words = (
        "Add an entry to a stream",
        "The stream is created if it is missing. The server does not tell a repeated step from a new one: after a lost answer the \
         entry may be there twice.",
    );
    let inputs = vec![
        required("stream", InputType::Text, "The stream, such as `orders`."),
        optional(
            "body",
            InputType::Any,
            "The field `body`: a text or a file as it is, anything else as JSON.",
        ),
        optional(
            "fields",
            InputType::Map { values: Box::new(InputType::Text) },
            "Further fields of the entry, which `redis.message` shows as `headers` beside a `body`.",
        ),
        optional(
            "maxLength",
            InputType::Integer { min: Some(1), max: None },
            "The number of entries, or a few more, that the stream keeps: older ones are deleted.",
        ),
    ];
    let id = ("id", ResultType::Text, "The id of the entry, such as `1767225600000-0`.");
    one_result(spec, words, (inputs, id))
}

/// `redis.get`.
pub(super) fn get(spec: ActionSpec) -> ActionSpec {
    let parse = "The form of `value`: a text (text), the value of a JSON text (json), or a file with the bytes (file).";
    ActionSpec {
        title: "Read the value of a key".to_owned(),
        description: Some("A value of at most 8 MiB, as `redis.set` writes it.".to_owned()),
        effect: Effect::Read,
        inputs: vec![key(), defaulted("parse", choice(&["text", "json", "file"]), "text", parse)],
        result: Some("`{found, value}`".to_owned()),
        results: object([
            ResultField::new("found", ResultType::Boolean).with_description("False if there is no such key."),
            ResultField::new("value", ResultType::Any).with_description("Its value; null without one."),
        ]),
        ..spec
    }
}

/// `redis.set`.
pub(super) fn set(spec: ActionSpec) -> ActionSpec {
    let words = (
        "Set the value of a key",
        "A repetition sets the same value again. With `onlyIf: missing` it finds the key of an attempt whose answer was lost: \
         then `stored` is false.",
    );
    let inputs = vec![
        key(),
        required("value", InputType::Any, "The value: a text or a file as it is, anything else as JSON."),
        optional(
            "ttl",
            InputType::Text,
            "The time after which the key is gone, such as `1h`; default: it stays.",
        ),
        optional(
            "onlyIf",
            choice(&["missing", "exists"]),
            "Sets the value only if the key is missing (missing), or if it exists (exists).",
        ),
    ];
    let stored = ("stored", ResultType::Boolean, "False if `onlyIf` did not allow it.");
    one_result(spec, words, (inputs, stored))
}

/// `redis.delete`.
pub(super) fn delete(spec: ActionSpec) -> ActionSpec {
    let words = ("Delete a key", "A value, a stream or anything else that the key has.");
    let deleted = ("deleted", ResultType::Boolean, "False if there was no such key.");
    one_result(spec, words, (vec![key()], deleted))
}

/// `redis.increment`.
pub(super) fn increment(spec: ActionSpec) -> ActionSpec {
    let words = (
        "Add to a number",
        "A missing key counts as 0. The server does not tell a repeated step from a new one: after a lost answer the number may have \
         grown twice.",
    );
    let by = InputType::Integer { min: None, max: None };
    let inputs = vec![key(), defaulted("by", by, 1, "The number to add; a negative one is subtracted.")];
    one_result(spec, words, (inputs, ("value", ResultType::Integer, "The number after it.")))
}

/// `redis.serverInfo`.
pub(super) fn server_info(spec: ActionSpec) -> ActionSpec {
    let fields = [
        ResultField::new("product", ResultType::Text).with_description("`redis` or `valkey`."),
        ResultField::new("version", ResultType::Text),
    ];
    stream::server_info(spec, "Read the product and the version of the server", fields)
}

/// `redis.message`.
pub(super) fn message(broker: Arc<dyn Broker>) -> EventSpec {
    EventSpec {
        name: "redis.message".to_owned(),
        title: "Messages of a stream".to_owned(),
        description: Some(
            "Each entry starts an execution once. A consumer group of the server keeps the position."
                .to_owned(),
        ),
        connections: Vec::new(),
        connection_required: true,
        inputs: vec![
            required(
                "stream",
                InputType::Text,
                "The stream, such as `orders`. It is created if it is not there.",
            ),
            required(
                "group",
                InputType::Text,
                "The consumer group, which keeps the position at the server. It is created if it is not there.",
            ),
            defaulted("parse", choice(stream::PARSES), "json", stream::ABOUT_PARSE),
            optional("maxBody", InputType::Text, stream::ABOUT_MAX_BODY),
        ],
        results: None,
        source: EventSource::Stream(StreamedEvent { properties: &["entryId"], broker, starts: true }),
    }
}
