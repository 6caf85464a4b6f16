//! Compares expressions with MiniJinja's own evaluation: if both have a value, it is equal.
//!
//! Cogwork uses MiniJinja to parse expressions but not to evaluate them, since its evaluation bounds neither memory nor
//! time. Here it is the oracle. [`DIFFERENT`] lists the intended differences.

#![expect(clippy::expect_used, reason = "a test fails with the reason")]

use expression::Expression;
use minijinja::Environment;
use text::Span;
use value::{Budget, JsonLimits, Value};

const SCOPE: &str = r#"{
    "n": 7, "z": 0, "neg": -3, "big": 9007199254740993, "f": 2.5, "h": 0.1,
    "s": "Hello, World", "t": "one\ntwo\n\nthree\n", "e": "", "u": "Straße ÀÉ", "csv": "a,b,,c",
    "l": [3, 1, 2, 1], "fl": [1.5, 2, 0.25], "w": ["b", "A", "c", "a", "B"], "el": [], "mix": [1, "a", null, true],
    "o": {"b": 2, "a": 1, "C": 3}, "eo": {}, "y": true, "no": false, "nil": null,
    "q": [{"k": "x", "v": 2, "d": {"i": 1}}, {"k": "y", "v": 1, "d": {"i": 2}}, {"k": "x", "v": 3, "d": {"i": 0}}],
    "deep": {"a": [{"b": {"c": [10, 20]}}]}
}"#;

/// Expressions over [`SCOPE`], one a line.
const SAME: &str = include_str!("data/expressions.txt");

/// Expressions with intended differences: Cogwork's value and the reason.
const DIFFERENT: &[(&str, &str, &str)] = &[
    ("1e308 * 10", "error", "a number beyond the floats is an error, not `null`"),
    ("l ~ ''", r#""[3,1,2,1]""#, "a list in a text is JSON, as everywhere in Cogwork"),
    ("[1, 2] ~ ''", r#""[1,2]""#, "a list in a text is JSON, as everywhere in Cogwork"),
    (
        "o | tojson",
        r#""{\"b\":2,\"a\":1,\"C\":3}""#,
        "JSON is written as everywhere in Cogwork, without escapes for HTML",
    ),
    ("o | chain({'d': 4})", r#"{"b":2,"a":1,"C":3,"d":4}"#, "a map keeps the order of its keys"),
    ("q | map(attribute='none')", "error", "a list of what is missing is no value"),
    ("y ~ ''", r#""true""#, "a boolean in a text is `true`, as everywhere in Cogwork"),
    ("nil ~ ''", r#""""#, "null in a text is nothing, as everywhere in Cogwork"),
    ("y | string", r#""true""#, "a boolean in a text is `true`, as everywhere in Cogwork"),
    ("nil | string", r#""""#, "null in a text is nothing, as everywhere in Cogwork"),
    ("[y, nil, 1] | join('/')", r#""true//1""#, "a text of parts has the same forms"),
    ("'%s/%s' | format(y, nil)", r#""true/""#, "a formatted text has the same forms"),
    ("mix | join(',')", r#""1,a,,true""#, "a text of parts has the same forms"),
    ("'false' | bool", "false", "a text is converted to the boolean that it spells"),
    ("'No' | bool", "false", "a text is converted to the boolean that it spells"),
    ("'0' | bool", "false", "a text is converted to the boolean that it spells"),
    ("s | bool", "error", "a text that spells no boolean is no value"),
    ("nil | default('x')", r#""x""#, "an input that is not given is null"),
    ("null", "null", "YAML and JSON write `null` for `none`"),
    ("nil == null and null is none", "true", "YAML and JSON write `null` for `none`"),
    ("nil in s", "false", "null is not a part of a text"),
    ("q | sort(attribute='none')", "error", "a field that no item has is a wrong name"),
    ("q | unique(attribute='d.none')", "error", "a field that no item has is a wrong name"),
    ("q | groupby('none')", "error", "a field that no item has is a wrong name"),
    ("q | max(attribute='none')", "error", "a field that no item has is a wrong name"),
    ("q | sum(attribute='none')", "error", "a field that no item has is a wrong name"),
    ("q | join(',', attribute='none')", "error", "a field that no item has is a wrong name"),
    (
        "[{'a': 1}, {'b': 2}] | sort(attribute='a') | map(attribute='b', default=0)",
        "[2,0]",
        "a field that some items have sorts the others first",
    ),
    ("[] | sort(attribute='none')", "[]", "a list without items has nothing to compare"),
    ("'a' + 1", "error", "both refuse it, each in its own words"),
];

fn ours(text: &str) -> Result<String, String> {
    let scope = Value::from_json(SCOPE.as_bytes(), JsonLimits::default()).expect("the scope is JSON");
    let compiled = Expression::compile(text, Span::default()).map_err(|error| error.message)?;
    compiled.evaluate(&scope, &Budget::default()).map(|value| value.to_json()).map_err(|error| error.message)
}

fn theirs(text: &str) -> Result<String, String> {
    let scope: serde_json::Value = serde_json::from_str(SCOPE).expect("the scope is JSON");
    let environment = Environment::new();
    let compiled = environment.compile_expression(text).map_err(|error| error.to_string())?;
    let value = compiled.eval(minijinja::value::Serde(scope)).map_err(|error| error.to_string())?;
    if value.is_undefined() {
        return Err("undefined".to_owned());
    }
    serde_json::to_string(&value).map_err(|error| error.to_string())
}

#[test]
fn expressions_evaluate_as_in_minijinja() {
    let mut compared = 0;
    let mut wrong = Vec::new();
    for text in SAME.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        compared += 1;
        match (ours(text), theirs(text)) {
            (Ok(ours), Ok(theirs)) if ours == theirs => {}
            (Err(_), Err(_)) => {}
            (ours, theirs) => wrong.push(format!("{text}\n    ours:   {ours:?}\n    theirs: {theirs:?}")),
        }
    }
    assert!(wrong.is_empty(), "{} of {compared} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(compared > 250, "{compared}");
}

#[test]
fn intended_differences_from_minijinja_are_as_listed() {
    for (text, expected, reason) in DIFFERENT {
        let ours = ours(text).unwrap_or_else(|_| "error".to_owned());
        assert_eq!(&ours, expected, "{text}: {reason}");
    }
}
