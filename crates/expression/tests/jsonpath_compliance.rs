//! Compliance of JSONPath with RFC 9535: own cases always, and the public compliance suite if it is available.
//!
//! `JSONPATH_SUITE=…/cts.json cargo nextest run -p expression jsonpath` runs the suite of
//! <https://github.com/jsonpath-standard/jsonpath-compliance-test-suite>. There are three known differences:
//!
//! * a query is the text between `${{` and `}}`, so spaces around it are accepted;
//! * a descendant segment with several selectors (`$..['a','d']`) returns the nodes selector by selector, not
//!   interleaved by parent;
//! * a filter right after the `@` of a filter (`$[?@[?@>1]]`) is rejected.

#![allow(clippy::unwrap_used, reason = "all of this file is tests")]

use std::path::Path;

use expression::Expression;
use proptest::prelude::*;
use serde::Deserialize;
use serde_json_path::JsonPath;
use text::Span;
use value::{JsonLimits, Value};

/// The public format.
#[derive(Deserialize)]
struct Suite {
    tests: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    selector: String,
    #[serde(default)]
    document: serde_json::Value,
    result: Option<Vec<serde_json::Value>>,
    #[serde(default)]
    results: Vec<Vec<serde_json::Value>>,
    #[serde(default)]
    invalid_selector: bool,
}

fn suite(path: &Path) -> Suite {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn own() -> Suite {
    suite(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/jsonpath.json"))
}

/// The nodes that a query selects; `Err` if it does not compile.
fn nodes(selector: &str, document: &serde_json::Value) -> Result<Vec<serde_json::Value>, String> {
    let query = Expression::compile(selector, Span::default()).map_err(|error| error.message)?;
    // A singular query returns its value, or an error if it is missing; any other returns a list.
    let is_singular = !matches!(query.evaluate(&Value::Null, &value::Budget::default()), Ok(Value::List(_)));
    let text = document.to_string();
    let document = Value::from_json(text.as_bytes(), JsonLimits { depth: 100, nodes: 100_000 }).unwrap();
    match query.evaluate(&document, &value::Budget::default()) {
        Ok(found) if is_singular => Ok(vec![found.to_serde()]),
        Ok(found) => Ok(found.as_list().unwrap().iter().map(Value::to_serde).collect()),
        Err(_) if is_singular => Ok(Vec::new()),
        Err(error) => panic!("`{selector}` fails: {error}"),
    }
}

/// True if two lists of nodes are equal; `1` equals `1.0`, as RFC 9535 defines for JSON numbers.
fn same(left: &[serde_json::Value], right: &[serde_json::Value]) -> bool {
    left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same_value(left, right))
}

fn same_value(left: &serde_json::Value, right: &serde_json::Value) -> bool {
    use serde_json::Value as Json;
    match (left, right) {
        (Json::Number(left), Json::Number(right)) => left == right || left.as_f64() == right.as_f64(),
        (Json::Array(left), Json::Array(right)) => same(left, right),
        (Json::Object(left), Json::Object(right)) => {
            let there =
                |(key, left): (&String, _)| right.get(key).is_some_and(|right| same_value(left, right));
            left.len() == right.len() && left.iter().all(there)
        }
        (left, right) => left == right,
    }
}

/// As [`same`], in any order: for a descendant segment with several selectors.
fn same_in_any_order(left: &[serde_json::Value], right: &[serde_json::Value]) -> bool {
    let sorted = |nodes: &[serde_json::Value]| {
        let mut nodes = nodes.to_vec();
        nodes.sort_by_key(ToString::to_string);
        nodes
    };
    same(&sorted(left), &sorted(right))
}

/// True if the nodes of several selectors may be in another order.
fn order_differs(selector: &str) -> bool {
    selector
        .split("..[")
        .skip(1)
        .any(|rest| rest.split(']').next().is_some_and(|inside| inside.contains(',')))
}

/// The difference from the expected result of a case; `None` if there is none.
fn problem(case: &Case) -> Option<String> {
    let selector = case.selector.as_str();
    if selector.trim() != selector || !selector.starts_with('$') {
        return None;
    }
    match nodes(selector, &case.document) {
        Ok(found) if case.invalid_selector => Some(format!("it is taken and finds {found:?}")),
        Err(_) if case.invalid_selector => None,
        Err(message) if message.contains("a filter right after `@`") => None,
        Err(message) => Some(format!("it is refused: {message}")),
        Ok(found) => {
            let mut expected = case.result.iter().chain(&case.results);
            let same = if order_differs(selector) { same_in_any_order } else { same };
            let fits = expected.any(|expected| same(&found, expected));
            (!fits).then(|| format!("it finds {found:?}"))
        }
    }
}

fn run(suite: &Suite) {
    let problems: Vec<String> = suite
        .tests
        .iter()
        .filter_map(|case| {
            problem(case).map(|problem| format!("{}: `{}`: {problem}", case.name, case.selector))
        })
        .collect();
    assert!(problems.is_empty(), "{} of {}:\n{}", problems.len(), suite.tests.len(), problems.join("\n"));
}

#[test]
fn jsonpath_passes_our_own_cases() {
    let suite = own();
    assert!(suite.tests.len() >= 60);
    run(&suite);
}

#[test]
fn jsonpath_passes_the_public_suite() {
    // The suite is not part of this repository: see CONTRIBUTING.md.
    if let Some(path) = std::env::var_os("JSONPATH_SUITE") {
        run(&suite(Path::new(&path)));
    }
}

#[test]
fn another_implementation_agrees_with_our_own_cases() {
    let mut problems = Vec::new();
    for case in own().tests {
        let expected: Vec<_> = case.result.iter().chain(&case.results).collect();
        let fits = match JsonPath::parse(&case.selector) {
            Err(_) => case.invalid_selector,
            Ok(query) => {
                let found: Vec<_> = query.query(&case.document).all().into_iter().cloned().collect();
                expected.iter().any(|expected| same(&found, expected))
            }
        };
        if !fits {
            problems.push(format!("{}: `{}`", case.name, case.selector));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn an_ill_typed_call_is_rejected_with_a_correction() {
    let check = |selector: &str, expected: &str| {
        let message = nodes(selector, &serde_json::Value::Null).expect_err(selector);
        assert_eq!(message, format!("not a JSONPath query: {expected}"), "{selector}");
    };
    check(
        "$[?length(@.*)<3]",
        "`length(…)` takes a query that selects at most one node, such as `length(@.a)`; `count` takes any query",
    );
    check("$[?count(@.*)]", "`count(…)` is a value, not true or false: compare it, as in `count(@.a) == 1`");
    check("$[?value('a')=='a']", "`value(…)` takes a query, such as `value(@.items[*])`");
    check(
        "$[?in(@.a, $.b)]",
        "there is no function `in`; there are `length`, `count`, `value`, `match` and `search`",
    );
    check("$.first name", "a name with a space in it is written in brackets: `['first name']`");
    check("$[?@[?@>1]]", "a filter right after `@` is not supported: `@.name[?…]` is");
}

fn document() -> impl Strategy<Value = serde_json::Value> {
    use serde_json::Value as Json;
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        (-3..4_i64).prop_map(Json::from),
        "[ab]{0,2}".prop_map(Json::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
            proptest::collection::hash_map("[abc]", inner, 0..4)
                .prop_map(|entries| Json::Object(entries.into_iter().collect())),
        ]
    })
}

const SEGMENT: &str = r"(\.[abc]|\['[abc]'\]|\[-?[1-3]\]|\[0\]|\.\*|\[\*\]|\[-?[1-3]?:-?[1-3]?(:-?[12])?\]|\.\.[abc]|\.\.\*|\[0,'a'\])";
// Two queries are compared with `==` and `!=` only: if both are empty, `<=` is true by RFC 9535 but false in the other
// implementation. RFC 9535 orders only numbers and texts; the other implementation orders `false` above `true`.
const TEST: &str = r"(!?@\.[abc]|@\.[abc] ?(<|<=|>|>=) ?(-?[1-3]|'[ab]')|@\.[abc] ?(==|!=) ?(-?[1-3]|'[ab]'|true|null)|@\.[abc] ?[!=]= ?(\$\.[abc]|@\[0\])|@ ?(==|>) ?[1-3]|length\(@\.?[abc]?\) ?[<>=]= ?[12]|count\(@\.\*\) ?> ?1|match\(@\.a, ?'[ab.]\*?'\)|search\(@, ?'[ab]'\)|value\(@\.\.[ab]\) ?== ?1)";

fn query() -> impl Strategy<Value = String> {
    let test = proptest::string::string_regex(TEST).unwrap().boxed();
    let joined = (test.clone(), proptest::option::of(("( && | \\|\\| )", test)));
    let filter = joined.prop_map(|(first, more)| {
        more.map_or(first.clone(), |(word, second)| format!("{first}{word}{second}"))
    });
    let segment = prop_oneof![
        3 => proptest::string::string_regex(SEGMENT).unwrap(),
        1 => filter.prop_map(|filter| format!("[?{filter}]")),
    ];
    proptest::collection::vec(segment, 0..4).prop_map(|segments| format!("${}", segments.concat()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn two_implementations_accept_spaces_at_the_same_positions(
        selector in query(), at in any::<prop::sample::Index>(), space in "[ \n]"
    ) {
        // Not before or after the query, where the expression trims its text.
        let inside: Vec<usize> = selector.char_indices().map(|(at, _)| at).skip(1).collect();
        if !inside.is_empty() {
            let mut selector = selector;
            selector.insert_str(*at.get(&inside), &space);
            let (theirs, ours) = (JsonPath::parse(&selector), nodes(&selector, &serde_json::Value::Null));
            // The other implementation rejects spaces before `..`, which are valid before any segment.
            let theirs = theirs.is_ok() || (ours.is_ok() && selector.contains(&format!("{space}..")));
            prop_assert_eq!(theirs, ours.is_ok(), "{} {:?}", selector, ours.err());
        }
    }

    #[test]
    fn two_implementations_select_the_same_nodes(selector in query(), document in document()) {
        let theirs = JsonPath::parse(&selector);
        let ours = nodes(&selector, &document);
        prop_assert_eq!(theirs.is_ok(), ours.is_ok(), "{} {:?} {:?}", selector, theirs.err(), ours.err());
        if let (Ok(theirs), Ok(ours)) = (theirs, ours) {
            let theirs: Vec<_> = theirs.query(&document).all().into_iter().cloned().collect();
            // RFC 9535 does not define the order of a map's members.
            prop_assert!(same_in_any_order(&ours, &theirs), "{}: ours {:?}, theirs {:?}", selector, ours, theirs);
        }
    }
}
