//! The schemas of inputs: the declarations of [`InputSpec`]s, or an expression.

use model::action::{InputSpec, InputType};
use serde_json::{Map, Value, json};

use super::{Definitions, set};

/// The name of the definition for an expression in place of a value.
const EXPRESSION: &str = "expression";

/// Defines what every input accepts: a text with an expression, or null, which counts as absent. It lists the excluded
/// types, since editors would otherwise offer a type `null` for every value.
pub(super) fn define(definitions: &mut Definitions) {
    let others = ["boolean", "number", "object", "array"];
    definitions.put(EXPRESSION, json!({"pattern": r"\$\{\{", "not": {"type": others}}));
    for scalar in [Scalar::Text, Scalar::File, Scalar::Integer, Scalar::Number, Scalar::Boolean] {
        definitions.put(scalar.name(), scalar.schema());
    }
}

/// A type without bounds, which hundreds of inputs share.
#[derive(Clone, Copy)]
enum Scalar {
    Text,
    File,
    Integer,
    Number,
    Boolean,
}

impl Scalar {
    fn name(self) -> &'static str {
        match self {
            Self::Text => "textInput",
            Self::File => "fileInput",
            Self::Integer => "integerInput",
            Self::Number => "numberInput",
            Self::Boolean => "booleanInput",
        }
    }

    fn schema(self) -> Value {
        match self {
            Self::Text => any_of([json!({"type": ["string", "number"]})]),
            Self::File => any_of([json!({"type": "string"})]),
            Self::Integer => integer(None, None),
            Self::Number => any_of([
                json!({"type": "number"}),
                json!({"type": "string", "pattern": "^-?[0-9.]+([eE][+-]?[0-9]+)?$"}),
            ]),
            Self::Boolean => any_of([json!({"type": "boolean"})]),
        }
    }

    fn reference(self) -> Value {
        json!({"$ref": format!("#/$defs/{}", self.name())})
    }
}

fn integer(min: Option<i64>, max: Option<i64>) -> Value {
    let mut whole = json!({"type": "integer"});
    min.iter().for_each(|min| set(&mut whole, "minimum", *min));
    max.iter().for_each(|max| set(&mut whole, "maximum", *max));
    any_of([whole, json!({"type": "string", "pattern": "^-?[0-9]+$"})])
}

/// A mapping with these inputs and no others.
pub(super) fn mapping<'a>(
    inputs: impl IntoIterator<Item = &'a InputSpec>,
    owner: &str,
    definitions: &mut Definitions,
) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for spec in inputs {
        let schema = definitions.share(&format!("{owner}.{}", spec.name), input(spec));
        properties.insert(spec.name.clone(), schema);
        if is_needed(spec) {
            required.push(spec.name.as_str());
        }
    }
    let mut schema = json!({"type": "object", "properties": properties, "additionalProperties": false});
    if !required.is_empty() {
        set(&mut schema, "required", required);
    }
    schema
}

/// True if a step must set the input: it is required and has no default.
pub(super) fn is_needed(spec: &InputSpec) -> bool {
    spec.required && spec.default.is_none()
}

/// An input with its description and default.
fn input(spec: &InputSpec) -> Value {
    let mut schema = kind(&spec.kind);
    let words = spec.kind.describe();
    let about = spec.description.as_ref().map_or_else(|| words.clone(), |about| format!("{about} ({words})"));
    set(&mut schema, "description", about);
    if let Some(default) = &spec.default {
        set(&mut schema, "default", default.to_serde());
    }
    schema
}

/// The schema of a type: its values, the values that are converted to it (see `connector::input`), or an expression.
fn kind(of: &InputType) -> Value {
    match of {
        InputType::Any => json!({}),
        InputType::Text | InputType::Url => Scalar::Text.reference(),
        InputType::File => Scalar::File.reference(),
        InputType::Integer { min: None, max: None } => Scalar::Integer.reference(),
        InputType::Integer { min, max } => integer(*min, *max),
        InputType::Number => Scalar::Number.reference(),
        InputType::Boolean => Scalar::Boolean.reference(),
        InputType::Choice { options } => {
            let numbers = options.iter().filter_map(|option| option.parse::<i64>().ok()).map(Value::from);
            let words: Vec<Value> = options.iter().map(|option| json!(option)).chain(numbers).collect();
            any_of([json!({"enum": words})])
        }
        InputType::List { items } => {
            let list = json!({"type": "array", "items": kind(items)});
            match items.as_ref() {
                // A single value is accepted as a list of one; text may list several words, as in `a,b`.
                InputType::Choice { .. } => any_of([list, kind(items), json!({"type": "string"})]),
                InputType::List { .. } => any_of([list]),
                other => any_of([list, kind(other)]),
            }
        }
        InputType::Object { fields } => {
            let properties: Map<String, Value> =
                fields.iter().map(|field| (field.name.clone(), input(field))).collect();
            let mut map = json!({"type": "object", "properties": properties, "additionalProperties": false});
            let required: Vec<&str> =
                fields.iter().filter(|field| is_needed(field)).map(|field| field.name.as_str()).collect();
            if !required.is_empty() {
                set(&mut map, "required", required);
            }
            any_of([map])
        }
        InputType::Map { values } => {
            any_of([json!({"type": "object", "additionalProperties": kind(values)})])
        }
    }
}

/// One of these, or an expression.
fn any_of<const N: usize>(schemas: [Value; N]) -> Value {
    let expression = json!({"$ref": format!("#/$defs/{EXPRESSION}")});
    let all: Vec<Value> = schemas.into_iter().chain([expression]).collect();
    json!({"anyOf": all})
}
