//! Finds unreachable `switch` cases if the possible values are known: choices of an input, options of an approval,
//! methods of a webhook.

use expression::{DirectPath, Expression};
use model::action::InputType;
use model::automation::{
    Automation, Block, ConditionCase, DeclaredTrigger, SpannedName, SwitchCases, SwitchStep, Trigger, Verb,
    WaitOn,
};
use text::diagnostic::Diagnostic;

/// Names that other languages use for the default case.
const OTHERWISE: [&str; 5] = ["default", "else", "otherwise", "_", "*"];

/// Possible values of an expression.
struct Values {
    texts: Vec<String>,
    /// True if the value may be null.
    may_be_null: bool,
}

/// Checks the cases of each `switch`.
pub(super) fn check(automation: &Automation) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    automation.walk(&mut |step| {
        if let Verb::Switch(switch) = &step.verb {
            let in_switch = cases(automation, switch).into_iter();
            found.extend(in_switch.map(|diagnostic| diagnostic.step(step.id.as_ref())));
        }
    });
    found
}

fn cases(automation: &Automation, switch: &SwitchStep) -> Vec<Diagnostic> {
    match &switch.cases {
        SwitchCases::Values { value, cases } => by_value(automation, switch, value, cases),
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

fn by_value(
    automation: &Automation,
    switch: &SwitchStep,
    value: &Expression,
    cases: &[(SpannedName, Block)],
) -> Vec<Diagnostic> {
    let conditions: Vec<Diagnostic> = cases.iter().filter_map(|(name, _)| condition(name)).collect();
    if !conditions.is_empty() {
        return conditions;
    }
    let Some(values) = values(automation, value) else {
        return otherwise(switch, cases).into_iter().collect();
    };
    let mut found = Vec::new();
    let can_be = |name: &str| values.texts.iter().any(|value| value == name);
    for (name, _) in cases.iter().filter(|(name, _)| !can_be(&name.name)) {
        let message = format!("`{}` is never `{}`, so this case is never taken", value.text(), name.name);
        let diagnostic = Diagnostic::warning("unreachable-case", message, name.span);
        found.push(diagnostic.expected_names(&name.name, values.texts.iter().map(String::as_str)));
    }
    let is_case = |value: &String| cases.iter().any(|(name, _)| name.name == *value);
    let first = switch.default.as_ref().and_then(|block| block.steps.first());
    if let Some(step) = first.filter(|_| !values.may_be_null && values.texts.iter().all(is_case)) {
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

/// Returns the possible values of an expression; `None` if unknown or unlimited.
fn values(automation: &Automation, expression: &Expression) -> Option<Values> {
    let Some(DirectPath::One(read)) = expression.direct_path() else { return None };
    if !read.suffix.is_empty() {
        return None;
    }
    let path: Vec<&str> = read.path.iter().map(|name| name.as_str()).collect();
    match path.as_slice() {
        ["inputs", name] => {
            let input = automation.inputs.iter().find(|input| input.name == *name)?;
            let texts = match &input.kind {
                InputType::Choice { options } => options.clone(),
                InputType::Boolean => ["true", "false"].map(str::to_owned).to_vec(),
                _ => return None,
            };
            Some(Values { texts, may_be_null: !input.required && input.default.is_none() })
        }
        ["trigger", "results", "method"] => match automation.triggers.as_slice() {
            [DeclaredTrigger { on: Trigger::Webhook(webhook), .. }] => {
                Some(Values { texts: webhook.methods.clone(), may_be_null: false })
            }
            _ => None,
        },
        ["trigger", "id"] => {
            let texts = automation.triggers.iter().map(|trigger| trigger.id.to_string()).collect();
            Some(Values { texts, may_be_null: false })
        }
        ["steps", id, "results", "option"] => {
            let mut texts = None;
            automation.walk(&mut |step| {
                if let Verb::WaitFor(wait) = &step.verb
                    && let WaitOn::Approval(approval) = &wait.on
                    && step.id.as_ref() == *id
                {
                    texts = Some(approval.options.clone());
                }
            });
            texts.map(|texts| Values { texts, may_be_null: false })
        }
        _ => None,
    }
}
