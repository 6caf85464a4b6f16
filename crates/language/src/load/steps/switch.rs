//! `switch` with `cases` and `default`: branches by a value.

use model::automation::{SwitchStep, Verb};
use text::diagnostic::{Diagnostic, Source};
use text::yaml::Node;

use super::VerbSpec;
use super::reader::StepReader;
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
    let listed = step.take("cases").node().filter(|node| node.as_list().is_some());
    if let Some(node) = listed {
        step.diagnostics().push(list_of_cases(node, step.diagnostics().source()));
        step.unreadable().note_names(node);
    }
    let cases = if listed.is_some() { None } else { step.cases("cases") };
    if cases.is_none() {
        step.note("verb");
    }
    let cases = cases.unwrap_or_default();
    let default = step.block("default");
    Some(Verb::Switch(SwitchStep { value, cases, default }))
}

/// The diagnostic for `cases: [{value: a, steps: []}]`.
fn list_of_cases(node: &Node, source: &Source) -> Diagnostic {
    let message = "expected a mapping for `cases`, found a list";
    let cases = node.as_list().unwrap_or_default().iter().map(|item| case(item, source));
    let meant = cases.collect::<Option<Vec<_>>>().map(|cases| format!("{{{}}}", cases.join(", ")));
    Diagnostic::error("wrong-type", message, node.head())
        .help("name each list of steps by its value: `cases: {paid: [steps], open: [steps]}`")
        .replacement(meant.map(|meant| (node.span, meant)))
}

/// `{value: a, steps: []}` as `a: []`.
fn case(item: &Node, source: &Source) -> Option<String> {
    const VALUES: [&str; 5] = ["value", "case", "when", "equals", "is"];
    const STEPS: [&str; 3] = ["steps", "then", "do"];
    let map = item.as_map().filter(|map| map.len() == 2)?;
    let one_line = |keys: &[&str]| {
        let entry = map.iter().find(|entry| keys.contains(&entry.key.as_str()))?;
        Some(source.slice(entry.value.span)).filter(|text| !text.contains(['\n', '\r']))
    };
    let (value, steps) = (one_line(&VALUES)?, one_line(&STEPS)?);
    let is_plain = !value.is_empty() && value.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'));
    (is_plain && steps.starts_with('[')).then(|| format!("{value}: {steps}"))
}
