//! `switch`: branches by a value with `cases`, or by a list of conditions.

use std::sync::Arc;

use expression::Expression;
use model::automation::{Block, ConditionCase, SwitchCases, SwitchStep, Verb};
use text::diagnostic::{Diagnostic, Diagnostics, Source, Span};
use text::yaml::Node;

use super::VerbSpec;
use super::reader::StepReader;
use crate::load::common::shorten;
use crate::load::keys::{ANY_NAME, Choice, IDENTIFIER, Key, Object, Shape, is_identifier};
use crate::load::template::condition;

static CASE: Object = Object {
    what: "a case",
    keys: &[
        Key::required("if", Shape::Expression, "The condition: an expression, without `${{ }}`."),
        Key::new(
            "name",
            Shape::Pattern(IDENTIFIER),
            "Its name in the history and in tests, unique in the step. Default: its number, counted from 1.",
        ),
        Key::required("then", Shape::Steps, "The steps that run if it is the first true condition."),
    ],
    choice: Choice::Any,
};

pub(super) static SWITCH: VerbSpec = VerbSpec {
    word: "switch",
    what: "a `switch` step",
    about: "Branches by a value, or by the first true condition of a list. Its result is that of the last step of the branch that ran, or null.",
    marks: &["switch"],
    keys: &[
        Key::required(
            "switch",
            Shape::AnyOf(&[Shape::Expression, Shape::List(&Shape::Object(&CASE))]),
            "An expression, without `${{ }}`, whose value is compared as text with `cases`; or a list of conditions with their steps: `[{if: …, then: [steps]}]`.",
        ),
        Key::new(
            "cases",
            Shape::NonEmptyMapOf(ANY_NAME, &Shape::Steps),
            "The lists of steps by value: `{paid: [steps], open: [steps]}`. Required beside an expression.",
        ),
        Key::new("default", Shape::Steps, "The steps that run if no case matches."),
    ],
    lower,
};

/// Names of cases that the history and tests use otherwise.
const RESERVED: [&str; 2] = ["default", "none"];

fn lower(step: &mut StepReader<'_, '_, '_>) -> Option<Verb> {
    let list = step.take("switch").node().filter(|node| node.as_list().is_some());
    let cases = match list {
        Some(list) => SwitchCases::Conditions(conditions(step, list)),
        None => by_value(step),
    };
    let default = step.block("default");
    Some(Verb::Switch(SwitchStep { cases, default }))
}

fn by_value(step: &mut StepReader<'_, '_, '_>) -> SwitchCases {
    let value = step.condition("switch").unwrap_or_else(|| step.placeholder_expression("switch"));
    step.required("cases");
    let listed = step.take("cases").node().filter(|node| node.as_list().is_some());
    if let Some(node) = listed {
        step.diagnostics().push(list_of_cases(node, step.diagnostics().source()));
        step.unreadable().note_names(node);
    }
    let cases = if listed.is_some() { None } else { step.cases("cases") };
    if cases.is_none() {
        step.note("verb");
    }
    SwitchCases::Values { value, cases: cases.unwrap_or_default() }
}

/// Lowers the list of conditions with their steps.
fn conditions(step: &mut StepReader<'_, '_, '_>, list: &Node) -> Vec<ConditionCase> {
    let diagnostics = step.diagnostics();
    if let Some(cases) = step.take("cases").node() {
        let message = "a list of conditions stands beside `cases`";
        diagnostics.push(
            Diagnostic::error("conflicting-keys", message, step.key_span("switch"))
                .related(step.key_span("cases"), "the cases of a value")
                .help("write the steps below `then` of each condition, and the rest below `default`"),
        );
        step.unreadable().note_names(cases);
    }
    let items = list.as_list().unwrap_or_default();
    if items.is_empty() {
        diagnostics.push(
            Diagnostic::error("empty-steps", "`switch` has no cases", list.span)
                .help("add a case: `{if: condition, then: [steps]}`"),
        );
    }
    let mut cases: Vec<ConditionCase> = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let case = case_of(step, item, index);
        if let Some(first) = cases.iter().find(|first| first.name == case.name) {
            diagnostics.push(
                Diagnostic::error(
                    "duplicate-value",
                    format!("two cases are named `{}`", case.name),
                    case.span,
                )
                .related(first.span, "the first one")
                .help("give each case a name of its own, or none"),
            );
        }
        cases.push(case);
    }
    cases
}

/// Lowers one case, with placeholders for unreadable parts.
fn case_of(step: &mut StepReader<'_, '_, '_>, item: &Node, index: usize) -> ConditionCase {
    let (diagnostics, span) = (step.diagnostics(), item.head());
    let number: Arc<str> = (index + 1).to_string().into();
    let Some(mut reader) = CASE.open(item, diagnostics) else {
        step.note("verb");
        step.unreadable().note_names(item);
        let condition = Expression::placeholder(span);
        return ConditionCase { name: number, span, condition, then: Block::default() };
    };
    let condition = reader.take("if").node().and_then(|node| condition(node, "if", diagnostics));
    let condition = condition.unwrap_or_else(|| {
        step.note("verb");
        Expression::placeholder(span)
    });
    let named = reader.take("name");
    let name = match (named.name(), named.span()) {
        (Some(name), Some(span)) => {
            check_name(name, span, diagnostics);
            name.into()
        }
        _ => number,
    };
    let then = reader.take("then").node().and_then(|node| step.list_of_steps(node, "then"));
    for stranger in reader.unknown_entries() {
        step.unreadable().note_names(&stranger.value);
    }
    reader.finish();
    ConditionCase { name, span, condition, then: then.unwrap_or_default() }
}

fn check_name(name: &str, span: Span, diagnostics: &Diagnostics) {
    if RESERVED.contains(&name) {
        let message = format!("a case cannot be named `{name}`: tests name another branch so");
        diagnostics.push(Diagnostic::error("reserved-name", message, span).help("choose another name"));
    } else if !is_identifier(name) {
        let message = format!("`{}` cannot be the name of a case", shorten(name));
        diagnostics.push(
            Diagnostic::error("invalid-name", message, span)
                .help("use letters, digits and `_`, and begin with a letter"),
        );
    }
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
