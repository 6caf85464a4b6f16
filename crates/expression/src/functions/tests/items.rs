//! Expressions that filters evaluate for each item: `by=`.

use proptest::prelude::*;

use super::*;

/// Evaluates over a scope with `rows`, and an `item` as a loop has it.
#[track_caller]
fn check_rows(expression: &str, expected: &str) {
    let scope = Value::from_json(
        br#"{"rows": [{"n": "b", "p": 2, "c": "de", "t": ["x"]}, {"n": "A", "p": 10, "c": "fr", "t": ["y", "z"]}, {"n": "c", "p": 10, "c": "DE", "t": []}], "item": {"n": "loop", "p": 5}, "none": null}"#,
        value::JsonLimits::default(),
    )
    .expect("the scope is JSON");
    assert_eq!(evaluate_over(expression, &scope), expected, "{expression}");
}

#[test]
fn an_expression_is_evaluated_for_each_item() {
    check_rows("rows | map(by=item.n ~ item.p)", r#"["b2","A10","c10"]"#);
    check_rows("rows | select(by=item.p > 5) | map(by=item.n)", r#"["A","c"]"#);
    check_rows("rows | reject(by=item.p > 5) | map(by=item.n)", r#"["b"]"#);
    check_rows("rows | sort(by=[-item.p, item.n]) | map(by=item.n)", r#"["A","c","b"]"#);
    check_rows("rows | sort(by=item.c, reverse=true) | map(by=item.n)", r#"["A","b","c"]"#);
    check_rows("rows | sort(by=[item.c], case_sensitive=true) | map(by=item.n)", r#"["c","b","A"]"#);
    check_rows(
        "rows | groupby(by=item.c) | map(by=[item.grouper, item.list | length])",
        r#"[["DE",2],["fr",1]]"#,
    );
    check_rows("rows | unique(by=item.p) | map(by=item.n)", r#"["b","A"]"#);
    check_rows("rows | unique(by=[item.c, 1]) | map(by=item.n)", r#"["b","A"]"#);
    check_rows("(rows | min(by=item.p)).n ~ (rows | max(by=item.p)).n", r#""bc""#);
    check_rows("rows | sum(by=item.p * 2)", "44");
    check_rows("rows | takeWhile(by=item.n != 'c') | map(by=item.n)", r#"["b","A"]"#);
    check_rows("rows | toMap(by=item.n, value=item.p)", r#"{"b":2,"A":10,"c":10}"#);
    check_rows("(rows | toMap(by=item.n)).c.p", "10");
    check_rows("rows | map(by=item.t) | flatten", r#"["x","y","z"]"#);
    check_rows("none | map(by=item) | list", "[]");
    check_rows("rows | map(by=item.missing | default(item.p))", "[2,10,10]");
}

#[test]
fn the_item_of_the_innermost_filter_is_the_one_that_is_read() {
    check_rows("rows | map(by=item.t | map(by=item ~ '!') | join) | join(',')", r#""x!,y!z!,""#);
    check_rows("rows | select(by=item.t | select(by=item == 'y')) | map(by=item.n)", r#"["A"]"#);
    // The item of a loop is the one outside of `by`.
    check_rows("[item.n, rows | map(by=item.p) | sum, item.n]", r#"["loop",22,"loop"]"#);
    check_rows("rows | map(by=item.n) | map('replace', 'b', item.n)", r#"["loop","A","c"]"#);
}

#[test]
fn a_failure_for_an_item_names_the_field() {
    check_rows(
        "rows | map(by=item.nn)",
        "error: `item.nn` is missing: `item` has n, p, c, t; did you mean `n`?"
            .replace("error: ", "error: `map`: ")
            .as_str(),
    );
    check_rows(
        "rows | toMap(by=item.p)",
        "error: `toMap`: two items have the key `10`; `groupby(by=…)` keeps all of them, `unique(by=…)` the first",
    );
    check_rows("rows | toMap(by=item.t)", "error: `toMap`: a key is a text or a number, not a list");
    check_rows("rows[0] | flatten", "error: `flatten`: takes a list, not a map");
}

#[test]
fn an_argument_that_a_filter_does_not_have_is_an_error() {
    for (expression, expected) in [
        ("rows | select(wher=item.p)", "`select` has no argument `wher`; it takes by"),
        ("rows | select('odd', by=item.p)", "`by` of `select` takes the place"),
        ("rows | selectattr('p', by=item.p)", "`selectattr` has no argument `by`; it takes none by name"),
        ("rows | map(atribute='n')", "`map` has no argument `atribute`; it takes attribute, default, by"),
        ("rows | map('round', precison=1)", "`round` has no argument `precison`"),
        ("rows | map('upper', by=item.n)", "`by` of `map` takes the place"),
        ("rows | map", "the argument `by` of `map` is missing"),
        ("rows | chain(rows, x=1)", "`chain` has no argument `x`; it takes none by name"),
        ("rows | zip(rows, strict=true)", "`zip` has no argument `strict`; it takes none by name"),
        ("rows | sort(attribute='n', by=item.n)", "`by` of `sort` takes the place"),
        ("rows | sort(true, true, 'n', 'p')", "`sort` takes at most 3 arguments"),
        ("rows | sort(by=item.n, by=item.p)", "`by` of `sort` is given twice"),
        ("rows | takeWhile", "the argument `by` of `takeWhile` is missing"),
        ("rows | takeWhile(item.p)", "`takeWhile` takes its arguments by name: by"),
        ("rows | groupby", "the argument `by` of `groupby` is missing"),
        ("rows | toMap(key=item.n)", "`toMap` has no argument `key`; it takes by, value"),
        ("rows | sort(by='p')", "`by` of `sort` is an expression over `item`"),
        ("rows | sort(by=p)", "`by` of `sort` is an expression over `item`"),
        ("rows | select('odd', 1)", "the test `odd` takes no arguments"),
        ("rows | selectattr('p', 'eq', 1, 2)", "the test `eq` takes one argument"),
        ("1 is odd(1)", "the test `odd` takes no arguments"),
        ("1 is eq(value=1)", "the test `eq` takes no argument by name"),
        ("coalesce(a=1, b=2)", "`coalesce` has no argument `a`; it takes none by name"),
        ("coalesce(rows)", "the argument `b` of `coalesce` is missing"),
    ] {
        let error = Expression::compile(expression, Span::default()).expect_err(expression);
        assert!(error.message.contains(expected), "{expression}: {}", error.message);
        assert_eq!(error.code, Some("wrong-argument"), "{expression}");
    }
    // Names that only an evaluation knows.
    check_rows("rows | select(**{'wher': 1})", "error: `select`: there is no argument `wher`; it takes by");
    check_rows(
        "rows | sort(**{'by': 'n'})",
        "error: `sort`: `by` is an expression over `item`, which the call itself has to contain",
    );
    check_rows(
        "rows | map(**{'attribute': 'n', 'x': 1})",
        "error: `map`: there is no argument `x`; it takes attribute, default, by",
    );
    check_rows(
        "rows | map(*['upper'], by=item.n)",
        "error: `map`: `by` takes the place of all other arguments",
    );
    check_rows("rows | zip(**{'x': 1})", "error: `zip`: there is no argument `x`; it takes none by name");
}

#[test]
fn the_fix_of_a_field_without_item_reads_the_item() {
    for (expression, expected) in [
        ("rows | sort(by='p')", "rows | sort(by=item.p)"),
        ("rows | sort(by=a.b, reverse=true)", "rows | sort(by=item.p, reverse=true)"),
        ("rows | toMap(key=item.n)", "rows | toMap(by=item.n)"),
    ] {
        let error = Expression::compile(expression, Span::default()).expect_err(expression);
        let fixed = error
            .fix
            .map(|fix| format!("{}{}{}", &expression[..fix.0.start], fix.1, &expression[fix.0.end..]));
        let expected = (!expression.contains("a.b")).then(|| expected.to_owned());
        assert_eq!(fixed, expected, "{expression}");
    }
}

#[test]
fn the_first_value_that_exists_is_chosen() {
    check_rows("rows[0].x.y | coalesce('d')", r#""d""#);
    check_rows("coalesce(none, rows[9].n, rows[0].n)", r#""b""#);
    check_rows("coalesce(false, 1)", "false");
    check_rows("coalesce(none, rows[0].x)", "null");
    check_rows("coalesce('a', 1 / 0)", r#""a""#);
    check_rows("rows | map(by=item.x | coalesce(item.n))", r#"["b","A","c"]"#);
    check_rows("rows | map('coalesce', 1) | length", "3");
    check_rows("coalesce(rows[0].x ~ 'y', 1)", "error: `rows[0].x` is missing: `rows[0]` has n, p, c, t");
}

#[test]
fn the_work_of_an_expression_is_charged_for_each_item() {
    let scope = Value::from(Map::from_iter([("x", (0..5000).map(Value::from).collect::<Value>())]));
    let spent = |text: &str| {
        let budget = Budget::default();
        let compiled = Expression::compile(text, Span::default()).expect("it compiles");
        compiled.evaluate(&scope, &budget).map(|_| budget.spent())
    };
    assert!(spent("x | map(by=item + 1)").expect("a value") > 3 * 5000);
    let error = spent("x | select(by=x | select(by=item == 1)) | length").expect_err("25 million items");
    assert!(error.exceeded.is_some(), "{error}");
}

proptest! {
    /// Sorting by keys agrees with a stable sort of pairs.
    #[test]
    fn items_are_sorted_by_their_keys(rows in proptest::collection::vec((0_i64..5, "[a-cA-C]{0,2}", any::<i32>()), 0..30)) {
        let item = |(a, b, c): &(i64, String, i32)| {
            Value::from(Map::from_iter([("a", Value::from(*a)), ("b", Value::from(b.as_str())), ("c", Value::from(i64::from(*c)))]))
        };
        let scope = Value::from(Map::from_iter([("rows", rows.iter().map(item).collect::<Value>())]));
        let mut sorted = rows.clone();
        sorted.sort_by_key(|(a, b, _)| (-a, b.to_ascii_lowercase()));
        let expected: Value = sorted.iter().map(item).collect();
        prop_assert_eq!(evaluate_over("rows | sort(by=[-item.a, item.b])", &scope), expected.to_json());
        let sum: i64 = rows.iter().map(|(a, ..)| a * 2).sum();
        prop_assert_eq!(evaluate_over("rows | sum(by=item.a * 2)", &scope), sum.to_string());
        let chosen: Value = rows.iter().filter(|(a, ..)| *a > 2).map(item).collect();
        prop_assert_eq!(evaluate_over("rows | select(by=item.a > 2)", &scope), chosen.to_json());
    }
}
