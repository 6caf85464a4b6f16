//! The hostile corpus: every filter, test, function and operator of expressions and every part of JSONPath, with operands from
//! a body. Each returns a value or an error, within bounds of memory and work. The corpus is data, in `tests/hostile`;
//! `make hostile-check` sends it to a daemon.
//!
//! The test measures the peak memory of the process, so it is the only one that evaluates, and runs alone in its process.

#![expect(clippy::expect_used, reason = "a test fails with the reason")]

use std::alloc::System;
use std::collections::{BTreeMap, BTreeSet};

use cap::Cap;
use expression::{Expression, vocabulary};
use text::Span;
use value::budget::{MAX_MEMORY, MAX_WORK};
use value::{Budget, JsonLimits, Map, Value};

#[global_allocator]
static MEMORY: Cap<System> = Cap::new(System, usize::MAX);

/// The memory of an evaluation in addition to its budget: temporary data of operations, such as the items of a sort.
const BESIDE: usize = 48 << 20;
/// The sizes of the bodies, in bytes.
const SIZES: [usize; 2] = [1 << 10, 100 << 10];

type Corpus = BTreeMap<String, BTreeMap<String, serde_json::Value>>;

fn corpus() -> Corpus {
    let text = include_str!("../../../tests/hostile/corpus.json");
    serde_json::from_str(text).expect("the corpus is JSON")
}

#[test]
fn every_expression_name_has_a_row_in_the_hostile_corpus() {
    let corpus = corpus();
    let kinds: BTreeSet<&str> = vocabulary().map(|(kind, _)| kind).collect();
    for kind in kinds {
        let declared: BTreeSet<&str> =
            vocabulary().filter(|(known, _)| *known == kind).map(|(_, name)| name).collect();
        let rows: BTreeSet<&str> = corpus[kind].keys().map(String::as_str).collect();
        assert_eq!(declared, rows, "the rows of kind `{kind}` in tests/hostile/corpus.json");
    }
}

#[test]
fn no_expression_over_a_hostile_body_exceeds_its_budget() {
    let mut rows = 0;
    for size in SIZES {
        let scope = scope(size);
        for (kind, names) in corpus().iter().filter(|(kind, _)| *kind != "schema") {
            for expression in names.values().flat_map(|row| row.as_array().expect("a list of expressions")) {
                let text = expression.as_str().expect("an expression").replace("B.", "vars.b.");
                check(kind, &text.replace("B", "vars.b"), &scope);
                rows += 1;
            }
        }
    }
    assert!(rows > 1000, "{rows}");
}

#[track_caller]
fn check(kind: &str, text: &str, scope: &Value) {
    // Some do not compile.
    let Ok(expression) = Expression::compile(text, Span::default()) else { return };
    let before = MEMORY.allocated();
    MEMORY.set_limit(before + MAX_MEMORY + BESIDE).expect("the limit is above what is allocated");
    let budget = Budget::default();
    let result = expression.evaluate(scope, &budget);
    assert!(budget.spent() <= MAX_WORK, "{kind}: {text}");
    drop(result);
    MEMORY.set_limit(usize::MAX).expect("there is no limit");
}

/// The scope of a body of about `size` bytes, as `tests/hostile/body.py` generates it.
fn scope(size: usize) -> Value {
    let part = size / 10;
    let numbers = |from: usize| (from..from + part / 7).map(Value::from).collect::<Value>();
    let words = (0..part / 12).map(|at| Value::from(format!("k{at} word"))).collect::<Value>();
    let entries =
        |at: usize| Value::from(Map::from_iter([("k", format!("a+b{at}")), ("v", "x".repeat(at % 7))]));
    let patterns = (0..part / 40).map(|at| Value::from(format!("(a|b{at}){{3}}c*$"))).collect::<Value>();
    let object: Map = (0..part / 20).map(|at| (format!("key{at}"), Value::from(at))).collect();
    let body = Map::from_iter([
        ("s", Value::from("a".repeat(part))),
        ("t", Value::from("line of text\n".repeat(part / 13))),
        ("u", Value::from("ab".repeat(part / 6))),
        ("f", Value::from("%s %5d %-10s".repeat(part / 24))),
        ("g", Value::from("%(a)5000d".repeat(part / 18))),
        ("l", numbers(0)),
        ("m", numbers(500_000)),
        ("w", words),
        ("q", (0..part / 30).map(entries).collect::<Value>()),
        ("o", Value::from(object)),
        ("p", patterns),
        ("n", Value::from(1_000_000_000)),
        ("i", Value::from(7)),
        ("d", Value::from("2026-01-31T08:30:00Z")),
        ("j", Value::from(format!("[{}1]", "1,".repeat(part / 4)))),
        ("x", Value::from(format!("<a>{}</a>", "<b c='d'>e</b>".repeat(part / 28)))),
        ("c", Value::from("a,b,c\n".repeat(part / 12))),
    ]);
    let vars = Map::from_iter([("b", Value::from(body))]);
    let scope = Value::from(Map::from_iter([("vars", Value::from(vars))]));
    // As for a value from outside, no part is shared.
    Value::from_json(scope.to_json().as_bytes(), JsonLimits::default())
        .expect("it is within the limits of JSON")
}
