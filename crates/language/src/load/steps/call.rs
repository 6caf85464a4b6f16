//! `call`: runs another automation.

use model::automation::{AutomationId, CallStep, Verb};
use text::diagnostic::Diagnostic;

use super::VerbSpec;
use super::reader::StepReader;
use crate::load::common::shorten;
use crate::load::keys::{AUTOMATION_ID, IDENTIFIER, Key, Shape};

pub(super) static CALL: VerbSpec = VerbSpec {
    word: "call",
    what: "a `call` step",
    about: "Runs another automation, which has a `manual` trigger. Its result is that of the other automation.",
    marks: &["call"],
    keys: &[
        Key::required("call", Shape::Pattern(AUTOMATION_ID), "The id of the automation."),
        Key::new(
            "with",
            Shape::MapOf(IDENTIFIER, &Shape::Template),
            "Its inputs. Values may contain `${{ }}`.",
        ),
        Key::new(
            "async",
            Shape::Bool,
            "`true`: do not wait for it; the result is `{executionId}` at once. Default: false.",
        ),
    ],
    lower,
};

fn lower(step: &mut StepReader<'_, '_, '_>) -> Option<Verb> {
    let mut automation = step.text_or_stand_in("call")?;
    if !automation.name.is_empty() && AutomationId::parse(&automation.name).is_none() {
        let message = format!("`{}` is no id of an automation", shorten(&automation.name));
        let diagnostic = Diagnostic::error("invalid-id", message, automation.span)
            .help("an id has lower-case letters, digits and dashes, and begins with a letter or digit");
        // A path names the automation file.
        let file = automation.name.rsplit('/').next().unwrap_or_default();
        let stem = file.strip_suffix(".yaml").or_else(|| file.strip_suffix(".yml")).unwrap_or(file);
        step.diagnostics().push(diagnostic.nearest(AutomationId::suggest(stem).map(|id| id.to_string())));
        step.note("call");
        automation.name.clear();
    }
    let with_span = step.key_span("with");
    let with = step.templates("with");
    if with.is_none() && step.take("with").is_present() {
        step.note("with");
    }
    let detached = step.take("async").bool().unwrap_or(false);
    Some(Verb::Call(CallStep { automation, with: with.unwrap_or_default(), with_span, detached }))
}
