//! Tests of keywords for which validators are known to differ, or that use memoized results.

use serde_json::{Value as Json, json};
use value::{File, Value};

use super::{failure, schema, value};

/// Asserts that the values in `fitting` match and those in `others` do not.
fn check(document: Json, fitting: &[Json], others: &[Json]) {
    let schema = schema(document.clone());
    for json in fitting {
        assert_eq!(failure(&schema, &value(json.clone())), "", "{json} under {document}");
    }
    for json in others {
        assert_ne!(failure(&schema, &value(json.clone())), "", "{json} under {document}");
    }
}

#[test]
fn a_result_that_depends_on_a_cycle_is_not_memoized() {
    // `b` refers to `a`, which refers to `b` and to a schema that ends the cycle.
    let document = json!({"allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}], "$defs": {
        "a": {"anyOf": [{"$ref": "#/$defs/b"}, {"type": "string"}]},
        "b": {"$ref": "#/$defs/a"},
    }});
    check(document, &[json!("x")], &[json!(1)]);
}

#[test]
fn numbers_are_equal_in_every_notation() {
    check(json!({"const": 1}), &[json!(1), json!(1.0)], &[json!(1.5), json!("1"), json!(true)]);
    check(json!({"const": {"a": [1.0], "b": null}}), &[json!({"b": null, "a": [1]})], &[json!({"a": [1]})]);
    check(
        json!({"uniqueItems": true}),
        &[json!([1, 1.5, "1", [1], true])],
        &[json!([1, 1.0]), json!([{"a": 1, "b": 2}, {"b": 2, "a": 1.0}])],
    );
    check(
        json!({"const": 9_007_199_254_740_993_i64}),
        &[json!(9_007_199_254_740_993_i64)],
        &[json!(9_007_199_254_740_992_i64)],
    );
    check(
        json!({"minimum": 9_007_199_254_740_993_i64}),
        &[json!(9_007_199_254_740_993_i64)],
        &[json!(9_007_199_254_740_992_i64)],
    );
    check(json!({"minimum": 0}), &[json!(-0.0), json!(0)], &[json!(-1)]);
    check(json!({"type": "integer"}), &[json!(1.0)], &[json!(1.5)]);
    check(json!({"multipleOf": 0.5}), &[json!(1.5), json!(2)], &[json!(1.7)]);
}

#[test]
fn names_of_properties_are_checked_one_by_one() {
    // Names at the same address, and a subschema with memoized results.
    let document = json!({"propertyNames": {"$ref": "#/$defs/name"}, "$defs": {
        "name": {"anyOf": [{"$ref": "#/$defs/short"}, {"const": "long enough"}]}, "short": {"maxLength": 2},
    }});
    check(
        document.clone(),
        &[json!({"a": 1, "bb": 2, "long enough": 3})],
        &[json!({"a": 1, "bbb": 2}), json!({"bbb": 1, "a": 2})],
    );
    let message = failure(&schema(document), &value(json!({"a": 1, "bbb": 2})));
    assert_eq!(message, " must not have the name `bbb`");
}

#[test]
fn anchors_ids_and_escapes_resolve() {
    let document = json!({"$id": "https://a.example/root.json", "properties": {
        "anchor": {"$ref": "#text"}, "escape": {"$ref": "#/$defs/a~1b%20c"}, "address": {"$ref": "part.json#/$defs/inner"},
        "whole": {"$ref": "https://a.example/part.json"}, "old": {"$ref": "#/definitions/old"},
    }, "$defs": {
        "text": {"$anchor": "text", "type": "string"}, "a/b c": {"type": "null"},
        "part": {"$id": "part.json#", "type": "object", "properties": {"p": {"$ref": "#/$defs/inner"}}, "$defs": {"inner": {"type": "boolean"}}},
    }, "definitions": {"old": {"type": "integer"}}});
    check(
        document,
        &[json!({"anchor": "x", "escape": null, "address": true, "whole": {"p": false}, "old": 1})],
        &[
            json!({"anchor": 1}),
            json!({"escape": 1}),
            json!({"address": 1}),
            json!({"whole": {"p": 1}}),
            json!({"old": ""}),
        ],
    );
}

#[test]
fn a_dynamic_reference_resolves_to_the_outermost_anchor() {
    let tree = json!({"$id": "https://a.example/tree", "$dynamicAnchor": "node", "type": "object",
        "properties": {"data": true, "children": {"type": "array", "items": {"$dynamicRef": "#node"}}}});
    let strict = json!({"$id": "https://a.example/strict", "$dynamicAnchor": "node", "$ref": "tree", "unevaluatedProperties": false, "$defs": {"tree": tree.clone()}});
    check(tree, &[json!({"children": [{"daat": 1}]})], &[json!({"children": [1]})]);
    check(
        strict,
        &[json!({"children": [{"data": 1}]})],
        &[json!({"children": [{"daat": 1}]}), json!({"daat": 1})],
    );
}

#[test]
fn a_file_is_checked_as_its_public_map() {
    let file = File { content_type: "text/plain".into(), filename: None, data: b"hello".to_vec().into() };
    let body = Value::from([("upload", Value::from(file))].into_iter().collect::<value::Map>());
    let document = |size: u64| json!({"properties": {"upload": {"required": ["data"], "properties": {"size": {"const": size}, "data": {"const": "hello"}}}}});
    assert_eq!(failure(&schema(document(5)), &body), "");
    assert_eq!(failure(&schema(document(6)), &body), "/upload/size value must be 6");
}

#[test]
fn messages_name_the_expectation_and_are_short_for_every_value() {
    let say = |document: Json, json: Json, expected: &str| {
        assert_eq!(failure(&schema(document), &value(json)), expected);
    };
    say(json!({"enum": ["a", 1, null]}), json!("b"), " value must be one of 'a', 1, null");
    say(json!({"enum": ["a"]}), json!("b"), " value must be 'a'");
    say(json!({"minLength": 2}), json!("ä"), " length must be >=2, but got 1");
    say(json!({"maxItems": 1}), json!([1, 2]), " maximum 1 items required, but got 2 items");
    say(json!({"uniqueItems": true}), json!([1, 2, 1]), " items at 0 and 2 are equal");
    say(json!({"contains": {"const": 1}}), json!([2]), " no items match contains schema");
    say(json!({"dependentRequired": {"a": ["b"]}}), json!({"a": 1}), " needs `b` beside `a`");
    say(
        json!({"oneOf": [{"type": "number"}, {"minimum": 1}]}),
        json!(1),
        " matches more than one of the allowed schemas",
    );
    say(json!({"not": {"type": "string"}}), json!("x"), " matches a schema that it must not match");
    say(json!({"properties": {"a": false}}), json!({"a": 1}), "/a must not be present");
    say(json!({"unevaluatedProperties": false}), json!({"a~/": 1}), "/a~0~1 must not be present");
    say(json!({"if": {"required": ["a"]}, "then": {"required": ["b"]}}), json!({"a": 1}), " needs `b`");
    // The alternative with a single failure is the intended one.
    let variant = |name: &str, of: &str| json!({"properties": {"type": {"const": name}, "payload": {"properties": {"x": {"type": of}}}}});
    say(
        json!({"oneOf": [variant("a", "string"), variant("b", "integer")]}),
        json!({"type": "b", "payload": {"x": true}}),
        "/payload/x must be integer, found boolean",
    );
    let long = "x".repeat(1 << 20);
    for document in [
        json!({"pattern": "y"}),
        json!({"const": "y"}),
        json!({"propertyNames": false}),
        json!({"additionalProperties": false}),
        json!({"additionalProperties": {"type": "null"}}),
    ] {
        for json in [json!(long), json!({long.as_str(): 1})] {
            assert!(failure(&schema(document.clone()), &value(json)).chars().count() <= 700, "{document}");
        }
    }
}
