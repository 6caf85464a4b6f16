//! What an action declares of itself, and how it fails.

mod result;

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::value::Value;

pub use result::{ObjectType, ResultField, ResultType};

/// One operation of a connector as it describes itself: help, schema, checks and reference derive from this.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ActionSpec {
    /// The full name that `action:` takes, such as `wiki.createPage`.
    pub name: String,
    /// What it does, in one line.
    pub title: String,
    /// What else an author should know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What it may do to the world, which decides what must be committed before it starts.
    pub effect: Effect,
    /// The connection types it accepts, such as `wiki.basic`; empty if it takes none.
    pub connections: Vec<String>,
    /// Whether a step must name a connection.
    pub connection_required: bool,
    /// Its inputs, in the order an author would fill them.
    pub inputs: Vec<InputSpec>,
    /// What it gives, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// The type of what it gives: of `steps.<id>.results`.
    pub results: ResultType,
    /// A checked example of the `with` of a step, as a value.
    #[serde(serialize_with = "crate::action::serialize_plain")]
    pub example: Value,
}

pub(crate) fn serialize_plain<S: serde::Serializer>(value: &Value, serializer: S) -> Result<S::Ok, S::Error> {
    value.to_serde().serialize(serializer)
}

impl ActionSpec {
    /// The input called `name`.
    #[must_use]
    pub fn input(&self, name: &str) -> Option<&InputSpec> {
        self.inputs.iter().find(|input| input.name == name)
    }
}

/// What an action may do to the world, the least first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Effect {
    /// Its result depends on its inputs alone: running it again changes nothing.
    #[default]
    Pure,
    /// It reads something outside.
    Read,
    /// It changes something outside.
    Write,
}

/// One input of an action, or of an Automation.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InputSpec {
    /// The key under `with`.
    pub name: String,
    /// What may stand there.
    #[serde(rename = "type")]
    pub kind: InputType,
    /// Whether it must be given.
    pub required: bool,
    /// What holds when it is not given.
    #[serde(serialize_with = "serialize_optional", skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// What it means, in a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

fn serialize_optional<S: serde::Serializer>(value: &Option<Value>, serializer: S) -> Result<S::Ok, S::Error> {
    value.as_ref().map(Value::to_serde).serialize(serializer)
}

/// What may stand in an input. Ids are texts: a number is accepted where a text is wanted, never through a float.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum InputType {
    /// Anything.
    Any,
    /// A text.
    Text,
    /// A text that is an address: values in it are encoded by their position ([`crate::url_template`]).
    Url,
    /// A whole number within these bounds, both included.
    Integer {
        /// The least that is allowed.
        #[serde(skip_serializing_if = "Option::is_none")]
        min: Option<i64>,
        /// The most that is allowed.
        #[serde(skip_serializing_if = "Option::is_none")]
        max: Option<i64>,
    },
    /// A number.
    Number,
    /// True or false.
    Boolean,
    /// One of these texts.
    Choice {
        /// The texts.
        options: Vec<String>,
    },
    /// A list of one type.
    List {
        /// The type of every item.
        items: Box<InputType>,
    },
    /// A map with these entries only.
    Object {
        /// The entries.
        fields: Vec<InputSpec>,
    },
    /// A map with any keys and values of one type.
    Map {
        /// The type of every value.
        values: Box<InputType>,
    },
    /// Bytes.
    File,
}

impl InputType {
    /// A whole number of any size.
    #[must_use]
    pub fn integer() -> Self {
        Self::Integer { min: None, max: None }
    }

    /// The type in the words of messages and reference pages.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Any => "anything".into(),
            Self::Text => "text".into(),
            Self::Url => "address".into(),
            Self::Integer { min: Some(min), max: Some(max) } => format!("whole number from {min} to {max}"),
            Self::Integer { min: Some(min), max: None } => format!("whole number from {min}"),
            Self::Integer { min: None, max: Some(max) } => format!("whole number up to {max}"),
            Self::Integer { .. } => "whole number".into(),
            Self::Number => "number".into(),
            Self::Boolean => "true or false".into(),
            Self::Choice { options } => format!("one of {}", options.join(", ")),
            Self::List { items } => format!("list of {}", items.describe()),
            Self::Object { .. } => "map".into(),
            Self::Map { values } => format!("map of {}", values.describe()),
            Self::File => "file".into(),
        }
    }
}

/// What kind of failure an [`ActionError`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ErrorKind {
    /// An input is missing or wrong.
    Input,
    /// An expression could not be evaluated.
    Expression,
    /// The connection is missing, incomplete or refused.
    Connection,
    /// No answer came: refused, reset, unreachable.
    Network,
    /// No answer came in time.
    Timeout,
    /// The other side answered with an error status.
    Status,
    /// The answer could not be read as what it should be.
    Response,
    /// The address is one that calls may not go to.
    Blocked,
    /// A limit was reached.
    Limit,
    /// The automation itself said so, with `fail`.
    Failed,
    /// The execution or step was cancelled.
    Cancelled,
    /// The daemon stopped while the step ran, and the step may not run again.
    Interrupted,
    /// A fault of Cogwork's own.
    Internal,
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = serde_json::to_value(self).unwrap_or_default();
        formatter.write_str(name.as_str().unwrap_or("error"))
    }
}

/// Why a step failed. It is a part of the result of whatever may fail, and there of one word: what there is to say stands
/// behind it.
#[derive(Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(transparent)]
#[error("{}", self.0.message)]
pub struct ActionError(Box<ErrorDetails>);

/// What is known of a failure: a record that goes into the log as it is and that `onError` steps read as `error`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ErrorDetails {
    /// What kind of failure it is.
    pub kind: ErrorKind,
    /// What went wrong, for a person, with the way out where there is one.
    pub message: String,
    /// The HTTP status of the answer, if one came.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub status: Option<u16>,
    /// The other side's own code for the error, such as `CONFLICT`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub code: Option<String>,
    /// The id that the other side gave to the request.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub request_id: Option<String>,
    /// The answer's body, if one came.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub body: Option<Value>,
    /// The step that failed first.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub step: Option<String>,
    /// How long the other side asks to wait, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub retry_after_ms: Option<u64>,
    /// True if what was asked for may have happened all the same: a request that changes something was sent and no usable
    /// answer came, or one of 5xx.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub outcome_unknown: bool,
    /// The first earlier attempt at the same step whose outcome is unknown, if there was one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub lost_attempt: Option<Box<LostAttempt>>,
    /// Where in the author's code it was, if it was there. Not for callers.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub place: Option<Box<CodeLocation>>,
    /// True if no request was sent, because the host is to be left alone for now. Not stored.
    #[serde(skip)]
    pub not_sent: bool,
}

/// An attempt that may have had its effect although it failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LostAttempt {
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// What kind of failure it was.
    pub kind: ErrorKind,
    /// Its message.
    pub message: String,
    /// The HTTP status of the answer, if one came.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub status: Option<u16>,
    /// The id that the other side gave to the request.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub request_id: Option<String>,
}

impl LostAttempt {
    /// The words for a later attempt's message: which attempt it was and what became of it.
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

/// A place in an author's code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CodeLocation {
    /// The file, relative to the project folder.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1, in characters.
    pub column: usize,
    /// What stands in that line, cut if it is long.
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
    /// The message, with the place in the author's code behind it where there is one.
    #[must_use]
    pub fn message_with_location(&self) -> String {
        match &self.place {
            Some(place) => format!("{} ({place})", self.message),
            None => self.message.clone(),
        }
    }

    /// A failure of this kind.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(ErrorDetails {
            kind,
            message: message.into(),
            status: None,
            code: None,
            request_id: None,
            body: None,
            step: None,
            retry_after_ms: None,
            outcome_unknown: false,
            lost_attempt: None,
            place: None,
            not_sent: false,
        }))
    }

    /// The message alone.
    #[must_use]
    pub fn into_message(self) -> String {
        self.0.message
    }

    /// With the HTTP status of the answer.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.status = Some(status);
        self
    }

    /// With the other side's own code.
    #[must_use]
    pub fn with_code(mut self, code: impl Into<String>) -> Self {
        self.code = Some(code.into());
        self
    }

    /// With the id that the other side gave to the request.
    #[must_use]
    pub fn with_request_id(mut self, id: impl Into<String>) -> Self {
        self.request_id = Some(id.into());
        self
    }

    /// With the answer's body.
    #[must_use]
    pub fn with_body(mut self, body: Value) -> Self {
        self.body = Some(body);
        self
    }

    /// With the wait that the other side asks for.
    #[must_use]
    pub fn with_retry_after(mut self, wait: Duration) -> Self {
        self.retry_after_ms = Some(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
        self
    }

    /// With the note that what was asked for may have happened all the same.
    #[must_use]
    pub fn with_outcome_unknown(mut self) -> Self {
        self.outcome_unknown = true;
        self
    }

    /// This error as the lost attempt of a later one: the first of its own, or itself if its outcome is unknown.
    #[must_use]
    pub fn to_lost_attempt(&self, attempt: u32) -> Option<Box<LostAttempt>> {
        if self.lost_attempt.is_some() {
            return self.lost_attempt.clone();
        }
        self.outcome_unknown.then(|| {
            Box::new(LostAttempt {
                attempt,
                kind: self.kind,
                message: self.message.clone(),
                status: self.status,
                request_id: self.request_id.clone(),
            })
        })
    }

    /// The error of attempt `attempt`, which followed one that may have had its effect: the message says both, unless both
    /// failed alike.
    #[must_use]
    pub fn with_lost_attempt(mut self, attempt: u32, lost: Option<Box<LostAttempt>>) -> Self {
        // A call that retries by itself has said so already.
        if let (Some(lost), None) = (lost, &self.lost_attempt) {
            if self.message != lost.message {
                self.message = format!("{} (attempt {attempt}; {})", self.message, lost.describe());
            }
            self.lost_attempt = Some(lost);
        }
        self
    }

    /// The wait that the other side asks for.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after_ms.map(Duration::from_millis)
    }

    /// The error of which [`ActionError::to_value`] made this value; `None` for any other value.
    #[must_use]
    pub fn from_value(value: &Value) -> Option<Self> {
        let map = value.as_map()?;
        map.get("kind")?.as_str()?;
        let body = map.get("body").cloned();
        let rest = map.iter().filter(|(name, _)| name.as_str() != "body");
        let rest: crate::value::Map = rest.map(|(name, value)| (name.clone(), value.clone())).collect();
        let mut error: Self = serde_json::from_str(&Value::from(rest).to_json()).ok()?;
        error.body = body;
        Some(error)
    }

    /// This error as the value that expressions read as `error` and `steps.<id>.error`.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let mut value = serde_json::to_value(self).map(Value::from_serde).unwrap_or_default();
        // The body may hold a file, which only its own value form keeps.
        if let (Value::Map(map), Some(body)) = (&mut value, &self.body) {
            std::sync::Arc::make_mut(map).insert("body", body.clone());
        }
        value
    }
}
