//! What is known of a value that a JSON Schema takes. What a schema leaves open stays open.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::action::{ObjectType, ResultField, ResultType};

/// How many schemas may be looked into below each other; a schema may come to itself.
const MAX_DEPTH: usize = 24;

/// The type of what a schema takes.
pub(super) fn of(document: &Value) -> ResultType {
    let kind = Shapes { document }.kind(document, MAX_DEPTH);
    if kind.is_bounded() { kind } else { ResultType::Any }
}

struct Shapes<'d> {
    document: &'d Value,
}

impl Shapes<'_> {
    fn kind(&self, schema: &Value, depth: usize) -> ResultType {
        let (Some(map), Some(depth)) = (schema.as_object(), depth.checked_sub(1)) else {
            return ResultType::Any;
        };
        if let Some(value) = map.get("const") {
            return ResultType::of_value(&crate::Value::from_serde(value.clone()));
        }
        if let Some(options) = map.get("enum").and_then(Value::as_array) {
            return choice(options);
        }
        if let Some(target) = map.get("$ref").and_then(Value::as_str) {
            let target = target.strip_prefix('#').and_then(|pointer| self.document.pointer(pointer));
            return target.map_or(ResultType::Any, |target| self.kind(target, depth));
        }
        match map.get("type") {
            Some(Value::String(word)) => self.typed(word, map, depth),
            Some(Value::Array(words)) => {
                let words = words.iter().filter_map(Value::as_str);
                ResultType::one_of(words.map(|word| self.typed(word, map, depth)))
            }
            _ => {
                let several = ["oneOf", "anyOf"].into_iter().find_map(|key| map.get(key)?.as_array());
                several.map_or(ResultType::Any, |schemas| {
                    ResultType::one_of(schemas.iter().map(|schema| self.kind(schema, depth)))
                })
            }
        }
    }

    fn typed(&self, word: &str, map: &Map<String, Value>, depth: usize) -> ResultType {
        match word {
            "null" => ResultType::Null,
            "boolean" => ResultType::Boolean,
            "integer" => ResultType::Integer,
            "number" => ResultType::Number,
            "string" => ResultType::Text,
            // The first items may be of types of their own.
            "array" if map.contains_key("prefixItems") => ResultType::list(ResultType::Any),
            "array" => {
                ResultType::list(map.get("items").map_or(ResultType::Any, |items| self.kind(items, depth)))
            }
            "object" => self.object(map, depth),
            _ => ResultType::Any,
        }
    }

    fn object(&self, map: &Map<String, Value>, depth: usize) -> ResultType {
        let required: Vec<&str> = map
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let properties = map.get("properties").and_then(Value::as_object);
        let more = map.get("additionalProperties");
        let others = [
            "patternProperties",
            "allOf",
            "anyOf",
            "oneOf",
            "if",
            "dependentSchemas",
            "unevaluatedProperties",
        ];
        let alone = !others.iter().any(|key| map.contains_key(*key));
        if properties.is_none_or(Map::is_empty) && alone {
            return match more {
                Some(Value::Bool(false)) => ResultType::object::<String>([]),
                Some(schema) => ResultType::map(self.kind(schema, depth)),
                None => ResultType::map(ResultType::Any),
            };
        }
        let fields = properties.into_iter().flatten().map(|(name, schema)| ResultField {
            name: name.clone(),
            kind: self.kind(schema, depth),
            optional: !required.contains(&name.as_str()),
            description: schema.get("description").and_then(Value::as_str).map(str::to_owned),
        });
        let closed = alone && more == Some(&Value::Bool(false));
        ResultType::Object(Arc::new(ObjectType { name: None, fields: fields.collect(), open: !closed }))
    }
}

/// One of these values: of texts these texts, else what they are.
fn choice(options: &[Value]) -> ResultType {
    let texts: Option<Vec<String>> =
        options.iter().map(|option| option.as_str().map(str::to_owned)).collect();
    match texts {
        Some(texts) => ResultType::Choice { options: texts.into() },
        None => ResultType::one_of(
            options.iter().map(|option| ResultType::of_value(&crate::Value::from_serde(option.clone()))),
        ),
    }
}
