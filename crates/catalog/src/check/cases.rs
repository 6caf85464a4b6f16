//! Finds unreachable `switch` cases if the possible values are known: choices of an input, options of an approval,
//! methods of a webhook, statuses, kinds of errors.

use expression::Expression;
use model::automation::{Block, ConditionCase, SpannedName, SwitchCases, SwitchStep};
use text::diagnostic::Diagnostic;

use super::results::Words;

/// Names that other languages use for the default case.
const OTHERWISE: [&str; 5] = ["default", "else", "otherwise", "_", "*"];

/// Checks the cases of a `switch`. `words` returns the texts that a value can be; `None` if it can be any text.
pub(super) fn check<'a>(
    switch: &'a SwitchStep,
    words: impl FnOnce(&'a Expression) -> Option<Words>,
) -> Vec<Diagnostic> {
    match &switch.cases {
        SwitchCases::Values { value, cases } => by_value(switch, value, cases, words),
        SwitchCases::Conditions(cases) => behind_true(switch, cases).into_iter().collect(),
    }
}

/// Warns of the first case behind a condition that is always true, or of `default` there.
fn behind_true(switch: &SwitchStep, cases: &[ConditionCase]) -> Option<Diagnostic> {
    let position = cases.iter().position(|case| is_always_true(&case.condition))?;
    let default = switch.default.as_ref().and_then(|block| block.steps.first());
    let behind = cases.get(position + 1).map(|case| case.span).or(default.map(|step| step.span))?;
    let message = "this case is never taken: a condition before it is always true";
    Some(
        Diagnostic::warning("unreachable-case", message, behind)
            .related(cases[position].condition.span(), "always true")
            .help("move the case up, or write the steps of the last case below `default`"),
    )
}

fn is_always_true(condition: &Expression) -> bool {
    condition.constants().iter().any(|part| part.forces == Some(true))
}

fn by_value<'a>(
    switch: &SwitchStep,
    value: &'a Expression,
    cases: &[(SpannedName, Block)],
    words: impl FnOnce(&'a Expression) -> Option<Words>,
) -> Vec<Diagnostic> {
    let conditions: Vec<Diagnostic> = cases.iter().filter_map(|(name, _)| condition(name)).collect();
    if !conditions.is_empty() {
        return conditions;
    }
    let Some(words) = words(value) else { return otherwise(switch, cases).into_iter().collect() };
    let mut found = Vec::new();
    let is_wrong = |name: &str| !words.has(name) && (words.is_closed || words.nearest(name).is_some());
    for (name, _) in cases.iter().filter(|(name, _)| is_wrong(&name.name)) {
        let message = format!("`{}` is never `{}`, so this case is never taken", value.text(), name.name);
        let diagnostic = Diagnostic::warning("unreachable-case", message, name.span);
        let has_case = |text: &str| cases.iter().any(|(other, _)| other.name == text);
        let texts = words.texts.iter().map(String::as_str);
        let near = text::diagnostic::nearest(&name.name, texts.clone().filter(|text| !has_case(text)));
        found.push(diagnostic.allowed(texts).nearest(near));
    }
    if !words.is_closed {
        found.extend(otherwise(switch, cases));
        return found;
    }
    let is_case = |value: &String| cases.iter().any(|(name, _)| name.name == *value);
    let first = switch.default.as_ref().and_then(|block| block.steps.first());
    let has_all = !words.may_be_null && !words.is_foreign && words.texts.iter().all(is_case);
    if let Some(step) = first.filter(|_| has_all) {
        let message = "`default` is never taken: there is a case for each value";
        found.push(Diagnostic::hint("unreachable-case", message, step.span).help("remove it"));
    }
    found
}

/// Warns of a case that is written as a condition: `> 10`.
fn condition(name: &SpannedName) -> Option<Diagnostic> {
    let sign = ["==", "!=", "<=", ">=", "<", ">"].into_iter().find(|sign| name.name.starts_with(sign))?;
    let value = name.name.strip_prefix(sign)?.trim();
    let is_value = value.parse::<f64>().is_ok() || value.starts_with(['\'', '"']);
    let message = format!("this case is for the text `{}`: a case is a value, not a condition", name.name);
    is_value.then(|| {
        Diagnostic::warning("unreachable-case", message, name.span)
            .help("write a list of conditions: `switch: [{if: condition, then: [steps]}]`")
    })
}

/// Warns of a case that is named like a default case.
fn otherwise(switch: &SwitchStep, cases: &[(SpannedName, Block)]) -> Option<Diagnostic> {
    let (name, _) = cases.iter().find(|(name, _)| OTHERWISE.contains(&name.name.as_str()))?;
    let message = format!("this case is for the text `{}`, not for what fits no other case", name.name);
    switch.default.is_none().then(|| {
        Diagnostic::warning("unreachable-case", message, name.span)
            .help("write `default:` with these steps beside `cases`")
    })
}
