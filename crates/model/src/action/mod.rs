//! Descriptions of actions, and the errors of steps.

mod error;
mod result;
mod schema_type;

use serde::{Deserialize, Serialize};
use value::{Json, Value};

pub use error::{ActionError, CodeLocation, ErrorDetails, ErrorKind, LostAttempt};
pub use result::{ObjectType, ResultField, ResultType};

/// The description of an action. Help, schema, checks and reference are derived from it.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Action)]
pub struct ActionSpec {
    /// The full name, as written under `action:`, such as `wiki.createPage`.
    pub name: String,
    /// A summary in one line.
    pub title: String,
    /// Further information for authors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The kind of external effect. It determines what must be committed before the action starts.
    pub effect: Effect,
    /// The accepted connection types, such as `wiki.basic`; empty if the action takes no connection.
    pub connections: Vec<String>,
    /// True if a step must name a connection.
    pub connection_required: bool,
    /// The inputs, in the order in which an author fills them.
    pub inputs: Vec<InputSpec>,
    /// A description of the result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// The type of the result, `steps.<id>.results`.
    pub results: ResultType,
    /// A checked example of a step's `with`.
    #[serde(serialize_with = "crate::action::serialize_plain")]
    #[schema(value_type = Json)]
    pub example: Value,
}

/// Serialises a value in its external JSON form.
pub(crate) fn serialize_plain<S: serde::Serializer>(value: &Value, serializer: S) -> Result<S::Ok, S::Error> {
    value.to_serde().serialize(serializer)
}

impl ActionSpec {
    /// Returns the input with this name.
    #[must_use]
    pub fn input(&self, name: &str) -> Option<&InputSpec> {
        self.inputs.iter().find(|input| input.name == name)
    }
}

/// The external effect of an action, in ascending order.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum Effect {
    /// None. The result depends only on the inputs, so the action can be repeated.
    #[default]
    Pure,
    /// Reads external data.
    Read,
    /// Changes external data.
    Write,
}

/// An input of an action or an automation.
#[derive(Clone, Debug, PartialEq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Input)]
pub struct InputSpec {
    /// The key under `with`.
    pub name: String,
    /// The type.
    #[serde(rename = "type")]
    pub kind: InputType,
    /// True if a value is required.
    pub required: bool,
    /// The default value; absent without a default.
    #[serde(serialize_with = "serialize_optional", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Json>)]
    pub default: Option<Value>,
    /// The meaning, in one sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

fn serialize_optional<S: serde::Serializer>(value: &Option<Value>, serializer: S) -> Result<S::Ok, S::Error> {
    value.as_ref().map(Value::to_serde).serialize(serializer)
}

/// The type of an input. Ids are texts, so a number is accepted as a text; it is never converted through a float.
#[derive(Clone, Debug, PartialEq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum InputType {
    /// Anything.
    Any,
    /// A text.
    Text,
    /// A text with a URL. Interpolated values are encoded by their position in it.
    Url,
    /// An integer within inclusive bounds.
    Integer {
        /// The minimum; absent if unbounded.
        #[serde(skip_serializing_if = "Option::is_none")]
        min: Option<i64>,
        /// The maximum; absent if unbounded.
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
        #[schema(no_recursion)]
        items: Box<InputType>,
    },
    /// A map with these entries only.
    Object {
        /// The entries.
        #[schema(no_recursion)]
        fields: Vec<InputSpec>,
    },
    /// A map with any keys and values of one type.
    Map {
        /// The type of every value.
        #[schema(no_recursion)]
        values: Box<InputType>,
    },
    /// Bytes.
    File,
}

impl InputType {
    /// Returns the type of an unbounded integer.
    #[must_use]
    pub fn integer() -> Self {
        Self::Integer { min: None, max: None }
    }

    /// Describes the type for messages and reference pages.
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
