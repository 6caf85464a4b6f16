//! What starts an execution, kept in the form it arrived in, and the plain HTTP answer.

use std::borrow::Cow;
use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::execution::LogLevel;
use crate::value::{Data, File, Map, Value};

/// What started an execution. Stored as it arrived; what steps read of it (`trigger.results`) is derived by the
/// trigger crate, so bytes are kept once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Payload {
    /// A request on a webhook's address.
    Webhook(WebhookPayload),
    /// An instant of a schedule.
    #[serde(rename_all = "camelCase")]
    Schedule {
        /// The instant that was due.
        scheduled_at: Timestamp,
        /// When the execution was accepted.
        started_at: Timestamp,
        /// The schedule's IANA zone.
        timezone: String,
    },
    /// What a poll found.
    #[serde(rename_all = "camelCase")]
    Poll {
        /// What is new: one, or a list.
        data: Value,
        /// When it was found.
        polled_at: Timestamp,
    },
    /// A person, the command line, the API or another Automation.
    Manual {
        /// The inputs by name.
        inputs: Map,
    },
}

/// A request on a webhook's address, decoded no further than needed to store it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WebhookPayload {
    /// The HTTP method, upper-case.
    pub method: String,
    /// What follows the token in the path, percent-decoded except encoded slashes; empty if nothing does.
    pub path_fragment: String,
    /// Decoded query parameters; a repeated name is a list in order.
    pub query_parameters: Map,
    /// The query as it came, still encoded, without its question mark; empty if there was none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub raw_query: String,
    /// Headers by lower-case name; repeated ones joined with `, `.
    pub headers: BTreeMap<String, String>,
    /// The exact bytes of the body, with the content type that was sent.
    #[serde(with = "raw_body")]
    pub body: File,
    /// What the code of the trigger made of it, where it has code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided: Option<Box<TriggerCodeResult>>,
}

/// What the code of a trigger decided about a request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TriggerCodeResult {
    /// What steps read as `trigger.results` in place of what came.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "crate::value::deserialize_present")]
    pub results: Option<Value>,
    /// The caller's answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response: Option<HttpResponse>,
    /// Whether no step is to run.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub declined: bool,
    /// What the code logged.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub logs: Vec<TriggerCodeLog>,
}

/// A line that the code of a trigger logged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TriggerCodeLog {
    /// How much it matters.
    pub level: LogLevel,
    /// The text.
    pub message: String,
}

impl Payload {
    /// What the code of its trigger decided, where it has code.
    #[must_use]
    pub fn decided(&self) -> Option<&TriggerCodeResult> {
        if let Self::Webhook(payload) = self { payload.decided.as_deref() } else { None }
    }

    /// A manual start with these inputs.
    #[must_use]
    pub fn manual(inputs: Map) -> Self {
        Self::Manual { inputs }
    }
}

/// The name or the value of a header of an answer. Most are always the same.
pub type HeaderText = Cow<'static, str>;

/// An HTTP answer as plain values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpResponse {
    /// The status, 200 to 599.
    pub status: u16,
    /// Headers in order, `content-type` among them.
    pub headers: Vec<(HeaderText, HeaderText)>,
    /// The body, in memory or kept outside of it.
    #[serde(with = "raw_bytes")]
    pub body: Data,
}

impl HttpResponse {
    /// An answer with a JSON body.
    #[must_use]
    pub fn json(status: u16, body: &Value) -> Self {
        Self::new(status, "application/json", body.to_json())
    }

    /// An answer with a body of this type.
    #[must_use]
    pub fn new(status: u16, content_type: impl Into<HeaderText>, body: impl Into<Data>) -> Self {
        Self { status, headers: vec![("content-type".into(), content_type.into())], body: body.into() }
    }

    /// With one more header.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<HeaderText>, value: impl Into<HeaderText>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// The first value of the header `name`, whose case does not matter.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| &**value)
    }
}

/// Stores a body as a file value: text where it is UTF-8, else base64.
mod raw_body {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

    use crate::value::{File, Value};

    pub(super) fn serialize<S: Serializer>(file: &File, serializer: S) -> Result<S::Ok, S::Error> {
        Value::from(file.clone()).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<File, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::File(file) => Ok(std::sync::Arc::unwrap_or_clone(file)),
            other => Err(de::Error::custom(format_args!("expected a file, found a {}", other.kind()))),
        }
    }
}

/// Stores bytes as a file value.
mod raw_bytes {
    use serde::{Deserializer, Serializer};

    use crate::value::{Data, File};

    pub(super) fn serialize<S: Serializer>(data: &Data, serializer: S) -> Result<S::Ok, S::Error> {
        super::raw_body::serialize(
            &File { content_type: "".into(), filename: None, data: data.clone() },
            serializer,
        )
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Data, D::Error> {
        super::raw_body::deserialize(deserializer).map(|file| file.data)
    }
}
