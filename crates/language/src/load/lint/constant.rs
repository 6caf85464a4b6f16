//! Constant conditions: a comparison of two literals, `x == 'a' or 'b'`, a bare `true`.

use expression::{Constant, Expression};
use text::diagnostic::{Diagnostic, Diagnostics, Severity, Span};
use text::yaml::Node;

const CODE: &str = "constant-condition";

/// Checks the condition under a key, or the value of a `switch`.
pub(in crate::load) fn check(expression: &Expression, node: &Node, key: &str, diagnostics: &Diagnostics) {
    let is_switch = key == "switch";
    for part in expression.constants() {
        let whole = part.at == (0..expression.text().len());
        let span = if whole { expression.span() } else { place(expression, node, &part) };
        let diagnostic = match part.forces {
            _ if is_switch && !whole => continue,
            Some(_) if is_switch => same_case(span),
            Some(_) if whole && quoted_path(expression.text()).is_some() => {
                in_quotes(expression.text(), span)
            }
            Some(holds) if whole => same(key, holds, node.as_bool().is_some(), span),
            Some(holds) => decided(expression, &part, holds, span),
            None => idle(expression, &part, span),
        };
        diagnostics.push(diagnostic);
    }
}

/// The span of a part of an expression, if it occurs verbatim in the file.
fn place(expression: &Expression, node: &Node, part: &Constant) -> Span {
    let Some(text) = node.as_text() else { return expression.span() };
    match text.value.find(expression.text()) {
        Some(at) => text.locate_span(at + part.at.start, at + part.at.end),
        None => expression.span(),
    }
}

/// A condition without names. A plain `true` or `false` is a deliberate switch.
fn same(key: &str, holds: bool, is_switch: bool, span: Span) -> Diagnostic {
    let severity = if is_switch { Severity::Hint } else { Severity::Warning };
    let always = if holds { "always" } else { "never" };
    let help = match (key, holds) {
        ("until", true) => "the loop has one iteration: compare with a result of the iteration",
        ("until", false) => {
            "the loop has `max` iterations: remove `until`, or compare with a result of the iteration"
        }
        _ => {
            "compare with something that is read, such as `trigger.results` or `steps.<id>.results`; or leave it out"
        }
    };
    Diagnostic::new(severity, CODE, format!("this condition {always} holds: it reads nothing"), span)
        .help(help)
}

/// The quoted path of a condition such as `'inputs.flag'`.
fn quoted_path(text: &str) -> Option<&str> {
    let inside = text.strip_prefix('\'')?.strip_suffix('\'')?;
    let (root, _) = inside.split_once('.')?;
    let is_path = inside.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._".contains(&byte));
    (is_path && ["configVars", "inputs", "state", "steps", "trigger", "vars"].contains(&root))
        .then_some(inside)
}

fn in_quotes(text: &str, span: Span) -> Diagnostic {
    let path = text.trim_matches('\'');
    Diagnostic::warning(
        CODE,
        "this condition always holds: in quotes this is a text, which reads nothing",
        span,
    )
    .help(format!("write it without the quotes: `{path}`"))
}

fn same_case(span: Span) -> Diagnostic {
    Diagnostic::warning(CODE, "the same case is taken each time: this reads nothing", span)
        .help("name what the cases are told by, such as `trigger.results.body.data.kind`")
}

/// The `'b'` of `x == 'a' or 'b'`.
fn decided(expression: &Expression, part: &Constant, holds: bool, span: Span) -> Diagnostic {
    let text = &expression.text()[part.at.clone()];
    let (always, own) = (if holds { "always" } else { "never" }, if part.holds { "always" } else { "never" });
    let message = format!("the whole condition {always} holds, because `{text}` {own} does");
    Diagnostic::warning(CODE, message, span).help(compare(text))
}

/// The `'b'` of `x != 'a' and 'b'`.
fn idle(expression: &Expression, part: &Constant, span: Span) -> Diagnostic {
    let text = &expression.text()[part.at.clone()];
    let always = if part.holds { "always" } else { "never" };
    Diagnostic::warning(CODE, format!("`{text}` {always} holds, so it changes nothing"), span)
        .help(compare(text))
}

fn compare(text: &str) -> &'static str {
    if text.starts_with(['\'', '"']) {
        "each side of `and` and `or` is a condition of its own: write `x == 'a' or x == 'b'`, or `x in ['a', 'b']`"
    } else {
        "remove it, or compare with something that is read"
    }
}
