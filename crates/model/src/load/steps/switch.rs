//! `switch` with `cases` and `default`: branches by a value.

use super::VerbRow;
use super::reader::StepReader;
use crate::automation::{SwitchStep, Verb};
use crate::load::keys::{ANY_NAME, Key, Shape};

pub(super) static SWITCH: VerbRow = VerbRow {
    word: "switch",
    what: "a `switch` step",
    about: "Branches by a value. Its result is that of the last step of the branch that ran, or null.",
    marks: &["switch"],
    keys: &[
        Key::required(
            "switch",
            Shape::Expression,
            "An expression, without `${{ }}`. Its value is compared as text.",
        ),
        Key::required(
            "cases",
            Shape::SomeNamed(ANY_NAME, &Shape::Steps),
            "The lists of steps by value: `{paid: [steps], open: [steps]}`.",
        ),
        Key::new("default", Shape::Steps, "The steps that run if no case matches."),
    ],
    lower,
};

fn lower(step: &mut StepReader<'_, '_, '_>) -> Option<Verb> {
    let value = step.condition("switch").unwrap_or_else(|| step.unreadable("switch"));
    let cases = step.cases("cases");
    if cases.is_none() {
        step.note("verb");
    }
    let cases = cases.unwrap_or_default();
    let default = step.block("default");
    Some(Verb::Switch(SwitchStep { value, cases, default }))
}
