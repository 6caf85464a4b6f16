//! The kinds of errors that authors choose: given by `fail` steps, and compared with the kinds of errors.

use std::collections::BTreeSet;

use expression::{Expression, Reference};
use model::action::ErrorKind;
use model::automation::{Automation, Verb};
use value::Value;

/// Returns the member of an error that a path reads, such as `kind`; `None` for other paths.
pub(super) fn error_member(read: &Reference) -> Option<&str> {
    let names: Vec<&str> = read.path.iter().map(|name| name.as_str()).collect();
    let member = match *names.as_slice() {
        ["error", member]
        | ["outcome", "error", member]
        | ["steps", _, "error", member]
        | ["trigger", "results", "error", member] => member,
        _ => return None,
    };
    read.suffix.is_empty().then_some(member)
}

/// Returns the kinds that the `fail` steps of a file give to their errors.
pub(super) fn given(automation: &Automation) -> Vec<&str> {
    let mut kinds = Vec::new();
    automation.walk(&mut |step| {
        if let Verb::Fail(fail) = &step.verb
            && let Some(ErrorKind::Custom(kind)) = &fail.kind
        {
            kinds.push(&**kind);
        }
    });
    kinds
}

/// Returns the kinds, without the engine's own, that a file compares with the kind of an error.
pub(super) fn compared(automation: &Automation) -> BTreeSet<String> {
    let mut kinds = BTreeSet::new();
    // Parsing each expression again takes long.
    if !automation.source.text().contains("error.kind") {
        return kinds;
    }
    let mut note = |expression: &Expression| {
        for compared in expression.comparisons() {
            let [left, right] = &compared.operands;
            for (value, other) in [(left, right), (right, left)] {
                if value.path.as_ref().and_then(error_member) == Some("kind") {
                    let texts = other.literals.iter().flatten().filter_map(Value::as_str);
                    kinds.extend(texts.filter(|text| !ErrorKind::NAMES.contains(text)).map(str::to_owned));
                }
            }
        }
    };
    automation.walk(&mut |step| step.expressions(&mut note));
    kinds
}
