//! `call`: runs another automation.

use model::automation::{AutomationId, CallStep, NameSetting, SpannedName, Verb};
use text::diagnostic::{Diagnostic, Diagnostics};
use text::yaml::Kind;

use super::VerbSpec;
use super::reader::StepReader;
use crate::load::common::shorten;
use crate::load::computed::{CALL as SELECTION, CALL_KEYS};
use crate::load::keys::{AUTOMATION_ID, IDENTIFIER, Key, Shape};

pub(super) static CALL: VerbSpec = VerbSpec {
    word: "call",
    what: "a `call` step",
    about: "Runs another automation, which has a `manual` trigger. Its result is that of the other automation.",
    marks: &["call"],
    keys: &[
        Key::required(
            "call",
            Shape::AnyOf(&[Shape::Pattern(AUTOMATION_ID), Shape::Object(&CALL_KEYS)]),
            "The id of the automation, or `{id, of}`, with an expression for one of several.",
        ),
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
    let automation = automation(step)?;
    let with_span = step.key_span("with");
    let with = step.templates("with");
    if with.is_none() && step.take("with").is_present() {
        step.note("with");
    }
    let detached = step.take("async").bool().unwrap_or(false);
    Some(Verb::Call(CallStep { automation, with: with.unwrap_or_default(), with_span, detached }))
}

/// The id of an automation, or the selection of one; a placeholder if it cannot be read.
fn automation(step: &mut StepReader<'_, '_, '_>) -> Option<NameSetting> {
    let (field, diagnostics) = (step.take("call"), step.diagnostics());
    if let Some((node, Kind::Map(_))) = field.node().map(|node| (node, &node.kind)) {
        return Some(match SELECTION.read(node, diagnostics, |id| is_id(id, diagnostics)) {
            Some(selection) => NameSetting::Selected(Box::new(selection)),
            None => NameSetting::Literal(step.stand_in("call")),
        });
    }
    if SELECTION.refuse_expression(field, diagnostics) {
        return Some(NameSetting::Literal(step.stand_in("call")));
    }
    let mut id = step.text_or_stand_in("call")?;
    if !id.name.is_empty() && !is_id(&id, diagnostics) {
        step.note("call");
        id.name.clear();
    }
    Some(NameSetting::Literal(id))
}

/// True if a name is the id of an automation; otherwise reports it.
fn is_id(id: &SpannedName, diagnostics: &Diagnostics) -> bool {
    if AutomationId::parse(&id.name).is_some() {
        return true;
    }
    let message = format!("`{}` is no id of an automation", shorten(&id.name));
    let diagnostic = Diagnostic::error("invalid-id", message, id.span)
        .help("an id has lower-case letters, digits and dashes, and begins with a letter or digit");
    // A path names the automation file.
    let file = id.name.rsplit('/').next().unwrap_or_default();
    let stem = file.strip_suffix(".yaml").or_else(|| file.strip_suffix(".yml")).unwrap_or(file);
    diagnostics.push(diagnostic.nearest(AutomationId::suggest(stem).map(|id| id.to_string())));
    false
}
