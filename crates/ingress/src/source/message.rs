//! The data that executions get of a message. Pure.

use connector::Message;
use expression::Expression;
use model::automation::{EventTrigger, StreamSettings};
use sha2::{Digest as _, Sha256};
use value::{Budget, Data, File, JsonLimits, Map, Value};

/// The default of `maxBody`, in bytes.
const USUAL_BODY: usize = 1 << 20;

/// The largest `maxBody`, in bytes.
const LARGEST: usize = StreamSettings::MAX_BODY as usize;

/// The form of `body`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parse {
    Json,
    Text,
    File,
}

/// The identity of a message, by which a repetition starts nothing.
#[derive(Clone, Debug)]
pub(super) struct Identity(Option<Expression>);

impl Identity {
    /// The identity that a trigger has its messages compared by.
    pub(super) fn of(event: &EventTrigger) -> Self {
        Self(event.stream.dedup.as_ref().map(|(by, _)| by.clone()))
    }

    /// Returns the key of a message with this data; `None` if nothing identifies it.
    ///
    /// # Errors
    /// `dedup.by` cannot be evaluated, or is null.
    pub(super) fn key(
        &self,
        trigger: &str,
        message: &Message,
        data: &Value,
    ) -> Result<Option<[u8; 32]>, String> {
        let Some(by) = &self.0 else {
            return Ok(message.is_identified.then(|| dedup_key(trigger, &message.id)));
        };
        let scope = Value::from(Map::from_iter([("item", data.clone())]));
        let id = by.evaluate(&scope, &Budget::default()).map_err(|error| format!("`dedup.by`: {error}"))?;
        if id.is_null() {
            return Err(
                "`dedup.by` is null; it must be there in each message, and the same only in its repetitions"
                    .to_owned(),
            );
        }
        let id = if id.as_map().is_some() || id.as_list().is_some() { id.to_json() } else { id.to_text() };
        Ok(Some(dedup_key(trigger, &format!("by:{id}"))))
    }
}

/// The way in which messages of a trigger are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reading {
    parse: Parse,
    max_body: usize,
}

impl Reading {
    /// The inputs of a trigger that say how messages are read.
    pub(super) const INPUTS: [&'static str; 2] = ["parse", "maxBody"];

    /// Takes it from the inputs of an event.
    ///
    /// # Errors
    /// Returns a message if `maxBody` is no size, or too large.
    pub(super) fn of(inputs: &Map) -> Result<Self, String> {
        let text = |name: &str| inputs.get(name).map(Value::to_text);
        let parse = match text("parse").as_deref() {
            Some("text") => Parse::Text,
            Some("file") => Parse::File,
            _ => Parse::Json,
        };
        let max_body = match text("maxBody").filter(|text| !text.is_empty()) {
            None => USUAL_BODY,
            Some(text) => {
                let size = text::units::parse_size(&text).map_err(|error| format!("`maxBody`: {error}"))?;
                Some(size)
                    .filter(|size| (1..=StreamSettings::MAX_BODY).contains(size))
                    .and_then(|size| usize::try_from(size).ok())
                    .ok_or_else(|| format!("`maxBody` must be from 1 byte to 8MiB, found `{text}`"))?
            }
        };
        Ok(Self { parse, max_body })
    }

    /// Returns the data of an execution.
    ///
    /// # Errors
    /// Returns a message if the body is too large, or not of the form that `parse` names.
    pub(super) fn data(self, message: &Message) -> Result<Value, String> {
        let size = message.body.len();
        if size > self.max_body {
            // Brokers keep no more of a body than that and one byte.
            let at_least = if size > LARGEST { "more than " } else { "" };
            return Err(format!(
                "the body has {at_least}{} bytes, and `maxBody` is {}",
                size.min(LARGEST),
                self.max_body
            ));
        }
        let body = match self.parse {
            Parse::Json => Value::from_json(&message.body, JsonLimits::default())
                .map_err(|error| format!("the body is not the JSON that `parse: json` asks for: {error}"))?,
            Parse::Text => {
                Value::from(std::str::from_utf8(&message.body).map_err(|error| {
                    format!("the body is not the text that `parse: text` asks for: {error}")
                })?)
            }
            Parse::File => {
                let named = [("content-type", &message.headers), ("Content-Type", &message.headers)];
                let content_type = named
                    .into_iter()
                    .chain([("contentType", &message.properties)])
                    .find_map(|(name, map)| map.get(name)?.as_str().map(str::to_owned));
                let content_type = content_type.unwrap_or_else(|| "application/octet-stream".to_owned());
                Value::from(File {
                    content_type: content_type.as_str().into(),
                    filename: None,
                    data: Data::from(message.body.clone()),
                })
            }
        };
        Ok(Value::from(Map::from_iter([
            ("id", Value::from(message.id.as_str())),
            ("source", Value::from(message.source.as_str())),
            ("key", message.key.as_deref().map(Value::from).unwrap_or_default()),
            ("body", body),
            ("headers", Value::from(message.headers.clone())),
            ("properties", Value::from(message.properties.clone())),
            ("at", message.at.map(|at| Value::from(at.to_string())).unwrap_or_default()),
            ("redelivered", Value::from(message.redelivered)),
        ])))
    }
}

/// Returns the key of a message with this identity.
pub(super) fn dedup_key(trigger: &str, message: &str) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in ["message", trigger, message] {
        hash.update(part.len().to_le_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn message(body: &'static [u8]) -> Message {
        Message {
            token: 0,
            id: "ORDERS@1:7".to_owned(),
            is_identified: true,
            source: "ORDERS".to_owned(),
            key: Some("orders.new".to_owned()),
            body: body.into(),
            headers: Map::from_iter([("content-type", "text/csv")]),
            properties: Map::from_iter([("sequence", 7)]),
            at: None,
            redelivered: false,
        }
    }

    fn reading(inputs: &[(&'static str, &str)]) -> Result<Reading, String> {
        Reading::of(&inputs.iter().copied().collect())
    }

    fn check(inputs: &[(&'static str, &str)], body: &'static [u8], expected: &str) {
        let data = reading(inputs).and_then(|reading| reading.data(&message(body)));
        let found = data.map(|data| data.get("body").unwrap_or_default().to_json());
        assert_eq!(found.unwrap_or_else(|error| error), expected);
    }

    #[test]
    fn a_body_has_the_form_that_parse_names() {
        check(&[], br#"{"id":17}"#, r#"{"id":17}"#);
        check(&[("parse", "text")], "hé".as_bytes(), "\"hé\"");
        let file = reading(&[("parse", "file")]).and_then(|reading| reading.data(&message(b"\xff")));
        let file = file.expect("any bytes are a file").get("body").expect("a body");
        assert_eq!(file.get("contentType"), Some(Value::from("text/csv")));
    }

    #[test]
    fn a_body_of_another_form_or_above_max_body_is_an_error() {
        let error = reading(&[]).and_then(|reading| reading.data(&message(b"{"))).expect_err("no JSON");
        assert!(error.starts_with("the body is not the JSON that `parse: json` asks for: "), "{error}");
        let error = reading(&[("parse", "text")]).and_then(|reading| reading.data(&message(b"\xff")));
        assert!(error.is_err_and(|error| error.contains("`parse: text`")));
        check(&[("maxBody", "4B"), ("parse", "text")], b"1234", "\"1234\"");
        check(&[("maxBody", "4B"), ("parse", "text")], b"12345", "the body has 5 bytes, and `maxBody` is 4");
        check(&[("maxBody", "9MiB")], b"1", "`maxBody` must be from 1 byte to 8MiB, found `9MiB`");
    }

    #[test]
    fn the_key_of_a_message_depends_on_its_trigger_and_its_id() {
        assert_eq!(dedup_key("main", "a"), dedup_key("main", "a"));
        assert_ne!(dedup_key("main", "a"), dedup_key("other", "a"));
        assert_ne!(dedup_key("main", "a"), dedup_key("maina", ""));
    }
}
