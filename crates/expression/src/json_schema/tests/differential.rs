//! Compares the evaluator with `boon` on random schemas, including recursive ones, and random values.

use boon::{Compiler, Draft, Schemas};
use proptest::prelude::*;
use serde_json::{Map, Value as Json, json};
use value::Value;
use value::budget::Budget;

use crate::json_schema::JsonSchema;

/// The number of schemas, each with 20 values; `PROPTEST_CASES` overrides it.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(100)
}

const NAMES: [&str; 3] = ["a", "b", "c"];

fn name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&NAMES[..])
}

fn instance() -> impl Strategy<Value = Json> {
    let leaf = prop::sample::select(vec![
        json!(null),
        json!(true),
        json!(0),
        json!(1),
        json!(1.0),
        json!(2.5),
        json!(-1),
        json!(""),
        json!("a"),
        json!("ab"),
        json!({}),
        json!([]),
    ]);
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
            prop::collection::vec((name(), inner), 0..4).prop_map(|members| members
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect()),
        ]
    })
}

fn reference() -> impl Strategy<Value = Json> {
    prop::sample::select(vec![
        json!({"$ref": "#"}),
        json!({"$ref": "#/$defs/a"}),
        json!({"$ref": "#/$defs/b"}),
        json!({"$ref": "#/$defs/c"}),
        json!({"$dynamicRef": "#node"}),
    ])
}

fn assertion() -> impl Strategy<Value = (&'static str, Json)> {
    let kinds = vec!["null", "boolean", "number", "integer", "string", "array", "object"];
    prop_oneof![
        4 => prop::sample::select(kinds).prop_map(|kind| ("type", json!(kind))),
        2 => instance().prop_map(|value| ("const", value)),
        1 => prop::collection::vec(instance(), 1..3).prop_map(|values| ("enum", json!(values))),
        2 => prop::collection::vec(name(), 0..3).prop_filter("unique", |names| {
            names.iter().collect::<std::collections::HashSet<_>>().len() == names.len()
        }).prop_map(|names| ("required", json!(names))),
        1 => (name(), name()).prop_map(|(one, other)| ("dependentRequired", json!({one: [other]}))),
        1 => (0..3).prop_map(|size| ("minProperties", json!(size))),
        1 => (0..3).prop_map(|size| ("maxProperties", json!(size))),
        1 => (0..3).prop_map(|size| ("minItems", json!(size))),
        1 => (0..3).prop_map(|size| ("maxItems", json!(size))),
        1 => Just(("uniqueItems", json!(true))),
        1 => (0..3).prop_map(|size| ("minLength", json!(size))),
        1 => (0..3).prop_map(|size| ("maxLength", json!(size))),
        1 => prop::sample::select(vec!["^a", "b$", "", r"^\w$"]).prop_map(|text| ("pattern", json!(text))),
        1 => (-1..3).prop_map(|limit| ("minimum", json!(limit))),
        1 => (-1..3).prop_map(|limit| ("exclusiveMaximum", json!(limit))),
        1 => prop::sample::select(vec![json!(1), json!(2), json!(0.5)]).prop_map(|of| ("multipleOf", of)),
    ]
}

fn applicator(
    inner: impl Strategy<Value = Json> + Clone + 'static,
) -> impl Strategy<Value = Vec<(&'static str, Json)>> {
    let several = || prop::collection::vec(inner.clone(), 1..4);
    let members = || {
        prop::collection::vec((name(), inner.clone()), 1..3).prop_map(|members| {
            members.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect::<Json>()
        })
    };
    let one = |key: &'static str| inner.clone().prop_map(move |schema| vec![(key, schema)]);
    prop_oneof![
        2 => several().prop_map(|all| vec![("allOf", json!(all))]),
        3 => several().prop_map(|any| vec![("anyOf", json!(any))]),
        3 => several().prop_map(|one| vec![("oneOf", json!(one))]),
        2 => one("not"),
        2 => (inner.clone(), inner.clone(), inner.clone()).prop_map(|(a, b, c)| vec![("if", a), ("then", b), ("else", c)]),
        4 => members().prop_map(|members| vec![("properties", members)]),
        1 => (prop::sample::select(vec!["^a", "[bc]"]), inner.clone()).prop_map(|(name, schema)| vec![("patternProperties", json!({name: schema}))]),
        2 => one("additionalProperties"),
        2 => one("items"),
        1 => several().prop_map(|items| vec![("prefixItems", json!(items))]),
        1 => (inner.clone(), 0..3, 0..3).prop_map(|(schema, min, max)| {
            vec![("contains", schema), ("minContains", json!(min)), ("maxContains", json!(max))]
        }),
        1 => one("contains"),
        1 => one("propertyNames"),
        1 => members().prop_map(|members| vec![("dependentSchemas", members)]),
        2 => one("unevaluatedProperties"),
        1 => one("unevaluatedItems"),
    ]
}

fn subschema() -> impl Strategy<Value = Json> {
    let assertions = prop::collection::vec(assertion(), 1..3).prop_map(|keywords| {
        keywords.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Json>()
    });
    let leaf = prop_oneof![4 => assertions, 3 => reference(), 1 => any::<bool>().prop_map(Json::from)];
    leaf.prop_recursive(3, 10, 3, |inner| {
        let assertions = prop::collection::vec(assertion(), 0..2);
        (prop::collection::vec(applicator(inner), 1..3), assertions).prop_map(|(applicators, assertions)| {
            let keywords = applicators.into_iter().flatten().chain(assertions);
            keywords.map(|(key, value)| (key.to_owned(), value)).collect()
        })
    })
}

fn document() -> impl Strategy<Value = Json> {
    (subschema(), subschema(), subschema(), subschema(), any::<bool>()).prop_map(
        |(root, a, b, c, dynamic)| {
            let mut map = match root {
                Json::Object(map) => map,
                other => Map::from_iter([("allOf".to_owned(), json!([other]))]),
            };
            let mut anchored = Map::from_iter([("$dynamicAnchor".to_owned(), json!("node"))]);
            if dynamic {
                map.extend(anchored);
                map.insert("$defs".to_owned(), json!({"a": a, "b": b, "c": c}));
            } else {
                anchored.insert("allOf".to_owned(), json!([c]));
                map.insert("$defs".to_owned(), json!({"a": a, "b": b, "c": anchored}));
            }
            Json::Object(map)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), max_shrink_iters: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn the_evaluator_agrees_with_boon(document in document(), instances in prop::collection::vec(instance(), 20)) {
        let schema = JsonSchema::compile(document.clone()).expect("a schema");
        let (mut compiler, mut schemas) = (Compiler::new(), Schemas::new());
        compiler.set_default_draft(Draft::V2020_12);
        compiler.add_resource("schema:///", document.clone()).expect("a resource");
        let root = compiler.compile("schema:///", &mut schemas).expect("a schema");
        for instance in instances {
            let value = Value::from_serde(instance.clone());
            let found = schema.is_valid(&value, &Budget::default()).expect("within the budget");
            let other = schemas.validate(&instance, root).is_ok();
            prop_assert_eq!(found, other, "{} under {}", instance, document);
            prop_assert_eq!(schema.check(&value, &Budget::default()).is_ok(), found);
        }
    }
}
