//! Checks what triggers give the inputs of their automation.

use language::load::Unreadable;
use model::automation::{Automation, DeclaredTrigger, Trigger};
use text::diagnostic::Diagnostic;

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
