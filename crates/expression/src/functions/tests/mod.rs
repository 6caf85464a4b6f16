use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use text::diagnostic::Span;
use value::{File, Map};

use super::*;
use crate::{EvalClock, Expression, filters, predicates};

mod calendar;
mod data;
mod dates;
mod decimals;
mod items;
mod patterns;
mod properties;
mod texts;

fn scope() -> Value {
    let png = File {
        content_type: "image/png".into(),
        filename: Some("dot.png".into()),
        data: vec![0x89, 0x50, 0xff].into(),
    };
    let latin = File { content_type: "text/plain".into(), filename: None, data: vec![0xfc].into() };
    let entries: [(&str, Value); 5] = [
        ("png", png.into()),
        ("latin", latin.into()),
        ("text", "hello".into()),
        ("nothing", Value::Null),
        ("list", vec![Value::from("a"), Value::from("b")].into()),
    ];
    Value::from(entries.into_iter().collect::<Map>())
}

/// A clock that returns the first instant of 2026 and a sequence of UUIDs.
struct NewYear(AtomicU8);

impl EvalClock for NewYear {
    fn now(&self) -> jiff::Timestamp {
        jiff::civil::date(2026, 1, 1).to_zoned(jiff::tz::TimeZone::UTC).expect("a date").timestamp()
    }

    fn uuids_drawn(&self) -> u32 {
        0
    }

    fn reset_uuids(&self, _: u32) {}

    fn uuid(&self) -> uuid::Uuid {
        uuid::Uuid::from_bytes([self.0.fetch_add(1, Ordering::Relaxed); 16])
    }
}

fn evaluate_over(expression: &str, scope: &Value) -> String {
    let compiled = match Expression::compile(expression, Span::default()) {
        Ok(compiled) => compiled,
        Err(error) => {
            let Some(unknown) = &error.unknown else { return format!("error: {error}") };
            let near = unknown.nearest.as_deref();
            let near = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
            return format!("refused: {error}{near}");
        }
    };
    let clock: Arc<dyn EvalClock> = Arc::new(NewYear(AtomicU8::new(0)));
    match compiled.evaluate_with_clock(scope, Some(&clock), &Budget::default()) {
        Ok(value) => value.to_json(),
        Err(error) => format!("error: {}", error.message),
    }
}

/// Asserts the value as JSON, or `error: …`, or `refused: …` for an unknown name. An argument that is known to be wrong is an error
/// before the evaluation, with the same words.
#[track_caller]
fn check(expression: &str, expected: &str) {
    assert_eq!(evaluate_over(expression, &scope()), expected, "{expression}");
}

/// As [`check`] with `text` as the variable `x`.
#[track_caller]
fn check_text(text: &str, expression: &str, expected: &str) {
    let scope = Value::from(Map::from_iter([("x", text)]));
    let printed: String = text.chars().take(60).collect();
    assert_eq!(evaluate_over(expression, &scope), expected, "{expression} of {printed}");
}

#[test]
fn every_function_is_also_a_filter() {
    check("hash(text) == (text | hash)", "true");
    check("list | map('base64') | list", r#"["YQ==","Yg=="]"#);
}

#[test]
fn arguments_are_positional_or_named() {
    check("hash(text, 'md5') == hash(algorithm='md5', data=text)", "true");
    check("hash(text, none, none) == hash(text)", "true");
    check("hash()", "error: the argument `data` of `hash` is missing");
    check(
        "hash(text, algorithm='md5', algoritm='x')",
        "error: `hash` has no argument `algoritm`; it takes data, algorithm, encoding",
    );
    check(
        "hash(text, colour='red')",
        "error: `hash` has no argument `colour`; it takes data, algorithm, encoding",
    );
    check("hash(text, 'md5', algorithm='sha1')", "error: `algorithm` of `hash` is given twice");
    check("parseJson(text, 1)", "error: `parseJson` takes at most 1 arguments: data");
    check("hash(text, 5)", "error: `hash`: `algorithm` is a number, not text");
    check(
        "hash(text, algorithm='sha3')",
        "error: `hash`: `algorithm` is `sha3`; it may be `sha256`, `sha512`, `sha1`, `md5`",
    );
    check("base64(text, decode='yes')", "error: `base64`: `decode` is text, not true or false");
    check("parseJson(missing)", "error: `missing` is not defined here");
    check("parseJson(text.missing)", "error: `text.missing` is missing: `text` is a text");
}

#[test]
fn an_unknown_name_gets_the_nearest_function() {
    check("parse_json(text)", "refused: there is no function `parse_json`; did you mean `parseJson`?");
    check("text | parseJSON", "refused: there is no filter `parseJSON`; did you mean `parseJson`?");
    // Its correction is among the words of other tools.
    check("text | url_encode", "refused: there is no filter `url_encode`");
    check("formatdate(text)", "refused: there is no function `formatdate`; did you mean `formatDate`?");
}

#[test]
fn a_scope_name_shadows_a_function_and_functions_are_not_values() {
    let scope = Value::from(Map::from_iter([("file", Value::from("mine"))]));
    assert_eq!(evaluate_over("file ~ '!'", &scope), r#""mine!""#);
    check("file", "error: `file` is not defined here");
    check("hash.x", "error: `hash` is not defined here");
}

#[test]
fn the_work_of_all_functions_of_an_expression_is_bounded() {
    let big = "x".repeat(15 << 20);
    let over = "error: it takes more than 32 MiB of memory";
    check_text(&big, "hash(x) == hash(x)", "true");
    check_text(&big, "[hash(x), hash(x), hash(x)]", over);
    check_text(&"x".repeat(1 << 20), "range(100) | map('string') | list | length", "100");
    check_text(&"x".repeat(1 << 20), "[x,x,x,x,x,x,x,x] | map('urlencode') | map('length') | sum", "8388608");
    let json = format!("[{}1]", "1,".repeat(200_000));
    check_text(
        &json,
        "[x,x,x,x,x,x,x,x,x,x,x,x,x,x,x,x,x,x] | map('parseJson') | list | length",
        &over.replace("hash", "parseJson"),
    );
}

#[test]
fn the_table_is_sorted_and_has_descriptions() {
    assert!(TABLE.is_sorted_by(|a, b| a.name < b.name));
    for function in &TABLE {
        assert!(function.required <= function.parameters.len(), "{}", function.name);
        assert!(!function.about.is_empty() && !function.about.ends_with('.'), "{}", function.name);
    }
    assert!(FUNCTIONS.iter().map(|(name, _)| *name).eq(TABLE.iter().map(|function| function.name)));
}

/// Each row of the manual is `` | `call(…)` | description | `example` | `value` | ``.
#[test]
fn the_manual_lists_each_function_with_true_examples() {
    let page = include_str!("../../../../../docs/src/functions.md");
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
        .collect();
    let code = |cell: &str| cell.trim_matches('`').to_owned();
    for function in &TABLE {
        let row = rows.iter().find(|row| code(row[0]).split('(').next() == Some(function.name));
        let row = row.unwrap_or_else(|| panic!("`{}` has no row in docs/src/functions.md", function.name));
        assert_eq!(code(row[0]), function.usage());
        assert_eq!(row[1], function.about);
    }
    for row in &rows {
        let (example, value) = (code(row[2]), code(row[3]));
        assert_eq!(evaluate_over(&example.replace("\\|", "|"), &Value::Null), value, "{example}");
    }
}

/// Each row of the manual is `` | `name(…)`, … | description | `example` | `value` | ``.
#[test]
fn the_manual_lists_each_filter_and_test_with_true_examples() {
    let page = include_str!("../../../../../docs/src/filters.md");
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
        .collect();
    let mut written = std::collections::BTreeSet::new();
    for row in &rows {
        for name in row[0].split("`, `") {
            written.insert(name.trim_matches('`').split('(').next().unwrap_or_default().to_owned());
        }
        let (example, value) = (row[2].trim_matches('`'), row[3].trim_matches('`'));
        assert_eq!(evaluate_over(&example.replace("\\|", "|"), &Value::Null), value, "{example}");
    }
    let table = filters::TABLE.iter().map(|row| row.name);
    let table: std::collections::BTreeSet<String> =
        table.chain(predicates::TABLE.iter().map(|row| row.name)).map(str::to_owned).collect();
    assert_eq!(written, table);
    for row in &filters::TABLE {
        let call = format!("`{}`", row.usage());
        assert!(rows.iter().any(|cells| cells[0] == call), "docs/src/filters.md has no {call}");
    }
}
