//! Values with expressions, and bare expressions.

use expression::template::Template;
use model::automation::Verb;

use super::{check_step, good, shown};

/// The template of the first variable that the first step sets, in Rust's own words.
fn lowered(value: &str) -> String {
    let automation = good(&format!("trigger: {{manual: {{}}}}\nsteps:\n  - set:\n      a: {value}\n"));
    match &automation.steps.steps[0].verb {
        Verb::Set(values) => match &values[0].1 {
            Template::Literal(value) => format!("literal {}", value.to_json()),
            other => format!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

fn check(value: &str, expected: &str) {
    assert_eq!(lowered(value), expected, "{value}");
}

#[test]
fn a_value_without_expressions_is_a_literal_with_exact_numbers() {
    check("9007199254740993", "literal 9007199254740993");
    check("18446744073709551615", "literal 18446744073709551615");
    check("-0.5", "literal -0.5");
    check("007", "literal \"007\"");
    check("yes", "literal \"yes\"");
    check("true", "literal true");
    check("", "literal null");
    check("{b: [1, {c: null}], d: x}", r#"literal {"b":[1,{"c":null}],"d":"x"}"#);
    check("$${{ x }}", "literal \"${{ x }}\"");
    check("costs $5", "literal \"costs $5\"");
}

#[test]
fn a_text_that_is_one_whole_expression_keeps_its_type() {
    check("${{ steps.a.results }}", "Expression(${{ steps.a.results }})");
    check("'${{a}}'", "Expression(${{ a }})");
    check("\"${{ 'x' }}\"", "Expression(${{ 'x' }})");
    check("\n        ${{ a\n        + 1 }}", "Expression(${{ a + 1 }})");
    check("|-\n        ${{ a }}", "Expression(${{ a }})");
}

#[test]
fn text_around_an_expression_makes_a_text_template() {
    check("n ${{ a }}", "Text([Text(\"n \"), Expression(${{ a }})])");
    check("' ${{ a }}'", "Text([Text(\" \"), Expression(${{ a }})])");
    check("${{ a }}${{ b }}", "Text([Expression(${{ a }}), Expression(${{ b }})])");
}

#[test]
fn lists_and_maps_keep_expressions_in_place() {
    check("[1, '${{ a }}']", "List([Literal(Number(Number(1))), Expression(${{ a }})])");
    check("{x: {y: '${{ a }}'}}", "Map([(\"x\", Map([(\"y\", Expression(${{ a }}))]))])");
}

#[test]
fn a_syntax_error_is_reported_at_its_position() {
    insta::assert_snapshot!(shown("trigger: {manual: {}}\nsteps:\n  - action: log.info\n    with:\n      message: |\n        first\n        Größe ${{ a b }} and\n        ${{ c | }}\n"), @r"
    error[expression-syntax]: this expression cannot be read: unexpected input after expression
     --> test.yaml:7:21
      |
    7 |         Größe ${{ a b }} and
      |                     ^
      |
      = note: in step `step1`

    error[expression-syntax]: this expression cannot be read: unexpected end of input, expected identifier
     --> test.yaml:8:15
      |
    8 |         ${{ c | }}
      |               ^
      |
      = note: in step `step1`
    ");
    check_step("set: {a: \"\\u0041 ${{ b c }}\"}", &["expression-syntax 1:26"]);
    check_step("set: {a: '${{  }}'}", &["expression-syntax 1:16"]);
    check_step("set: {a: '${{ $.a[ }}'}", &["expression-syntax 1:17"]);
}

#[test]
fn an_unclosed_expression_is_rejected() {
    check_step("set: {a: 'x ${{ b }'}", &["unclosed-expression 1:15"]);
    check_step("action: log.info\nif: '${{ b'", &["unclosed-expression 2:8"]);
}

#[test]
fn braces_without_a_dollar_are_a_warning() {
    check_step("set: {a: 'x {{ b }} {{ c }}'}", &["braces-without-dollar 1:15"]);
    check_step("set: {a: \"${{ {'b': {'c': 1}} }}\"}", &[]);
    check_step("set: {a: '$${{ b }}'}", &[]);
    check_step("set: {a: '{{ b'}", &[]);
}

#[test]
fn an_expression_in_a_key_is_rejected() {
    check_step("set: {a: {'${{ b }}': 1}}", &["expression-in-key 1:13"]);
}

#[test]
fn an_expression_followed_by_a_line_break_in_a_block_is_a_hint() {
    check_step("set:\n  a: |\n    ${{ b }}", &["expression-with-line-break 3:11"]);
    check_step("set:\n  a: |\n    x ${{ b }}", &[]);
}

#[test]
fn conditions_are_bare_or_wrapped() {
    for condition in
        ["a", "a == 1 and b", "${{ a == 1 }}", "'${{ a }}'", "$.a[?@.b]", "|\n    ${{ a }}", "|\n    a"]
    {
        check_step(&format!("action: log.info\nif: {condition}"), &[]);
    }
    check_step("action: log.info\nif: true", &["constant-condition 2:7"]);
    check_step("action: log.info\nif: ${{ a }} == 1", &["text-around-expression 2:7"]);
    check_step("action: log.info\nif: ${{ a }}${{ b }}", &["text-around-expression 2:7"]);
    check_step("action: log.info\nif: a ==", &["expression-syntax 2:9"]);
    check_step("action: log.info\nif: ''", &["expression-syntax 2:8"]);
    check_step("action: log.info\nif: [a]", &["wrong-type 2:8"]);
    check_step("action: log.info\nif: 1", &["wrong-type 2:7"]);
    check_step("action: log.info\nif:", &["wrong-type 2:5"]);
}

#[test]
fn a_half_wrapped_condition_gets_a_suggestion() {
    let text = "trigger: {manual: {}}\nsteps:\n  - action: log.info\n    if: ${{ a }} == 1\n";
    assert!(shown(text).contains("write it bare: `if: a == 1`"), "{}", shown(text));
    let text = "trigger: {manual: {}}\nsteps:\n  - if: [1, 2]\n    then: [{action: log.info}]\n";
    assert!(shown(text).contains("write it as an expression: `\"${{ [1,2] }}\"`"), "{}", shown(text));
}
