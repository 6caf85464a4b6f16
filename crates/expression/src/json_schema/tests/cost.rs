//! Tests of the cost of checks, in units of the budget: linear in the value for every schema.

use pretty_assertions::assert_eq;
use serde_json::json;
use value::budget::{Budget, Exceeded, Limits};
use value::{Map, Value};

use super::{schema, value};
use crate::json_schema::{CheckError, JsonSchema, LimitExceeded};

/// A value of `depth` levels: `inner`, wrapped by `wrap` repeatedly.
fn nested(
    depth: usize,
    inner: serde_json::Value,
    wrap: impl Fn(serde_json::Value) -> serde_json::Value,
) -> Value {
    value((0..depth).fold(inner, |inside, _| wrap(inside)))
}

/// The units that a check spends; asserts that it ends within the budget.
fn cost(schema: &JsonSchema, value: &Value) -> u64 {
    let budget = Budget::default();
    let result = schema.check(value, &budget);
    assert!(!matches!(result, Err(CheckError::TooCostly(_))), "{result:?}");
    assert_eq!(budget.exceeded(), None, "the message too is made within the budget");
    budget.spent()
}

/// Asserts that doubling the depth at most doubles the cost.
fn is_linear(
    name: &str,
    document: serde_json::Value,
    inner: &serde_json::Value,
    wrap: impl Fn(serde_json::Value) -> serde_json::Value,
) {
    let schema = schema(document);
    let at = |depth: usize| cost(&schema, &nested(depth, inner.clone(), &wrap));
    let (half, whole) = (at(32), at(64));
    assert!(whole <= 2 * half + 200, "{name}: {half} at depth 32, {whole} at depth 64");
}

/// The tree of three variants, with the keys in the order given.
fn tree(applicator: &str, children_first: bool) -> serde_json::Value {
    let variant = |name: &str| {
        let kind = ("type".to_owned(), json!({"const": name}));
        let children = ("children".to_owned(), json!({"type": "array", "items": {"$ref": "#/$defs/node"}}));
        let members = if children_first { [children, kind] } else { [kind, children] };
        let properties: serde_json::Map<_, _> = members.into_iter().collect();
        json!({"type": "object", "required": ["type"], "properties": properties})
    };
    let variants = json!([variant("a"), variant("b"), variant("c")]);
    json!({"$ref": "#/$defs/node", "$defs": {"node": {applicator: variants}}})
}

#[test]
fn a_recursive_one_of_or_any_of_costs_linear_time() {
    for applicator in ["oneOf", "anyOf"] {
        for children_first in [false, true] {
            for inner in [json!({"type": "z"}), json!({"type": "a"})] {
                is_linear(
                    applicator,
                    tree(applicator, children_first),
                    &inner,
                    |inside| json!({"type": "a", "children": [inside]}),
                );
                is_linear(
                    applicator,
                    tree(applicator, children_first),
                    &inner,
                    |inside| json!({"children": [inside], "type": "c"}),
                );
            }
        }
    }
}

#[test]
fn the_message_about_a_deep_tree_names_the_path_at_linear_cost() {
    let deep = nested(12, json!({"type": "z"}), |inside| json!({"type": "a", "children": [inside]}));
    let message = super::failure(&schema(tree("oneOf", false)), &deep);
    assert_eq!(message, format!("{}/type value must be 'a'", "/children/0".repeat(12)));
}

#[test]
fn recursion_through_any_applicator_costs_linear_time() {
    let wrap = |inside| json!({"n": inside});
    let of_node = |node: serde_json::Value| json!({"$ref": "#/$defs/node", "$defs": {"node": node}});
    let child = json!({"properties": {"n": {"$ref": "#/$defs/node"}}});
    let cases = [
        (
            "not",
            of_node(
                json!({"type": "object", "not": {"not": child}, "properties": {"n": {"$ref": "#/$defs/node"}}}),
            ),
        ),
        ("if", of_node(json!({"type": "object", "if": child, "then": child, "else": child}))),
        (
            "if that fails",
            of_node(json!({"if": {"not": child}, "then": child, "else": child, "required": ["n"]})),
        ),
        (
            "dependentSchemas",
            of_node(
                json!({"type": "object", "dependentSchemas": {"n": child}, "properties": {"n": {"$ref": "#/$defs/node"}}}),
            ),
        ),
        ("allOf", of_node(json!({"type": "object", "allOf": [child, child, child]}))),
        (
            "additionalProperties",
            of_node(
                json!({"type": "object", "anyOf": [{"additionalProperties": {"$ref": "#/$defs/node"}}, {"additionalProperties": {"$ref": "#/$defs/node"}}]}),
            ),
        ),
        (
            "patternProperties",
            of_node(
                json!({"type": "object", "oneOf": [{"patternProperties": {"n": {"$ref": "#/$defs/node"}}}, {"patternProperties": {"^n": {"$ref": "#/$defs/node"}}}]}),
            ),
        ),
    ];
    for (name, document) in cases {
        for inner in [json!(1), json!({})] {
            is_linear(name, document.clone(), &inner, wrap);
        }
    }
}

#[test]
fn mutual_recursion_costs_linear_time() {
    let to = |name: &str| json!({"properties": {"n": {"$ref": format!("#/$defs/{name}")}}});
    let document = json!({"$ref": "#/$defs/a", "$defs": {
        "a": {"type": "object", "anyOf": [to("b"), to("c")]},
        "b": {"type": "object", "oneOf": [to("a"), to("c")]},
        "c": {"type": "object", "anyOf": [to("b"), to("a")]},
    }});
    for inner in [json!(1), json!({})] {
        is_linear("mutual", document.clone(), &inner, |inside| json!({"n": inside}));
    }
}

#[test]
fn recursion_through_contains_and_prefix_items_costs_linear_time() {
    let node = json!({"type": "array", "anyOf": [
        {"contains": {"$ref": "#/$defs/node"}}, {"contains": {"$ref": "#/$defs/node"}, "minContains": 2},
        {"prefixItems": [{"$ref": "#/$defs/node"}]},
    ]});
    let document = json!({"$ref": "#/$defs/node", "$defs": {"node": node}});
    for inner in [json!(1), json!([])] {
        is_linear("contains", document.clone(), &inner, |inside| json!([inside]));
    }
}

#[test]
fn dynamic_references_cost_linear_time() {
    let child = json!({"properties": {"n": {"$dynamicRef": "#node"}}});
    let one = json!({"$dynamicAnchor": "node", "type": "object", "anyOf": [child, child, child]});
    let two = json!({"$id": "https://a.example/strict", "$dynamicAnchor": "node", "$ref": "tree", "required": ["n"], "$defs": {
        "tree": {"$id": "tree", "$dynamicAnchor": "node", "type": "object", "anyOf": [child, child, child]},
    }});
    for document in [one, two] {
        for inner in [json!(1), json!({})] {
            is_linear("$dynamicRef", document.clone(), &inner, |inside| json!({"n": inside}));
        }
    }
}

#[test]
fn unevaluated_keywords_cost_linear_time() {
    let child = json!({"properties": {"n": {"$ref": "#/$defs/node"}}});
    let denied = json!({"type": "object", "anyOf": [child, child], "unevaluatedProperties": false});
    let down = json!({"type": "object", "anyOf": [{"unevaluatedProperties": {"$ref": "#/$defs/node"}}, {"unevaluatedProperties": {"$ref": "#/$defs/node"}}]});
    for node in [denied, down] {
        let document = json!({"$ref": "#/$defs/node", "$defs": {"node": node}});
        for inner in [json!(1), json!({}), json!({"m": 1})] {
            is_linear("unevaluatedProperties", document.clone(), &inner, |inside| json!({"n": inside}));
        }
    }
    let items = json!({"$ref": "#/$defs/node", "$defs": {"node": {"type": "array", "anyOf": [
        {"unevaluatedItems": {"$ref": "#/$defs/node"}}, {"prefixItems": [{"$ref": "#/$defs/node"}], "unevaluatedItems": false},
    ]}}});
    is_linear("unevaluatedItems", items, &json!(1), |inside| json!([inside]));
}

#[test]
fn doubling_references_cost_linear_time_in_their_depth() {
    for (applicator, unevaluated) in [("allOf", false), ("anyOf", false), ("oneOf", false), ("allOf", true)] {
        let document = |steps: usize| {
            let mut defs = serde_json::Map::new();
            for step in 0..steps {
                let next = json!({"$ref": format!("#/$defs/d{}", step + 1)});
                defs.insert(format!("d{step}"), json!({applicator: [next, next]}));
            }
            defs.insert(format!("d{steps}"), json!({"required": ["a"], "properties": {"a": true}}));
            let mut document = json!({"$ref": "#/$defs/d0", "$defs": defs});
            if unevaluated {
                document["unevaluatedProperties"] = json!(false);
            }
            schema(document)
        };
        for body in [json!({"a": 1}), json!({"b": 1}), json!({"a": 1, "b": 1})] {
            let at = |steps: usize| cost(&document(steps), &value(body.clone()));
            let (half, whole) = (at(32), at(64));
            assert!(whole <= 2 * half + 200, "{applicator}: {half} for 32 steps, {whole} for 64");
        }
    }
}

/// Asserts that the check costs at most `most` units per item.
fn costs_at_most(document: serde_json::Value, value: &Value, most: u64) {
    let spent = cost(&schema(document), value);
    assert!(spent <= most, "{spent} units");
}

#[test]
fn unique_items_are_charged_by_their_size_and_not_by_their_pairs() {
    let document = || json!({"uniqueItems": true});
    let prefix = "x".repeat(200);
    let texts: Value = (0..100_000).map(|index| Value::from(format!("{prefix}{index}"))).collect();
    costs_at_most(document(), &texts, 5_000_000);
    let lists: Value =
        (0..20_000).map(|index| value(json!([[1, 2, 3], {"a": index, "b": [null]}]))).collect();
    costs_at_most(document(), &lists, 5_000_000);
    // Different integers that are equal as floats.
    let numbers: Value = (0..100_000_u64).map(|index| Value::from((1 << 62) + index)).collect();
    costs_at_most(document(), &numbers, 2_000_000);
    let large: Value = (0..40).map(|index| Value::from(format!("{}{index}", "x".repeat(100_000)))).collect();
    let budget = Budget::new(Limits { work: 100_000, ..Limits::default() }, None);
    let result = schema(document()).is_valid(&large, &budget);
    assert_eq!(result, Err(LimitExceeded::Budget(Exceeded::Work(100_000))));
}

fn too_costly(schema: &JsonSchema, value: &Value) {
    let result = schema.check(value, &Budget::default());
    assert!(matches!(result, Err(CheckError::TooCostly(LimitExceeded::Budget(_)))), "{result:?}");
}

#[test]
fn constants_and_choices_are_charged_by_what_is_compared() {
    let large = json!({"a": "x".repeat(100_000), "b": vec![1; 10_000]});
    let mut other = large.clone();
    other["b"][9_999] = json!(2);
    let spent = |document: serde_json::Value| {
        let budget = Budget::default();
        assert_eq!(schema(document).is_valid(&value(other.clone()), &budget), Ok(false));
        budget.spent()
    };
    // One unit per number to search for files and one to compare it, and one unit per 8 bytes of text.
    let constant = spent(json!({"const": large}));
    assert!((32_500..33_000).contains(&constant), "{constant}");
    let choice = spent(json!({"enum": vec![&large; 20]}));
    assert!((460_000..461_000).contains(&choice), "{choice}");
}

#[test]
fn patterns_are_charged_by_text_and_by_their_own_size() {
    let text = Value::from("a".repeat(5 << 20));
    let spent = cost(&schema(json!({"pattern": "^(a|aa)+$"})), &text);
    assert!((5_000_000..12_000_000).contains(&spent), "{spent}");
    // About 16,000 states are active at every character.
    too_costly(&schema(json!({"pattern": r"[\p{L}0-9]{100}x"})), &text);
    let short = Value::from("a".repeat(200));
    assert!(cost(&schema(json!({"pattern": r"[\p{L}0-9]{100}x"})), &short) < 100_000);
}

#[test]
fn patterns_of_names_are_charged_by_names_and_patterns() {
    let patterns: serde_json::Map<_, _> =
        (0..50).map(|index| (format!("^k.*{index}$"), json!({"type": "integer"}))).collect();
    let schema = schema(json!({"patternProperties": patterns}));
    let at = |names: u64| {
        let members: Map = (0..names).map(|index| (format!("key{index:05}"), index)).collect();
        cost(&schema, &Value::from(members))
    };
    let (some, more) = (at(500), at(1_000));
    assert!((400_000..=800_000).contains(&some) && more <= 2 * some + 200, "{some}, {more}");
}

#[test]
fn a_check_over_its_budget_fails_as_too_costly() {
    let tree = schema(tree("oneOf", false));
    let deep = nested(32, json!({"type": "z"}), |inside| json!({"type": "a", "children": [inside]}));
    let all = cost(&tree, &deep);
    let limited = |work: u64| Budget::new(Limits { work, ..Limits::default() }, None);
    assert!(matches!(tree.check(&deep, &limited(all / 10)), Err(CheckError::TooCostly(_))));
    assert!(matches!(tree.is_valid(&deep, &limited(all / 10)), Err(LimitExceeded::Budget(_))));
    let Err(CheckError::Invalid(error)) = tree.check(&deep, &limited(all - 10)) else {
        panic!("it is decided")
    };
    assert_eq!(error.pointer, "", "the message is a plain one: {error}");
    assert!(error.message.contains("would take too much"), "{error}");
}

#[test]
fn too_deeply_nested_subschemas_end_the_check_without_stack_overflow() {
    let steps = 100;
    let mut defs = serde_json::Map::new();
    for step in 0..steps {
        let next = json!({"$ref": format!("#/$defs/d{}", step + 1)});
        defs.insert(format!("d{step}"), json!({"allOf": [{"anyOf": [{"oneOf": [next]}]}]}));
    }
    defs.insert(format!("d{steps}"), json!({"type": "object", "properties": {"n": {"$ref": "#/$defs/d0"}}}));
    let schema = schema(json!({"$ref": "#/$defs/d0", "$defs": defs, "unevaluatedProperties": false}));
    let deep = nested(64, json!(1), |inside| json!({"n": inside}));
    // 400 levels, with unevaluated parts below them, and with a search for the failure.
    let values = [deep, value(json!({"m": 1})), value(json!(1))];
    let check = move || values.map(|value| schema.check(&value, &Budget::default()));
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(check);
    let [deep, flat, wrong] = thread.expect("a thread").join().expect("no overflow");
    assert_eq!(deep, Err(CheckError::TooCostly(LimitExceeded::Depth)));
    for (result, expected) in [(flat, "must not be present"), (wrong, "must be object, found number")] {
        let Err(CheckError::Invalid(error)) = result else { panic!("{result:?}") };
        assert_eq!(error.message, expected);
    }
}
