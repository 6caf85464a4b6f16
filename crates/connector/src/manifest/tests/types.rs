//! Tests of result types and of the errors in them.

use model::ResultType;
use pretty_assertions::assert_eq;

use super::{LIST, manifest, read_text};

/// Returns the type, as JSON, of an action with these `results`, in a manifest with these types.
fn typed(types: &str, results: &str) -> Result<String, String> {
    let action = format!("{LIST}    results: {results}\n").replace("    paging: true\n", "");
    let text = manifest(&action).replace("actions:\n", &format!("types: {types}\nactions:\n"));
    let (manifest, errors) = read_text(&text);
    let spec = manifest.ok_or(errors)?.actions.remove(0).spec().clone();
    Ok(serde_json::to_string(&spec.results).expect("JSON"))
}

#[test]
fn results_are_a_keyword_a_named_type_or_a_mapping() {
    let check = |types, results, expected: &str| assert_eq!(typed(types, results).as_deref(), Ok(expected));
    check("{}", "text", r#"{"kind":"text"}"#);
    check("{}", "null", r#"{"kind":"null"}"#);
    check("{}", "'null'", r#"{"kind":"null"}"#);
    check("{}", "{type: integer, description: how many}", r#"{"kind":"integer"}"#);
    check(
        "{Item: {type: object, fields: {id: text, of: {type: Kind, optional: true}}}, Kind: {type: choice, options: [a, b]}}",
        "{type: list, items: {type: Item, nullable: true}}",
        concat!(
            r#"{"kind":"list","items":{"kind":"oneOf","types":[{"kind":"object","name":"Item","fields":["#,
            r#"{"name":"id","type":{"kind":"text"}},"#,
            r#"{"name":"of","type":{"kind":"choice","options":["a","b"]},"optional":true}]},{"kind":"null"}]}}"#
        ),
    );
    check(
        "{}",
        "{type: object, open: true, fields: {n: {type: map, values: number, description: The n.}}}",
        concat!(
            r#"{"kind":"object","fields":[{"name":"n","type":{"kind":"map","values":{"kind":"number"}},"#,
            r#""description":"The n."}],"open":true}"#
        ),
    );
}

#[test]
fn the_type_of_a_paginated_list_includes_the_cursor() {
    let names = |results: &str| {
        let (manifest, errors) = read_text(&manifest(&format!("{LIST}    results: {results}\n")));
        let action = manifest.unwrap_or_else(|| panic!("{errors}")).actions.remove(0);
        let kind = action.spec().results.clone();
        let ResultType::Object(object) = kind else { return vec![kind.describe()] };
        object.names().map(str::to_owned).collect()
    };
    assert_eq!(names("{type: object, fields: {results: any}}"), ["results", "nextCursor"]);
    assert_eq!(names("{type: list, items: text}"), ["results", "nextCursor"]);
    assert_eq!(names("any"), ["anything"]);
}

#[test]
fn errors_in_types_are_reported_at_their_position() {
    let check = |types, results, expected: &str| assert_eq!(typed(types, results), Err(expected.to_owned()));
    check(
        "{Item: {type: txt}}",
        "Itm",
        "20:22: unknown value `txt` for `type`\n27:14: unknown value `Itm` for `type`\n",
    );
    check(
        "{item: text}",
        "text",
        "20:9: `item` is no name of a type; use letters and digits, a capital letter first\n",
    );
    check(
        "{}",
        "{type: list, fields: {}}",
        "27:15: a type needs the key `items`\n27:27: unknown key `fields` in a type\n",
    );
    check("{}", "list", "27:14: unknown value `list` for `type`\n");
    check("{}", "{type: text, optional: true}", "27:27: unknown key `optional` in a type\n");
    check(
        "{A: {type: list, items: B}, B: {type: object, fields: {a: A}}}",
        "A",
        "20:66: the type `A` comes to itself, so it has no end\n",
    );
}

#[test]
fn a_type_that_expands_exponentially_is_rejected() {
    let mut types = String::from("{A: text");
    for (before, name) in ('A'..'P').zip('B'..='P') {
        types.push_str(&format!(", {name}: {{type: object, fields: {{x: {before}, y: {before}}}}}"));
    }
    let error = typed(&format!("{types}}}"), "P").expect_err("it is too large");
    assert!(error.contains("has more than 5000 parts"), "{error}");
}
