//! Checks what triggers give the inputs of their automation, and the ids of triggers that expressions name.

use std::ops::Range;

use expression::{Expression, Reference};
use language::load::Unreadable;
use model::automation::{Automation, DeclaredTrigger, Trigger, TriggerId};
use text::diagnostic::{Diagnostic, Span};
use value::Value;

use super::actions::GivenInputs;

/// Checks `inputs` of each trigger against the declared inputs.
pub(super) fn check(automation: &Automation, unreadable: &Unreadable) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    if unreadable.has("inputs") || unreadable.has("trigger") {
        return found;
    }
    for trigger in &automation.triggers {
        given(automation, trigger, &mut found);
    }
    found
}

fn given(automation: &Automation, trigger: &DeclaredTrigger, found: &mut Vec<Diagnostic>) {
    let is_manual = matches!(trigger.on, Trigger::Manual);
    // An only trigger without `inputs` gives none: a file of level 1 loads as before.
    if trigger.inputs.is_none() && (is_manual || automation.triggers.len() == 1) {
        return;
    }
    let (with, place) = match &trigger.inputs {
        Some((with, span)) => (with.as_slice(), *span),
        None => (&[][..], trigger.span),
    };
    GivenInputs {
        source: &automation.source,
        callee: automation.id.as_str(),
        inputs: &automation.inputs,
        with,
        key: "inputs",
        place,
        // A person gives the others.
        unread: is_manual,
    }
    .check(found);
}

/// Reports the comparisons of `trigger.id` with a text that is the id of no trigger.
pub(super) fn unknown_ids(
    automation: &Automation,
    expression: &Expression,
    span: impl Fn(Range<usize>) -> Span,
    found: &mut Vec<Diagnostic>,
) {
    let is_id = |path: &Reference| {
        matches!(&*path.path, [root, name] if root == "trigger" && name == "id") && path.suffix.is_empty()
    };
    for compared in expression.comparisons() {
        let [left, right] = &compared.operands;
        for (path, other) in [(left, right), (right, left)] {
            if !path.path.as_ref().is_some_and(is_id) {
                continue;
            }
            for text in other.literals.iter().flatten().filter_map(Value::as_str) {
                let known = TriggerId::parse(text).is_some_and(|id| automation.trigger(&id).is_some());
                if known {
                    continue;
                }
                let ids = automation.triggers.iter().map(|trigger| trigger.id.as_str());
                let message = format!("no trigger of this file has the id `{text}`");
                found.push(
                    Diagnostic::error("unknown-trigger", message, span(other.at.clone()))
                        .expected_names(text, ids),
                );
            }
        }
    }
}
