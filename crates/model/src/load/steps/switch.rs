//! `switch` with `cases` and `default`: branches by a value.

use super::VerbSpec;
use super::reader::StepReader;
use crate::automation::{SwitchStep, Verb};
use crate::diagnostic::Diagnostic;
use crate::load::keys::{ANY_NAME, Key, Shape};

pub(super) static SWITCH: VerbSpec = VerbSpec {
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
            Shape::NonEmptyMapOf(ANY_NAME, &Shape::Steps),
            "The lists of steps by value: `{paid: [steps], open: [steps]}`.",
        ),
        Key::new("default", Shape::Steps, "The steps that run if no case matches."),
    ],
    lower,
};

fn lower(step: &mut StepReader<'_, '_, '_>) -> Option<Verb> {
    let list = step.take("switch").node().filter(|node| node.as_list().is_some());
    if let Some(list) = list {
        step.diagnostics().push(
            Diagnostic::error("wrong-type", "expected an expression for `switch`, found a list", list.head()).help(
                "`switch` tells cases by one value: `switch: expression` with `cases: {value: [steps]}`; for conditions one \
                 after the other, nest them: `if`, `then`, and `else: [{if: …, then: […]}]`",
            ),
        );
        step.unreadable().note_names(list);
    }
    let value = match list {
        None => step.condition("switch"),
        Some(_) => None,
    };
    let value = value.unwrap_or_else(|| step.placeholder_expression("switch"));
    let cases = step.cases("cases");
    if cases.is_none() {
        step.note("verb");
    }
    let cases = cases.unwrap_or_default();
    let default = step.block("default");
    Some(Verb::Switch(SwitchStep { value, cases, default }))
}
