//! Finds comparisons that can never hold because of the types: a boolean with `'true'`, a number with `'200'`, a
//! choice with a text that is not an option. Code: `never-equal`.

use expression::{ComparisonSite, Expression, Operand, Reference};
use model::ResultType;
use text::diagnostic::{Diagnostic, Span};
use value::Value;

use super::{describe, path_text};

/// Warns if a comparison with a value of this type can never hold.
pub(super) fn never(
    expression: &Expression,
    compared: &ComparisonSite,
    kind: &dyn Fn(&Reference) -> ResultType,
    span: Span,
) -> Option<Diagnostic> {
    let [left, right] = &compared.operands;
    let (path, literals) = match (left, right) {
        (Operand { path: Some(path), .. }, Operand { literals: Some(literals), .. }) => (path, literals),
        (Operand { literals: Some(literals), .. }, Operand { path: Some(path), .. })
            if !compared.is_containment =>
        {
            (path, literals)
        }
        _ => return None,
    };
    // Searching a text for a text is not a list test.
    let is_list = compared.is_containment
        && matches!(right.literals.as_deref(), Some([_]) if !is_collection(expression, right));
    let kind = kind(path);
    if literals.is_empty() || is_list || !literals.iter().all(|literal| !may_equal(&kind, literal)) {
        return None;
    }
    let links: Vec<_> = path.links().collect();
    let (name, values) = (path_text(&links), shown(literals));
    let holds = if compared.negated { "always holds" } else { "never holds" };
    let message = format!("this comparison {holds}: {name} is {}, never {values}", describe(&kind));
    let diagnostic = Diagnostic::warning("never-equal", message, span);
    Some(match way_out(&kind, literals, name.trim_matches('`'), compared.negated) {
        Some(help) => diagnostic.help(help),
        None => diagnostic.help("compare with a value that it can have"),
    })
}

/// Returns true if an operand is written as a list or a map.
pub(super) fn is_collection(expression: &Expression, side: &Operand) -> bool {
    let text = expression.text().get(side.at.clone()).unwrap_or_default();
    text.trim_start().starts_with(['[', '{'])
}

/// Returns true if a value of the type can equal the literal. Unknown types can equal anything.
fn may_equal(kind: &ResultType, literal: &Value) -> bool {
    kind.alternatives().iter().any(|kind| match (kind, literal) {
        (ResultType::Any | ResultType::File, _) | (_, Value::Null) => true,
        (ResultType::Null, _) => false,
        (ResultType::Boolean | ResultType::Integer | ResultType::Number, literal) => {
            matches!(literal, Value::Bool(_) | Value::Number(_))
        }
        (ResultType::Choice { options }, Value::String(text)) => {
            options.iter().any(|option| **option == **text)
        }
        (ResultType::Text, literal) => matches!(literal, Value::String(_)),
        (ResultType::List { .. }, literal) => matches!(literal, Value::List(_)),
        (ResultType::Map { .. } | ResultType::Object(_), literal) => matches!(literal, Value::Map(_)),
        _ => false,
    })
}

fn way_out(kind: &ResultType, literals: &[Value], name: &str, negated: bool) -> Option<String> {
    let is = |wanted: fn(&ResultType) -> bool| {
        let mut kinds = kind.alternatives().iter().filter(|kind| **kind != ResultType::Null).peekable();
        kinds.peek().is_some() && kinds.all(wanted)
    };
    let text = match literals {
        [Value::String(text)] => text.as_ref(),
        _ => "",
    };
    if is(|kind| *kind == ResultType::Boolean) {
        let yes = matches!(text.to_ascii_lowercase().as_str(), "true" | "yes" | "on" | "1") != negated;
        let plain = if yes { name.to_owned() } else { format!("not {name}") };
        return Some(format!("it is a truth value, not a text: write `{plain}`"));
    }
    if is(|kind| matches!(kind, ResultType::Integer | ResultType::Number)) && text.parse::<f64>().is_ok() {
        return Some(format!("it is a number, not a text: write `{text}` without quotes"));
    }
    let mut options: Vec<String> = Vec::new();
    for kind in kind.alternatives() {
        if let ResultType::Choice { options: more } = kind {
            options.extend(more.iter().map(|option| format!("`'{option}'`")));
        }
    }
    if !options.is_empty() {
        return Some(format!("it can be {}", options.join(", ")));
    }
    let is_scalar = literals.iter().all(|literal| matches!(literal, Value::Number(_) | Value::Bool(_)));
    if is_scalar && is_textual(kind) {
        let quoted: Vec<String> =
            literals.iter().map(|literal| format!("`'{}'`", literal.to_text())).collect();
        return Some(format!("it is text: write {} with quotes", quoted.join(", ")));
    }
    None
}

/// Returns true if each value of the type that is not null is a text, or a list of texts in the place of one.
pub(super) fn is_textual(kind: &ResultType) -> bool {
    let is_text = |kind: &ResultType| matches!(kind, ResultType::Text | ResultType::Choice { .. });
    let is_texts = |kind: &ResultType| matches!(kind, ResultType::List { items } if is_text(items));
    let kinds = kind.alternatives();
    kinds.iter().any(is_text)
        && kinds.iter().all(|kind| is_text(kind) || is_texts(kind) || *kind == ResultType::Null)
}

fn shown(literals: &[Value]) -> String {
    let all: Vec<String> = literals
        .iter()
        .take(4)
        .map(|literal| match literal {
            Value::String(text) => format!("the text `{}`", text::truncate(text, 40)),
            other => format!("`{}`", other.to_text()),
        })
        .collect();
    all.join(" or ")
}
