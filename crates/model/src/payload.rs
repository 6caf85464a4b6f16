//! Inputs of executions in the form in which they arrived, and HTTP responses as plain values.

use std::borrow::Cow;
use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use value::{Data, File, Json, Map, Value};

use crate::LogLevel;

/// The input of an execution, stored as it arrived.
///
/// The trigger crate derives from it what steps read (`trigger.results`), so its bytes are stored once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Payload {
    /// A request to a webhook.
    Webhook(WebhookPayload),
    /// An instant of a schedule.
    #[serde(rename_all = "camelCase")]
    Schedule {
        /// The instant of the schedule.
        scheduled_at: Timestamp,
        /// When the execution was accepted.
        started_at: Timestamp,
        /// The schedule's IANA zone.
        timezone: String,
    },
    /// The result of a poll, or an event of a connector.
    #[serde(rename_all = "camelCase")]
    Poll {
        /// The new item, or a list of new items.
        #[schema(value_type = Json)]
        data: Value,
        /// The time of the poll.
        polled_at: Timestamp,
    },
    /// An own event.
    Emitted(EmittedEvent),
    /// A manual start, or a call by another automation.
    Manual {
        /// The inputs by name.
        #[schema(value_type = HashMap<String, Json>)]
        inputs: Map,
    },
}

/// An own event, as its consumers get it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EmittedEvent {
    /// The name.
    pub event: String,
    /// The id: events with the same id start a trigger once.
    pub id: String,
    /// When it was sent.
    pub sent_at: Timestamp,
    /// A description of the sender; absent if it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The data.
    #[schema(value_type = Json)]
    pub data: Value,
}

/// A webhook request, decoded only as far as storing it requires.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookPayload {
    /// The HTTP method, upper-case.
    pub method: String,
    /// The path after the token, percent-decoded except for encoded slashes; may be empty.
    pub path_fragment: String,
    /// The decoded query parameters; the values of a repeated name form a list, in order.
    #[schema(value_type = HashMap<String, Json>)]
    pub query_parameters: Map,
    /// The encoded query as received, without the question mark; empty if there was none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub raw_query: String,
    /// The headers by lower-case name; the values of a repeated header are joined with `, `.
    pub headers: BTreeMap<String, String>,
    /// The unchanged bytes of the body, with the sender's content type.
    #[serde(with = "raw_body")]
    pub body: File,
    /// The result of the trigger's code; absent if it has no code.
    #[serde(rename = "decided", default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<TriggerCodeResult>)]
    pub code_result: Option<Box<TriggerCodeResult>>,
}

/// The result of a trigger's code for one request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Decided)]
pub struct TriggerCodeResult {
    /// The replacement for `trigger.results`; absent if the results of the request stay.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "value::deserialize_present"
    )]
    #[schema(value_type = Option<Json>)]
    pub results: Option<Value>,
    /// The response to the caller; absent for the default one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Json>)]
    pub response: Option<HttpResponse>,
    /// True if the code decided that no step runs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub declined: bool,
    /// The lines that the code logged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logs: Vec<TriggerCodeLog>,
}

/// A line that the code of a trigger logged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DecidedLog)]
pub struct TriggerCodeLog {
    /// The severity.
    pub level: LogLevel,
    /// The text.
    pub message: String,
}

impl Payload {
    /// Returns the result of the trigger's code; `None` if the trigger has no code.
    #[must_use]
    pub fn code_result(&self) -> Option<&TriggerCodeResult> {
        if let Self::Webhook(payload) = self { payload.code_result.as_deref() } else { None }
    }

    /// Transforms the data from outside: the request of a webhook by `request`, every other value by `value`.
    ///
    /// # Errors
    /// The first error of `request` or `value`.
    pub fn try_map_data<E>(
        self,
        request: impl FnOnce(WebhookPayload) -> Result<WebhookPayload, E>,
        mut value: impl FnMut(Value) -> Result<Value, E>,
    ) -> Result<Self, E> {
        Ok(match self {
            Self::Webhook(payload) => Self::Webhook(request(payload)?),
            Self::Poll { data, polled_at } => Self::Poll { data: value(data)?, polled_at },
            Self::Emitted(event) => Self::Emitted(EmittedEvent { data: value(event.data)?, ..event }),
            Self::Manual { inputs } => {
                let inputs = inputs.into_iter().map(|(name, input)| Ok((name, value(input)?)));
                Self::Manual { inputs: inputs.collect::<Result<_, E>>()? }
            }
            Self::Schedule { .. } => self,
        })
    }

    /// Creates the payload of a manual start.
    #[must_use]
    pub fn manual(inputs: Map) -> Self {
        Self::Manual { inputs }
    }
}

/// The name or value of a response header. Borrowed where it is constant, as most are.
pub type HeaderText = Cow<'static, str>;

/// An HTTP response as plain values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HttpResponse {
    /// The status code, 200 to 599.
    pub status: u16,
    /// The headers in order, including `content-type`.
    #[schema(value_type = Vec<(String, String)>)]
    pub headers: Vec<(HeaderText, HeaderText)>,
    /// The body, in memory or in a file of the store.
    #[serde(with = "raw_bytes")]
    #[schema(value_type = File)]
    pub body: Data,
}

impl HttpResponse {
    /// Creates a response with a JSON body.
    #[must_use]
    pub fn json(status: u16, body: &Value) -> Self {
        Self::new(status, "application/json", body.to_json())
    }

    /// Creates a response with a body of this content type.
    #[must_use]
    pub fn new(status: u16, content_type: impl Into<HeaderText>, body: impl Into<Data>) -> Self {
        Self { status, headers: vec![("content-type".into(), content_type.into())], body: body.into() }
    }

    /// Adds a header.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<HeaderText>, value: impl Into<HeaderText>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Returns the first value of the header `name`, compared case-insensitively.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| &**value)
    }
}

/// Serialises a body as a file value: text if it is UTF-8, otherwise base64.
mod raw_body {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
    use value::{File, Value};

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

/// Serialises bytes as a file value.
mod raw_bytes {
    use serde::{Deserializer, Serializer};
    use value::{Data, File};

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
