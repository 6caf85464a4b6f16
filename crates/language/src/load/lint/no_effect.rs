//! Settings of steps that can never take effect.

use model::automation::{Step, Verb};
use text::diagnostic::{Diagnostic, Span};
use text::yaml::{Map, Text};

pub(super) const CODE: &str = "unused-setting";

/// The settings of a step that can never take effect. `map` is the step as written, `closing` the key of its list if
/// nothing in that list is ever undone.
pub(super) fn check(map: &Map, step: &Step, closing: Option<&'static str>) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let place = |key: &str| map.entry(key).map(|entry| entry.key_span);
    let mut tell = |key: &str, why: String, help: &str| {
        if let Some(span) = place(key) {
            found.push(no_effect(&format!("`{key}` has no effect: {why}"), span).help(help));
        }
    };
    let word = step.verb.keyword();
    if step.retry.as_ref().is_some_and(|retry| retry.max() > 0) && fails_the_same_way(&step.verb) {
        tell("retry", format!("a `{word}` step that fails would fail the same way again"), "remove it");
    }
    if keeps_nothing_open(&step.verb) {
        tell(
            "onInterrupt",
            format!("a `{word}` step does nothing outside that could be done twice"),
            "remove it",
        );
    }
    if let (Some(_), Some(list)) = (&step.undo, closing) {
        let why = format!("what has run in `{list}` is never undone");
        tell("undo", why, "remove it");
    } else if matches!(step.verb, Verb::Stop { .. } | Verb::Fail(_) | Verb::Break | Verb::Continue { .. }) {
        tell("undo", format!("after a `{word}` step there is nothing to undo"), "remove it");
    }
    found
}

/// A constant concurrency key.
pub(super) fn concurrency_key(text: &Text, span: Span, keys: &[&str]) -> Option<Diagnostic> {
    let is_constant = *keys == ["concurrency", "key"] && !text.value.contains("${{");
    is_constant.then(|| {
        no_effect("`key` has no effect: this text is the same for every execution", span)
            .help("write an expression, such as `${{ trigger.results.body.data.customer }}`, or remove it")
    })
}

fn no_effect(message: &str, span: Span) -> Diagnostic {
    Diagnostic::warning(CODE, message, span)
}

/// True if a verb depends only on its inputs: each attempt has the same result.
fn fails_the_same_way(verb: &Verb) -> bool {
    matches!(
        verb,
        Verb::Set(_)
            | Verb::Wait(_)
            | Verb::Respond(_)
            | Verb::Break
            | Verb::Continue { .. }
            | Verb::Stop { .. }
            | Verb::Fail(_)
    )
}

/// True if a daemon crash cannot interrupt a side effect of the verb that a restart could repeat.
fn keeps_nothing_open(verb: &Verb) -> bool {
    fails_the_same_way(verb) || matches!(verb, Verb::WaitFor(_) | Verb::Code(_))
}
