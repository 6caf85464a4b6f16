//! The errors of steps.

use std::borrow::Cow;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use value::redact::Redactor;
use value::{Json, Value};

/// The kind of an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ErrorKind {
    /// An input is missing or wrong.
    Input,
    /// An expression could not be evaluated.
    Expression,
    /// The connection is missing, incomplete or rejected.
    Connection,
    /// No response: connection refused or reset, or host unreachable.
    Network,
    /// No response within the time limit.
    Timeout,
    /// A response with an error status.
    Status,
    /// A response with an unexpected or unreadable body.
    Response,
    /// The URL's host is not allowed.
    Blocked,
    /// A limit was exceeded.
    Limit,
    /// The automation failed on purpose, with `fail`.
    Failed,
    /// The execution or step was cancelled.
    Cancelled,
    /// The daemon stopped while the step ran, and the step must not run again.
    Interrupted,
    /// A bug in Cogwork.
    Internal,
    /// A kind of the author, from `fail`: an identifier that is not a kind of the engine.
    #[serde(untagged)]
    Custom(Box<str>),
}

impl ErrorKind {
    /// The names of the engine's kinds.
    pub const NAMES: [&str; 13] = [
        "input",
        "expression",
        "connection",
        "network",
        "timeout",
        "status",
        "response",
        "blocked",
        "limit",
        "failed",
        "cancelled",
        "interrupted",
        "internal",
    ];
}

impl From<&str> for ErrorKind {
    fn from(name: &str) -> Self {
        serde_json::from_value(name.into()).unwrap_or_else(|_| Self::Custom(name.into()))
    }
}

impl utoipa::PartialSchema for ErrorKind {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        let description = format!(
            "The kind of an error: {}, or an identifier that the automation chose with `fail`.",
            Self::NAMES.map(|name| format!("`{name}`")).join(", ")
        );
        let kind = utoipa::openapi::schema::Type::String;
        utoipa::openapi::ObjectBuilder::new().schema_type(kind).description(Some(description)).into()
    }
}

impl utoipa::ToSchema for ErrorKind {}

impl fmt::Display for ErrorKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = serde_json::to_value(self).unwrap_or_default();
        formatter.write_str(name.as_str().unwrap_or("error"))
    }
}

/// The error of a step. Its details are boxed, because most `Result`s of the engine contain it.
#[derive(Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(transparent)]
#[error("{}", self.0.message)]
pub struct ActionError(Box<ErrorDetails>);

impl utoipa::PartialSchema for ActionError {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        ErrorDetails::schema()
    }
}

impl utoipa::ToSchema for ActionError {
    fn schemas(schemas: &mut Vec<(String, utoipa::openapi::RefOr<utoipa::openapi::Schema>)>) {
        ErrorDetails::schemas(schemas);
    }
}

/// The details of an error. They are stored in the log, and `onError` steps read them as `error`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrorDetails {
    /// The kind.
    pub kind: ErrorKind,
    /// The message for people, with a suggested solution if there is one.
    pub message: String,
    /// The HTTP status of the response; absent without a response.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub status: Option<u16>,
    /// The error code of the other system, such as `CONFLICT`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub code: Option<String>,
    /// The other system's id of the request.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub request_id: Option<String>,
    /// The body of the response; absent without a response.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<Json>)]
    pub body: Option<Value>,
    /// The data that the automation added with `fail`; absent without any.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<Json>)]
    pub data: Option<Value>,
    /// The step in which the error occurred first.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub step: Option<String>,
    /// The `Retry-After` of the response, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub retry_after_ms: Option<u64>,
    /// True if the effect may have happened despite the error: a request that changes data was sent, and no usable response
    /// or a 5xx response was received.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub outcome_unknown: bool,
    /// The first earlier attempt of the same step with an unknown outcome; absent if there was none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub lost_attempt: Option<Box<LostAttempt>>,
    /// The location in the author's code; absent if the error is not from code. Not disclosed to callers.
    #[serde(rename = "place", skip_serializing_if = "Option::is_none", default)]
    pub code_location: Option<Box<CodeLocation>>,
    /// True if no request was sent, because the host is in back-off. Not stored.
    #[serde(skip)]
    pub not_sent: bool,
}

/// A failed attempt with an unknown outcome: its effect may have happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LostAttempt {
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The kind of its error.
    pub kind: ErrorKind,
    /// The message of its error.
    pub message: String,
    /// The HTTP status of the response; absent without a response.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub status: Option<u16>,
    /// The other system's id of the request.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub request_id: Option<String>,
}

impl LostAttempt {
    /// Describes the attempt, for the message of a later one.
    fn describe(&self) -> String {
        let Self { attempt, kind, message, status, .. } = self;
        match (kind, status) {
            (ErrorKind::Status, Some(_)) => {
                format!("attempt {attempt} may have been carried out: {message}")
            }
            (ErrorKind::Interrupted, _) => format!("the answer to an earlier attempt was lost: {message}"),
            _ => format!("the answer to attempt {attempt} was lost: {message}"),
        }
    }
}

/// A location in an author's code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = CodePlace)]
pub struct CodeLocation {
    /// The file, relative to the project folder.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1, in characters.
    pub column: usize,
    /// The text of that line, truncated if it is long.
    pub text: String,
}

impl fmt::Display for CodeLocation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, text } = self;
        write!(formatter, "{file}:{line}:{column}: {text}")
    }
}

impl Deref for ActionError {
    type Target = ErrorDetails;

    fn deref(&self) -> &ErrorDetails {
        &self.0
    }
}

impl DerefMut for ActionError {
    fn deref_mut(&mut self) -> &mut ErrorDetails {
        &mut self.0
    }
}

impl fmt::Debug for ActionError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl ActionError {
    /// Returns the message, followed by the location in the author's code if there is one.
    #[must_use]
    pub fn message_with_location(&self) -> String {
        match &self.code_location {
            Some(location) => format!("{} ({location})", self.message),
            None => self.message.clone(),
        }
    }

    /// Creates an error.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(ErrorDetails {
            kind,
            message: message.into(),
            status: None,
            code: None,
            request_id: None,
            body: None,
            data: None,
            step: None,
            retry_after_ms: None,
            outcome_unknown: false,
            lost_attempt: None,
            code_location: None,
            not_sent: false,
        }))
    }

    /// Converts the error to its message.
    #[must_use]
    pub fn into_message(self) -> String {
        self.0.message
    }

    /// Redacts the message, the code, the request ids, the body and the data.
    #[must_use]
    pub fn redacted(mut self, redactor: &Redactor) -> Self {
        for text in self.texts_mut() {
            if let Cow::Owned(masked) = redactor.redact_message(text) {
                *text = masked;
            }
        }
        let details = &mut *self;
        for value in [&mut details.body, &mut details.data] {
            *value = value.take().map(|value| redactor.redact_value(value));
        }
        self
    }

    /// Iterates over the texts of any length: the message, the code, the request ids.
    pub fn texts_mut(&mut self) -> impl Iterator<Item = &mut String> {
        let ErrorDetails { message, code, request_id, lost_attempt, .. } = &mut **self;
        let lost =
            lost_attempt.as_deref_mut().map(|lost| [Some(&mut lost.message), lost.request_id.as_mut()]);
        let own = [Some(message), code.as_mut(), request_id.as_mut()];
        own.into_iter().chain(lost.into_iter().flatten()).flatten()
    }

    /// Sets the HTTP status of the response.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.status = Some(status);
        self
    }

    /// Sets the error code of the other system.
    #[must_use]
    pub fn with_code(mut self, code: impl Into<String>) -> Self {
        self.code = Some(code.into());
        self
    }

    /// Sets the other system's id of the request.
    #[must_use]
    pub fn with_request_id(mut self, id: impl Into<String>) -> Self {
        self.request_id = Some(id.into());
        self
    }

    /// Sets the body of the response.
    #[must_use]
    pub fn with_body(mut self, body: Value) -> Self {
        self.body = Some(body);
        self
    }

    /// Sets the data of the author.
    #[must_use]
    pub fn with_data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    /// Sets the `Retry-After` of the response.
    #[must_use]
    pub fn with_retry_after(mut self, wait: Duration) -> Self {
        self.retry_after_ms = Some(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
        self
    }

    /// Marks the outcome as unknown: the effect may have happened.
    #[must_use]
    pub fn with_outcome_unknown(mut self) -> Self {
        self.outcome_unknown = true;
        self
    }

    /// Returns the lost attempt that a later error of the same step must mention: the one recorded in this error, otherwise
    /// this one if its outcome is unknown.
    #[must_use]
    pub fn to_lost_attempt(&self, attempt: u32) -> Option<Box<LostAttempt>> {
        if self.lost_attempt.is_some() {
            return self.lost_attempt.clone();
        }
        self.outcome_unknown.then(|| {
            Box::new(LostAttempt {
                attempt,
                kind: self.kind.clone(),
                message: self.message.clone(),
                status: self.status,
                request_id: self.request_id.clone(),
            })
        })
    }

    /// Adds an earlier attempt with an unknown outcome to the error of attempt `attempt`. The message mentions both errors
    /// unless they are equal.
    #[must_use]
    pub fn with_lost_attempt(mut self, attempt: u32, lost: Option<Box<LostAttempt>>) -> Self {
        // An action that retries by itself has already set it.
        if let (Some(lost), None) = (lost, &self.lost_attempt) {
            if self.message != lost.message {
                self.message = format!("{} (attempt {attempt}; {})", self.message, lost.describe());
            }
            self.lost_attempt = Some(lost);
        }
        self
    }

    /// Returns the `Retry-After` of the response.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after_ms.map(Duration::from_millis)
    }

    /// Converts a value made by [`ActionError::to_value`] back to the error; `None` for any other value.
    #[must_use]
    pub fn from_value(value: &Value) -> Option<Self> {
        let map = value.as_map()?;
        map.get("kind")?.as_str()?;
        let fields = map.iter().filter(|(name, _)| !VALUES.contains(&name.as_str()));
        let fields: value::Map = fields.map(|(name, value)| (name.clone(), value.clone())).collect();
        let mut error: Self = serde_json::from_str(&Value::from(fields).to_json()).ok()?;
        [error.body, error.data] = VALUES.map(|name| map.get(name).cloned());
        Some(error)
    }

    /// Converts the error to the value that expressions read as `error` and `steps.<id>.error`.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let mut value = serde_json::to_value(self).map(Value::from_serde).unwrap_or_default();
        if let Value::Map(map) = &mut value {
            for (name, own) in VALUES.into_iter().zip([&self.body, &self.data]) {
                if let Some(own) = own {
                    std::sync::Arc::make_mut(map).insert(name, own.clone());
                }
            }
        }
        value
    }
}

/// The fields of an error that may contain a file, which a serde round trip would lose.
const VALUES: [&str; 2] = ["body", "data"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_in_an_error_is_masked() {
        let redactor = Redactor::default();
        redactor.add_secret("p@ss/w\"rd +1");
        let error = ActionError::new(ErrorKind::Input, "found `p@ss/w\"r…`").with_code("p@ss/w\"rd +1");
        let masked =
            error.with_request_id("p@ss/w\"rd +1").with_body("p@ss/w\"rd +1".into()).redacted(&redactor);
        assert_eq!(masked.message, "found `***…`");
        let mask = Some("***".to_owned());
        assert_eq!((&masked.code, &masked.request_id), (&mask, &mask));
        assert_eq!(masked.body, Some("***".into()));
    }

    #[test]
    fn an_error_of_the_author_survives_its_value_and_its_stored_form() {
        let own = ErrorKind::Custom("outOfStock".into());
        for kind in [own, ErrorKind::Failed, ErrorKind::Status] {
            let error = ActionError::new(kind, "no").with_data(Value::from(vec![Value::from(1)]));
            assert_eq!(ActionError::from_value(&error.to_value()), Some(error.clone()));
            let stored = serde_json::to_string(&error).expect("it is JSON");
            assert_eq!(serde_json::from_str::<ActionError>(&stored).expect("it was written so"), error);
        }
    }

    #[test]
    fn each_kind_of_the_engine_is_listed_by_its_name() {
        for name in ErrorKind::NAMES {
            let kind = ErrorKind::from(name);
            assert!(!matches!(kind, ErrorKind::Custom(_)) && kind.to_string() == name, "{name}");
        }
    }
}
