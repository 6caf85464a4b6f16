//! Infers the type of the values that match a JSON Schema. Anything the schema leaves open has the type `any`.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::action::{ObjectType, ResultField, ResultType};

/// The maximum nesting of schemas to follow, since a schema may refer to itself.
const MAX_DEPTH: usize = 24;

/// The type of the values that match a schema.
pub(super) fn infer(document: &Value) -> ResultType {
    let kind = TypeInference { document }.infer(document, MAX_DEPTH);
    if kind.is_bounded() { kind } else { ResultType::Any }
}

struct TypeInference<'d> {
    document: &'d Value,
}

impl TypeInference<'_> {
    fn infer(&self, schema: &Value, depth: usize) -> ResultType {
        let (Some(map), Some(depth)) = (schema.as_object(), depth.checked_sub(1)) else {
            return ResultType::Any;
        };
        if let Some(value) = map.get("const") {
            return ResultType::infer(&crate::Value::from_serde(value.clone()));
        }
        if let Some(options) = map.get("enum").and_then(Value::as_array) {
            return enumeration_type(options);
        }
        if let Some(target) = map.get("$ref").and_then(Value::as_str) {
            let target = target.strip_prefix('#').and_then(|pointer| self.document.pointer(pointer));
            return target.map_or(ResultType::Any, |target| self.infer(target, depth));
        }
        match map.get("type") {
            Some(Value::String(word)) => self.infer_named(word, map, depth),
            Some(Value::Array(words)) => {
                let words = words.iter().filter_map(Value::as_str);
                ResultType::one_of(words.map(|word| self.infer_named(word, map, depth)))
            }
            _ => {
                let several = ["oneOf", "anyOf"].into_iter().find_map(|key| map.get(key)?.as_array());
                several.map_or(ResultType::Any, |schemas| {
                    ResultType::one_of(schemas.iter().map(|schema| self.infer(schema, depth)))
                })
            }
        }
    }

    fn infer_named(&self, word: &str, map: &Map<String, Value>, depth: usize) -> ResultType {
        match word {
            "null" => ResultType::Null,
            "boolean" => ResultType::Boolean,
            "integer" => ResultType::Integer,
            "number" => ResultType::Number,
            "string" => ResultType::Text,
            // The first items may have types of their own.
            "array" if map.contains_key("prefixItems") => ResultType::list(ResultType::Any),
            "array" => {
                ResultType::list(map.get("items").map_or(ResultType::Any, |items| self.infer(items, depth)))
            }
            "object" => self.infer_object(map, depth),
            _ => ResultType::Any,
        }
    }

    fn infer_object(&self, map: &Map<String, Value>, depth: usize) -> ResultType {
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
                Some(schema) => ResultType::map(self.infer(schema, depth)),
                None => ResultType::map(ResultType::Any),
            };
        }
        let fields = properties.into_iter().flatten().map(|(name, schema)| ResultField {
            name: name.clone(),
            kind: self.infer(schema, depth),
            optional: !required.contains(&name.as_str()),
            description: schema.get("description").and_then(Value::as_str).map(str::to_owned),
        });
        let closed = alone && more == Some(&Value::Bool(false));
        ResultType::Object(Arc::new(ObjectType { name: None, fields: fields.collect(), open: !closed }))
    }
}

/// The type of an enumeration: a choice for texts, else the union of the types of its values.
fn enumeration_type(options: &[Value]) -> ResultType {
    let texts: Option<Vec<String>> =
        options.iter().map(|option| option.as_str().map(str::to_owned)).collect();
    match texts {
        Some(texts) => ResultType::Choice { options: texts.into() },
        None => ResultType::one_of(
            options.iter().map(|option| ResultType::infer(&crate::Value::from_serde(option.clone()))),
        ),
    }
}
