//! `switch` with `cases` and `default`: branches by a value.

use super::VerbRow;
use super::reader::StepReader;
use crate::automation::{Named, SwitchStep, Verb};
use crate::diagnostic::Diagnostic;
use crate::load::keys::{ANY_NAME, Key, Shape};
use crate::load::text::shorten;

pub(super) static SWITCH: VerbRow = VerbRow {
    word: "switch",
    what: "a `switch` step",
    about: "Branches by a value. Its result is that of the last step of the branch taken, else null.",
    marks: &["switch"],
    keys: &[
        Key::required(
            "switch",
            Shape::Expression,
            "What decides: an expression, without `${{ }}` around it. Its value is compared as text.",
        ),
        Key::required(
            "cases",
            Shape::SomeNamed(ANY_NAME, &Shape::Steps),
            "The lists of steps by the value that each is for: `{paid: [steps], open: [steps]}`.",
        ),
        Key::new("default", Shape::Steps, "The steps that run where no case fits."),
    ],
    lower,
};

fn lower(step: &mut StepReader<'_, '_, '_>) -> Option<Verb> {
    let value = step.expression("switch").unwrap_or_else(|| step.unreadable("switch"));
    let cases = step.cases("cases");
    if cases.is_none() {
        step.note("verb");
    }
    let cases = cases.unwrap_or_default();
    let default = step.block("default");
    let same = |case: &Named, other: &Named| case.name == other.name;
    for (index, (case, _)) in cases.iter().enumerate() {
        if let Some((first, _)) = cases[..index].iter().find(|(other, _)| same(case, other)) {
            let message = format!("the case `{}` is there twice", shorten(&case.name));
            step.diagnostics().push(
                Diagnostic::error("duplicate-case", message, case.span)
                    .related(first.span, "the first one")
                    .help("values are compared as text; make one list of both"),
            );
        }
    }
    Some(Verb::Switch(SwitchStep { value, cases, default }))
}
