//! `break` and `continue`: end a loop or an iteration.

use expression::template::Template;
use model::automation::Verb;
use text::diagnostic::Diagnostic;

use super::VerbSpec;
use super::reader::StepReader;
use crate::load::keys::{Choice, Key, Object, Shape};
use crate::load::template::template;

static CONTINUE_KEYS: Object = Object {
    what: "a continue",
    keys: &[Key::new("result", Shape::Template, "The result of the iteration. Default: null.")],
    choice: Choice::Any,
};

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
    about: "Ends the iteration of the innermost loop, and continues with the next one. The result of the iteration is `result`, or null.",
    marks: &["continue"],
    keys: &[Key::required(
        "continue",
        Shape::AnyOf(&[Shape::ConstTrue, Shape::Object(&CONTINUE_KEYS)]),
        "`true`, or `{result: …}` with the result of the iteration; put a condition on it with `if`.",
    )],
    lower: lower_continue,
};

fn lower_continue(step: &mut StepReader<'_, '_, '_>) -> Option<Verb> {
    let diagnostics = step.diagnostics();
    if step.take("continue").node().is_none_or(|node| node.as_map().is_none()) {
        return lower(step, "continue", Verb::Continue { result: Template::null() });
    }
    let mut reader = step.object("continue", &CONTINUE_KEYS)?;
    let result = reader.take("result").node().map_or_else(Template::null, |node| template(node, diagnostics));
    reader.finish();
    Some(Verb::Continue { result })
}

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
