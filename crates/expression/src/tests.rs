use value::{JsonLimits, Map};

use super::*;

fn scope() -> Value {
    let text = br#"{
        "trigger": {"results": {"body": {"data": {"orderId": 9007199254740993, "items": [{"sku": "a", "n": 1}, {"sku": "b", "n": 2}], "none": null}}}},
        "steps": {"list": {"results": {"results": [{"id": "1", "status": "current"}, {"id": "2", "status": "trashed"}]}}},
        "vars": {"key": "sku", "total": 3}
    }"#;
    Value::from_json(text, JsonLimits::default()).expect("the scope is JSON")
}

#[track_caller]
fn check(expression: &str, expected: &str) {
    let compiled = match Expression::compile(expression, Span::default()) {
        Ok(compiled) => compiled,
        Err(error) => panic!("`{expression}` does not compile: {error}"),
    };
    let found = match compiled.evaluate(&scope(), &Budget::default()) {
        Ok(value) => value.to_json(),
        Err(error) => format!("error: {}", error.message),
    };
    assert_eq!(found, expected, "{expression}");
}

#[test]
fn paths_keep_types_and_exact_integers() {
    check("trigger.results.body.data.orderId", "9007199254740993");
    check("trigger.results.body.data.items[1].sku", "\"b\"");
    check("trigger.results.body.data.items[-1]['sku']", "\"b\"");
    check("trigger.results.body.data.none", "null");
    check("vars", r#"{"key":"sku","total":3}"#);
    check("true", "true");
}

#[test]
fn ranges_and_format_widths_are_bounded() {
    check("range(100000) | length", "100000");
    check("range(100001) | length", "error: `range`: gives at most 100000 numbers");
    check("'%10000s' | format('x') | length", "10000");
    check(
        "'%10001s' | format('x') | length",
        "error: `format`: a field may be at most 10000 characters wide",
    );
}

#[test]
fn missing_data_is_an_error_that_names_the_path() {
    check(
        "trigger.results.body.data.orderid",
        "\"error\"".replace("\"error\"", "error: `trigger.results.body.data.orderid` is missing: `trigger.results.body.data` has orderId, items, none; did you mean `orderId`?").as_str(),
    );
    check("vars.total.x", "error: `vars.total.x` is missing: `vars.total` is a number");
    check("vars.total.x + 1", "error: `vars.total.x` is missing: `vars.total` is a number");
    check("vars.a.b == 1", "error: `vars.a` is missing: `vars` has key, total");
    check("[vars.a]", "error: `vars.a` is missing: `vars` has key, total");
    check("nothing.here", "error: `nothing` is not defined here");
    check(
        "trigger.results.body.data.items[7].sku | upper",
        "error: `trigger.results.body.data.items[7]` is missing: `trigger.results.body.data.items` has 2 items",
    );
    check(
        "trigger.results.body.data.none.x",
        "error: `trigger.results.body.data.none.x` is missing: `trigger.results.body.data.none` is null",
    );
}

#[test]
fn default_and_defined_handle_missing_data() {
    check("vars.a.b.c | default('x')", "\"x\"");
    check("vars.total | default(0)", "3");
    check("vars.a.b is defined", "false");
    check("vars.total if vars.total is defined else 0", "3");
    check("vars.a if vars.a is defined else 0", "0");
    check("vars.a or 1", "error: `vars.a` is missing: `vars` has key, total");
    check("(vars.a | default([])) | length", "0");
    check("trigger.results.body.data.none | default('x')", "\"x\"");
}

#[test]
fn expressions_compute_with_shared_values() {
    check("trigger.results.body.data.orderId + 1", "9007199254740994");
    check("trigger.results.body.data.items | map(attribute='sku') | join(',')", "\"a,b\"");
    check("trigger.results.body.data.items | selectattr('n', 'gt', 1) | list", r#"[{"sku":"b","n":2}]"#);
    check("trigger.results.body.data.items[vars.total - 2][vars.key]", "\"b\"");
    check("'a' in vars.key", "false");
    check("{'k': vars.total, 'l': [1, vars.key]}", r#"{"k":3,"l":[1,"sku"]}"#);
    check("vars.total > 2 and not false", "true");
    check("'n=' ~ vars.total", "\"n=3\"");
    check("trigger.results.body.data.items[0] | tojson", r#""{\"sku\":\"a\",\"n\":1}""#);
}

#[test]
fn a_singular_query_returns_its_value_and_any_other_a_list() {
    check("$.steps.list.results.results[?@.status=='current'].id", r#"["1"]"#);
    check("$.steps.list.results.results[1].id", "\"2\"");
    check("$.steps.list.results.results[*].id", r#"["1","2"]"#);
    check("$.steps.list.results.nothing[*]", "[]");
    check("$.steps.list.nothing", "error: `steps.list.nothing` is missing: `steps.list` has results");
    check("$..sku", r#"["a","b"]"#);
}

/// The paths that an expression reads: `[0]` for an item, `[*]` for every item, `?` for an optional path.
fn references(text: &str) -> String {
    let compiled = Expression::compile(text, Span::default()).expect("it compiles");
    compiled.references().iter().map(written).collect::<Vec<_>>().join(" ")
}

fn written(reference: &Reference) -> String {
    let mut text = reference.path.join(".");
    for link in &reference.suffix {
        match link {
            Link::Name(name) => text.push_str(&format!(".{name}")),
            Link::Item => text.push_str("[0]"),
            Link::Every => text.push_str("[*]"),
        }
    }
    if reference.optional { format!("{text}?") } else { text }
}

#[test]
fn references_are_known_statically() {
    let check = |text: &str, expected: &str| assert_eq!(references(text), expected, "{text}");
    check("steps.a.results.id", "steps.a.results.id");
    check("steps.a.results[0].id", "steps.a.results[0].id");
    check("steps.a.results['id'] | default(vars.x)", "steps.a.results.id? vars.x");
    check("[item, steps.b.results[index].id]", "item steps.b.results index");
    check("steps.a.results[-1].id ~ 'x'", "steps.a.results[0].id");
    check("(steps.a.results | first).id", "steps.a.results[0].id steps.a.results");
    check("steps.a.results | map(attribute='b.c') | join", "steps.a.results[*].b.c steps.a.results");
    check(
        "steps.a.results | selectattr('b', 'equalto', vars.x)",
        "steps.a.results steps.a.results[*].b vars.x",
    );
    check("steps.a.results | map('upper')", "steps.a.results");
    check("steps.a.results | map(by=item.b ~ vars.x)", "steps.a.results steps.a.results[*].b vars.x");
    check(
        "steps.a.results | select(by=item.b) | sort(by=item.c)",
        "steps.a.results steps.a.results[*].b steps.a.results[*].c",
    );
    check(
        "steps.a.results | map(by=item.b | map(by=item.c))",
        "steps.a.results steps.a.results[*].b steps.a.results[*].b[*].c",
    );
    check(
        "steps.a.results | map(by=item.b) | flatten | map(by=item.c)",
        "steps.a.results steps.a.results[*].b steps.a.results[*].b[*].c",
    );
    check("range(3) | map(by=item.b + item)", "");
    check("item | map(by=item.b | default(item.c)) | map('x' ~ item.d)", "item item[*].b? item[*].c item.d");
    check("coalesce(vars.a, vars.b) ~ (vars.c | coalesce(vars.d))", "vars.a? vars.b? vars.c? vars.d?");
}

#[test]
fn references_of_a_query_are_its_own_path_and_those_of_its_filters() {
    let check = |text: &str, expected: &str| assert_eq!(references(text), expected, "{text}");
    check("$.steps.a.results[0].id", "steps.a.results[0].id");
    check("$.steps.a.results[*].id", "steps.a.results[*].id?");
    check("$.steps.a.results[1:].id", "steps.a.results[*].id?");
    check("$.steps.a.results..id", "steps.a.results?");
    // Reads the whole scope.
    check("$..id", "?");
    let inner = "$.steps.a.results..[?@.id == $.vars.id && count($.inputs.ids[*]) > 1, 0]";
    check(inner, "steps.a.results? vars.id? inputs.ids[*]?");
    check(
        "$.steps.a.results[?@.status == 'current' && @.tags[0] == $.vars.tag].id",
        "steps.a.results[*].id? steps.a.results[*].status? steps.a.results[*].tags[0]? vars.tag?",
    );
    check(
        "$.steps.a.results[?@.a && !(@.b)]",
        "steps.a.results[*]? steps.a.results[*].a? steps.a.results[*].b?",
    );
    check("$.steps.a.results[?length(@.name) > 3]", "steps.a.results[*]? steps.a.results[*].name?");
}

#[test]
fn an_expression_that_only_reads_a_path_has_a_direct_path() {
    let check = |text: &str, expected: &str| {
        let compiled = Expression::compile(text, Span::default()).expect("it compiles");
        let found = compiled.direct_path().map(|whole| match whole {
            DirectPath::One(reference) => written(reference),
            DirectPath::Every(reference) => format!("every {}", written(reference)),
        });
        assert_eq!(found.as_deref().unwrap_or("no"), expected, "{text}");
    };
    check("steps.a.results[0].id", "steps.a.results[0].id");
    check("steps.a.results | selectattr('b') | list | first", "steps.a.results[0]");
    check("(steps.a.results | first).id", "steps.a.results[0].id");
    check("$.steps.a.results[0]", "steps.a.results[0]");
    check("$.steps.a.results[?@.b].id", "every steps.a.results[*].id?");
    for text in [
        "steps.a.results | length",
        "a.b ~ c",
        "a.b | default(1)",
        "$..id",
        "$[*].a",
        "a[b]",
        "'text'",
        "range(2)",
    ] {
        check(text, "no");
    }
}

#[test]
fn an_invalid_expression_is_rejected_with_its_location() {
    for (text, at) in [("vars.total +", 0..12), ("a b", 2..3), ("$.a[", 0..4), ("", 0..0)] {
        let error = Expression::compile(text, Span::default()).expect_err(text);
        assert!(error.at.start <= error.at.end && error.at.end <= text.len(), "{text}: {:?}", error.at);
        if text == "a b" {
            assert_eq!(error.at, at);
        }
    }
}

#[test]
fn unknown_filters_tests_and_functions_do_not_compile() {
    let check = |text: &str, expected: &str, named: &str, near: Option<&str>| {
        let error = Expression::compile(text, Span::default()).expect_err(text);
        assert_eq!(error.message, expected, "{text}");
        assert_eq!(&text[error.at], named, "{text}");
        assert_eq!(error.unknown.and_then(|unknown| unknown.nearest).as_deref(), near, "{text}");
    };
    check("vars.a | defualt(1)", "there is no filter `defualt`", "defualt", Some("default"));
    check("vars.a | nothing | join(',')", "there is no filter `nothing`", "nothing", None);
    check("vars.a is definde", "there is no test `definde`", "definde", Some("defined"));
    check("vars.a is not nulll", "there is no test `nulll`", "nulll", None);
    check("rnge(3)", "there is no function `rnge`", "rnge", Some("range"));
    check("[{'a': fetch(vars.b)}]", "there is no function `fetch`", "fetch", None);
    check("vars.a | map('uper')", "there is no filter `uper`", "uper", Some("upper"));
    check("vars.a | selectattr('n', 'gtt', 1)", "there is no test `gtt`", "gtt", Some("gt"));
    check("vars.a | reject('od')", "there is no test `od`", "od", Some("odd"));
    for fine in
        ["vars.a | map(attribute='x')", "vars.a | select", "range(3) | list", "dict(a=1)", "vars.a | d(1)"]
    {
        assert!(Expression::compile(fine, Span::default()).is_ok(), "{fine}");
    }
    for name in symbols::filter_names() {
        // Some need arguments.
        let unknown = Expression::compile(&format!("vars.a | {name}"), Span::default());
        assert!(unknown.err().is_none_or(|error| error.unknown.is_none()), "{name}");
    }
    for name in symbols::test_names() {
        let unknown = Expression::compile(&format!("vars.a is {name}(1)"), Span::default());
        assert!(unknown.err().is_none_or(|error| error.unknown.is_none()), "{name}");
    }
}

#[test]
fn an_expression_that_would_grow_without_bound_is_stopped() {
    for text in ["range(2000000) | list", "'x' * 100000000000", "[1] * 100000000"] {
        let compiled = Expression::compile(text, Span::default()).expect("it compiles");
        assert!(compiled.evaluate(&scope(), &Budget::default()).is_err(), "{text}");
    }
}

proptest::proptest! {
    #[test]
    fn no_text_makes_compilation_or_evaluation_panic(text in ".{0,60}") {
        if let Ok(compiled) = Expression::compile(&text, Span::default()) {
            let _ = compiled.evaluate(&scope(), &Budget::default());
        }
    }

    #[test]
    fn no_near_expression_makes_compilation_or_evaluation_panic(
        text in "(vars|steps|item)(\\.[a-z]{1,3}|\\[[a-z0-9'\\.\\-]{1,4}\\]|\\(\\)| ?\\| ?default\\('x'\\)| [+=*~-] ){0,6}"
    ) {
        if let Ok(compiled) = Expression::compile(&text, Span::default()) {
            let _ = compiled.evaluate(&scope(), &Budget::default());
        }
    }
}

#[test]
fn a_jsonpath_pattern_over_the_compiled_size_limit_matches_nothing() {
    let text = Value::from("a".repeat(100_000));
    let scope = Value::from(Map::from_iter([("x", Value::from(vec![text]))]));
    let matches = |pattern: &str| {
        let query = format!("$.x[?match(@, '{pattern}')]");
        let compiled = Expression::compile(&query, Span::default()).expect("it compiles");
        let found = compiled.evaluate(&scope, &Budget::default()).expect("it is evaluated");
        found.as_list().map(<[Value]>::len)
    };
    assert_eq!(matches("(aaaaaaaaaa)*"), Some(1));
    assert_eq!(matches("((a{100}){100}){10}"), Some(0), "of 100,000 states");
}
