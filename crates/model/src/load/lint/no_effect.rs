//! Settings of steps that can never take effect.

use std::time::Duration;

use crate::automation::{Step, Verb};
use crate::diagnostic::{Diagnostic, Span};
use crate::units::format_duration;
use crate::yaml::Map;

/// The surroundings of a step that decide which of its settings have an effect.
#[derive(Clone, Copy)]
pub(super) struct StepContext {
    /// The longest that the whole execution may take; absent where the list has a time of its own.
    pub(super) timeout: Option<Duration>,
    /// The key of the list that the step is in, where nothing in it is ever undone.
    pub(super) closing: Option<&'static str>,
}

/// The settings of a step that can never take effect. `map` is the step as it is written.
pub(super) fn check(map: &Map, step: &Step, context: StepContext) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let place = |key: &str| map.entry(key).map(|entry| entry.key_span);
    let mut tell = |key: &str, why: String, help: &str| {
        if let Some(span) = place(key) {
            found.push(no_effect(&format!("`{key}` has no effect: {why}"), span).help(help));
        }
    };
    let word = step.verb.keyword();
    if step.retry.as_ref().is_some_and(|retry| retry.max > 0) && fails_the_same_way(&step.verb) {
        tell("retry", format!("a `{word}` step that fails would fail the same way again"), "remove it");
    }
    if keeps_nothing_open(&step.verb) {
        tell(
            "onInterrupt",
            format!("a `{word}` step does nothing outside that could be done twice"),
            "remove it",
        );
    }
    if let (Some(_), Some(list)) = (&step.undo, context.closing) {
        let why = format!("what has run in `{list}` is never undone");
        tell("undo", why, "remove it");
    } else if matches!(step.verb, Verb::Stop { .. } | Verb::Fail { .. } | Verb::Break | Verb::Continue) {
        tell("undo", format!("after a `{word}` step there is nothing to undo"), "remove it");
    }
    if let (Some(own), Some(whole)) = (step.timeout, context.timeout)
        && own > whole
        && !pauses(step)
    {
        let why = format!("the whole execution ends after {}", format_duration(whole));
        tell("timeout", why, "raise `timeout` at the top of the file, or remove this one");
    }
    found
}

fn no_effect(message: &str, span: Span) -> Diagnostic {
    Diagnostic::warning("unused-setting", message, span)
}

/// True if a verb depends on its inputs alone: each attempt has the same result.
fn fails_the_same_way(verb: &Verb) -> bool {
    matches!(
        verb,
        Verb::Set(_)
            | Verb::Wait(_)
            | Verb::Respond(_)
            | Verb::Break
            | Verb::Continue
            | Verb::Stop { .. }
            | Verb::Fail { .. }
    )
}

/// True if a crash of the daemon interrupts no side effect of the verb that a restart could repeat.
fn keeps_nothing_open(verb: &Verb) -> bool {
    fails_the_same_way(verb) || matches!(verb, Verb::WaitFor(_) | Verb::Code(_))
}

/// True if a step may pause. A pause counts towards the timeout of the step, not towards that of the execution.
fn pauses(step: &Step) -> bool {
    let pauses =
        |verb: &Verb| matches!(verb, Verb::Wait(_) | Verb::WaitFor(_) | Verb::Call(_) | Verb::Repeat(_));
    let mut found = pauses(&step.verb);
    for inner in step.verb.nested_blocks() {
        inner.block.walk(&mut |step| found |= pauses(&step.verb));
    }
    found
}
