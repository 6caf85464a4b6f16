//! Tests of error messages.

use super::{report, tree};

/// The rendered report.
fn rendered(text: &str) -> String {
    report(text).render(false)
}

/// Asserts the codes with line and column, in document order.
fn check(text: &str, expected: &[(&str, usize, usize)]) {
    let entries = report(text).entries();
    let found: Vec<_> = entries.iter().map(|entry| (entry.code.as_str(), entry.line, entry.column)).collect();
    assert_eq!(found, expected, "{}", rendered(text));
}

/// Asserts the text after the only suggested correction.
fn corrected(text: &str, expected: &str) {
    let report = report(text);
    let fix = report.diagnostics().iter().find_map(|diagnostic| diagnostic.replacement.as_ref());
    let Some(fix) = fix else { panic!("no correction: {}", report.render(false)) };
    let mut out = text.to_owned();
    out.replace_range(fix.span.range(), &fix.text);
    assert_eq!(out, expected);
    tree(&out);
}

#[test]
fn a_duplicate_key_is_reported_with_the_line_of_the_first() {
    insta::assert_snapshot!(rendered("a: 1\nb: 2\n\"a\": 3\n"), @r#"
    error[yaml-duplicate-key]: the key `a` is written twice
     --> test.yaml:3:1
      |
    1 | a: 1
      | - first here
    2 | b: 2
    3 | "a": 3
      | ^^^ again here
      |
      = help: the first is on line 1; keep one of them
    "#);
}

#[test]
fn keys_must_be_text() {
    check("1: x\ntrue: y\n~: z\n", &[("yaml-key", 1, 1), ("yaml-key", 2, 1), ("yaml-key", 3, 1)]);
    check("[a]: x\n", &[("yaml-key", 1, 1)]);
    check(": x\n", &[("yaml-key", 1, 1)]);
    corrected("200: ok\n", "\"200\": ok\n");
}

#[test]
fn a_file_holds_one_document() {
    check("a: 1\n---\nb: 2\n---\nc: 3\n", &[("yaml-documents", 2, 1)]);
    tree("---\na: 1\n...\n");
}

#[test]
fn an_unquoted_cron_line_gets_a_fix() {
    insta::assert_snapshot!(rendered("schedule:\n  cron: */5 8-16 * * 1-5\n"), @r#"
    error[yaml-unquoted-value]: a value that begins with `*` must be quoted
     --> test.yaml:2:9
      |
    2 |   cron: */5 8-16 * * 1-5
      |         ^^^^^^^^^^^^^^^^ YAML reads this as an alias
      |
    help: write it like this
      |
    2 -   cron: */5 8-16 * * 1-5
    2 +   cron: "*/5 8-16 * * 1-5"
      |
    "#);
    corrected("cron: */5 8-16 * * 1-5 # often\n", "cron: \"*/5 8-16 * * 1-5\" # often\n");
    corrected("cron: * * * * *\n", "cron: \"* * * * *\"\n");
    corrected("{cron: * * * * *}\n", "{cron: \"* * * * *\"}\n");
    check("cron: */5 * * * *\n", &[("yaml-unquoted-value", 1, 7)]);
}

#[test]
fn an_alias_needs_its_anchor() {
    check("a: *nobody\nb: *nothing\n", &[("yaml-unknown-anchor", 1, 4), ("yaml-unknown-anchor", 2, 4)]);
    check("a: &x [*x]\n", &[("yaml-alias-loop", 1, 8)]);
}

#[test]
fn an_unquoted_expression_inside_brackets_gets_a_fix() {
    insta::assert_snapshot!(rendered("with: {title: Order ${{ trigger.id }}, x: 1}\n"), @r#"
    error[yaml-unquoted-expression]: inside `{ }` or `[ ]` an expression must be quoted
     --> test.yaml:1:15
      |
    1 | with: {title: Order ${{ trigger.id }}, x: 1}
      |               ^^^^^^^^^^^^^^^^^^^^^^^ YAML reads these braces as a mapping
      |
    help: write it like this
      |
    1 - with: {title: Order ${{ trigger.id }}, x: 1}
    1 + with: {title: "Order ${{ trigger.id }}", x: 1}
      |
    "#);
    corrected("a: {b: ${{ x }}}\n", "a: {b: \"${{ x }}\"}\n");
    corrected("a: [1, ${{ x['y'] ~ \"z\" }} end, 2]\n", "a: [1, '${{ x[''y''] ~ \"z\" }} end', 2]\n");
    corrected("a: [${{ f(1, 2) }}]\n", "a: [\"${{ f(1, 2) }}\"]\n");
    check("a: [${{\n x }}]\n", &[("yaml-unquoted-expression", 1, 5)]);
}

#[test]
fn braces_without_a_dollar_get_a_fix() {
    corrected("a: {{ x }}\n", "a: \"${{ x }}\"\n");
    corrected("a: [{{ x }}]\n", "a: [\"${{ x }}\"]\n");
    check("a: {{ x }}\n", &[("yaml-unquoted-expression", 1, 4)]);
}

#[test]
fn a_tab_as_indentation_is_rejected() {
    check("a:\n\tb: 1\n", &[("yaml-tab", 2, 1)]);
    check("a:\n  - x\n\t- y\n", &[("yaml-tab", 3, 1)]);
}

#[test]
fn a_merge_key_is_rejected_with_an_alternative() {
    check("a: &x {k: 1}\nb:\n  <<: *x\n  c: 2\n", &[("yaml-merge-key", 3, 3)]);
    tree("\"<<\": 1\n");
}

#[test]
fn only_core_tags_are_accepted() {
    check(
        "a: !secret x\nb: !!int x\nc: !!set {}\nd: !!str [a]\n",
        &[("yaml-tag", 1, 4), ("yaml-tag", 2, 4), ("yaml-tag", 3, 4), ("yaml-tag", 4, 4)],
    );
    assert!(rendered("a: !secret x\n").contains("${{ secrets.name }}"));
    tree("a: !!map {}\nb: !!seq []\nc: !!null\nd: !!float 1\n");
}

#[test]
fn numbers_that_json_cannot_hold_are_refused() {
    check(
        "a: 99999999999999999999\nb: .inf\nc: 1e999\n",
        &[("yaml-number", 1, 4), ("yaml-number", 2, 4), ("yaml-number", 3, 4)],
    );
    corrected("id: 99999999999999999999\n", "id: \"99999999999999999999\"\n");
}

#[test]
fn values_that_need_quotes_are_reported() {
    corrected("a: x: y\n", "a: \"x: y\"\n");
    corrected("a: ${{ x }} and y: z # why\n", "a: \"${{ x }} and y: z\" # why\n");
    corrected("a: @home\n", "a: \"@home\"\n");
    corrected("a: `x`\n", "a: \"`x`\"\n");
    corrected("a: %x\n", "a: \"%x\"\n");
}

#[test]
fn an_unclosed_quote_or_bracket_is_reported_where_it_opens() {
    check("a: 1\nb: 'x\nc: 2\n", &[("yaml-unclosed", 2, 4)]);
    check("a: 1\nb: \"x\n", &[("yaml-unclosed", 2, 4)]);
    check("a: [1, 2\nb: 3\n", &[("yaml-unclosed", 1, 4)]);
    check("a: {b: 1\n", &[("yaml-unclosed", 1, 4)]);
}

#[test]
fn misindented_lines_are_reported_at_their_position() {
    check("a:\n    - b\n  - c\n", &[("yaml-indentation", 3, 3)]);
    check("a: 1\n b: 2\n", &[("yaml-indentation", 2, 2)]);
    check("a: 1\nb\nc: 2\n", &[("yaml-indentation", 2, 1)]);
    check("a: - b\n", &[("yaml-syntax", 1, 4)]);
    check("a: \"x\" y\n", &[("yaml-unquoted-value", 1, 4)]);
    check("%YAML 1.1\n---\na: 1\n", &[("yaml-directive", 1, 1)]);
}

#[test]
fn every_problem_of_a_readable_file_is_reported_at_once() {
    check(
        "a: 1\na: 2\n3: x\nb: *no\nc: !t x\n",
        &[
            ("yaml-duplicate-key", 2, 1),
            ("yaml-key", 3, 1),
            ("yaml-unknown-anchor", 4, 4),
            ("yaml-tag", 5, 4),
        ],
    );
}
