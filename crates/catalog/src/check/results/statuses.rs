//! Finds conditions on the status of a successful call that can never hold: an answer of 4xx or 5xx fails the step. Code:
//! `success-status`.

use std::ops::RangeInclusive;

use expression::{DirectPath, Expression, OperationKind, Reference, TypedOperand};
use model::automation::{Automation, OnError, Step, SwitchCases, SwitchStep, Verb};
use text::diagnostic::Diagnostic;
use value::Value;

use super::Checker;

const CODE: &str = "success-status";

/// The statuses of a call that has results.
const SUCCESS: RangeInclusive<i64> = 200..=299;

impl<'a> Checker<'a> {
    /// Checks comparisons of `steps.<id>.results.statusCode` with numbers.
    pub(super) fn statuses(&mut self, expression: &'a Expression, at: Option<&'a Step>) {
        for operation in expression.operations(false) {
            let [left, right] = operation.operands.as_slice() else { continue };
            if !matches!(operation.kind, OperationKind::Order | OperationKind::Equality) {
                continue;
            }
            let between = expression.text().get(left.at.end..right.at.start).unwrap_or_default().trim();
            let Some((path, number, is_left)) = sides(left, right) else { continue };
            let Some(step) = self.call_of(path) else { continue };
            let compare = |status: i64| match (between, is_left) {
                ("==", _) => Some(status == number),
                ("!=", _) => Some(status != number),
                ("<", true) | (">", false) => Some(status < number),
                ("<=", true) | (">=", false) => Some(status <= number),
                (">", true) | ("<", false) => Some(status > number),
                (">=", true) | ("<=", false) => Some(status >= number),
                _ => None,
            };
            let holds: Option<Vec<bool>> = SUCCESS.map(compare).collect();
            let Some(holds) = holds.filter(|holds| holds.iter().all(|one| *one == holds[0])) else {
                continue;
            };
            let span = self.part(expression, operation.at.clone());
            self.report(diagnostic(step, holds[0], span), at);
        }
        for compared in expression.comparisons().into_iter().filter(|compared| compared.is_containment) {
            let [left, right] = &compared.operands;
            let (Some(path), Some(literals)) = (&left.path, &right.literals) else { continue };
            let Some(step) = self.call_of(path) else { continue };
            let fails = |literal: &Value| literal.as_i64().is_some_and(|status| !SUCCESS.contains(&status));
            if !literals.is_empty() && literals.iter().all(fails) {
                let span = self.part(expression, left.at.start..compared.end);
                self.report(diagnostic(step, compared.negated, span), at);
            }
        }
    }

    /// Checks the cases of a `switch` on a status.
    pub(super) fn status_cases(&mut self, switch: &'a SwitchStep, at: &'a Step) {
        let SwitchCases::Values { value, cases } = &switch.cases else { return };
        let Some(DirectPath::One(read)) = value.direct_path() else { return };
        let Some(step) = self.call_of(read) else { return };
        for (name, _) in cases {
            if name.name.parse::<i64>().is_ok_and(|status| !SUCCESS.contains(&status)) {
                self.report(diagnostic(step, false, name.span), Some(at));
            }
        }
    }

    /// The step whose status a path reads, if its results are certainly of a successful call.
    fn call_of(&self, path: &Reference) -> Option<&'a Step> {
        let [root, id, results, field] = &*path.path else { return None };
        if root != "steps" || results != "results" || field != "statusCode" || !path.suffix.is_empty() {
            return None;
        }
        let step = self.types.step_of(id)?;
        let Verb::Action(call) = &step.verb else { return None };
        let name = call.action.name.as_str();
        let is_call = (connector::is_http_call(name) || name.ends_with(".rawRequest"))
            && self.registry.action(name).is_some();
        (is_call && !matches!(step.on_error, OnError::Steps(_))).then_some(step)
    }
}

/// The path, the number, and if the path stands on the left.
fn sides<'o>(left: &'o TypedOperand, right: &'o TypedOperand) -> Option<(&'o Reference, i64, bool)> {
    let number = |operand: &TypedOperand| operand.literal.as_ref().and_then(Value::as_i64);
    match (&left.path, &right.path) {
        (Some(path), None) => Some((path, number(right)?, true)),
        (None, Some(path)) => Some((path, number(left)?, false)),
        _ => None,
    }
}

fn diagnostic(step: &Step, holds: bool, span: text::Span) -> Diagnostic {
    let (id, always) = (&step.id, if holds { "always" } else { "never" });
    let message = format!(
        "this {always} holds: `statusCode` of a call that succeeds is 200 to 299, any other answer fails `{id}`"
    );
    Diagnostic::warning(CODE, message, span).help(format!(
        "add `onError: continue` to `{id}`, and ask for `steps.{id}.error.status | default(0)`; or handle the failure in its `onError`"
    ))
}

/// True if the automation has any step whose status may be read.
pub(super) fn is_relevant(automation: &Automation) -> bool {
    automation.source.text().contains("statusCode")
}
