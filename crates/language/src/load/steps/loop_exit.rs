//! `break` and `continue`: end a loop or an iteration.

use model::automation::Verb;
use text::diagnostic::Diagnostic;

use super::VerbSpec;
use super::reader::StepReader;
use crate::load::keys::{Key, Shape};

pub(super) static BREAK: VerbSpec = VerbSpec {
    word: "break",
    what: "a `break` step",
    about: "Ends the innermost loop. The iteration has no result.",
    marks: &["break"],
    keys: &[Key::required("break", Shape::ConstTrue, "Always `true`; put a condition on it with `if`.")],
    lower: |step| lower(step, "break", Verb::Break),
};

pub(super) static CONTINUE: VerbSpec = VerbSpec {
    word: "continue",
    what: "a `continue` step",
    about: "Ends the iteration of the innermost loop, and continues with the next one. The result of the iteration is null.",
    marks: &["continue"],
    keys: &[Key::required("continue", Shape::ConstTrue, "Always `true`; put a condition on it with `if`.")],
    lower: |step| lower(step, "continue", Verb::Continue),
};

fn lower(step: &mut StepReader<'_, '_, '_>, key: &'static str, verb: Verb) -> Option<Verb> {
    let field = step.take(key);
    if field.bool() == Some(false) {
        let message = format!("`{key}: false` does nothing");
        step.diagnostics().push(
            Diagnostic::error("unknown-value", message, field.span().unwrap_or_default())
                .allowed(["true"])
                .help(format!("write `{key}: true`, with `if:` beside it for a condition")),
        );
    }
    Some(verb)
}
