//! Infers the type of the values that match a JSON Schema. Anything the schema leaves open has the type `any`.

use std::sync::Arc;

use expression::json_schema::JsonSchema;
use serde_json::{Map, Value};

use super::{ObjectType, ResultField, ResultType};

/// The maximum nesting of schemas to follow, since a schema may refer to itself.
const MAX_DEPTH: usize = 24;

impl ResultType {
    /// Returns the type of the values that match `schema`.
    #[must_use]
    pub fn of_schema(schema: &JsonSchema) -> Self {
        let document = schema.document();
        let kind = TypeInference { document }.infer(document, MAX_DEPTH);
        if kind.is_bounded() { kind } else { Self::Any }
    }
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
            return ResultType::infer(&value::Value::from_serde(value.clone()));
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
            options.iter().map(|option| ResultType::infer(&value::Value::from_serde(option.clone()))),
        ),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn schema_type(document: Value) -> ResultType {
        ResultType::of_schema(&JsonSchema::compile(document).expect("a schema"))
    }

    #[test]
    fn a_schema_is_converted_to_the_equivalent_type() {
        let check = |document: Value, expected: Value| {
            assert_eq!(serde_json::to_value(schema_type(document)).expect("JSON"), expected);
        };
        check(json!({}), json!({"kind": "any"}));
        check(
            json!({"type": ["string", "null"]}),
            json!({"kind": "oneOf", "types": [{"kind": "text"}, {"kind": "null"}]}),
        );
        check(json!({"enum": ["a", "b"]}), json!({"kind": "choice", "options": ["a", "b"]}));
        check(json!({"const": 1}), json!({"kind": "integer"}));
        check(json!({"type": "object"}), json!({"kind": "map", "values": {"kind": "any"}}));
        check(
            json!({"type": "array", "items": {"type": "number"}}),
            json!({"kind": "list", "items": {"kind": "number"}}),
        );
        check(
            json!({"type": "object", "properties": {"a": {"type": "boolean", "description": "Whether."}}}),
            json!({"kind": "object", "open": true, "fields": [
                {"name": "a", "type": {"kind": "boolean"}, "optional": true, "description": "Whether."}]}),
        );
        let order = schema_type(json!({
            "type": "object",
            "required": ["orderId"],
            "properties": {
                "orderId": {"type": "string", "pattern": "^[0-9]+$"},
                "items": {"type": "array", "items": {"$ref": "#/$defs/item"}},
            },
            "additionalProperties": false,
            "$defs": {"item": {"type": "object", "properties": {"sku": {"type": "string"}}}},
        }));
        let ResultType::Object(object) = &order else { panic!("{order:?}") };
        assert!(!object.open && object.names().eq(["orderId", "items"]));
        check(json!({"oneOf": [{"type": "string"}, {}]}), json!({"kind": "any"}));
        check(json!({"allOf": [{"type": "string"}]}), json!({"kind": "any"}));
    }

    #[test]
    fn the_type_of_a_recursive_schema_is_bounded() {
        let tree =
            json!({"type": "object", "properties": {"next": {"$ref": "#"}}, "additionalProperties": false});
        assert!(schema_type(tree).is_bounded());
    }
}
