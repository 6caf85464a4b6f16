//! Diagnostics for values that are missing after a failure or a timeout that the file lets pass, and for variables that only one
//! branch sets.

use std::collections::HashSet;

use expression::Expression;
use model::automation::{Automation, OnError, OnTimeout, Step, Verb};
use text::diagnostic::{Diagnostic, Span};

use super::step_order::Uncertainty;
use super::{Checker, PathRead};

/// Collects the steps whose outcome a condition of the file asks for: `steps.a.error`, `steps.a.timedOut`, `steps.a.results`,
/// `steps.a.results.option | default('reject')`.
pub(super) fn steps_with_checked_outcome(automation: &Automation) -> HashSet<&str> {
    let mut asked = HashSet::new();
    automation.walk(&mut |step| {
        let mut conditions: Vec<&Expression> = step.guard.iter().collect();
        match &step.verb {
            Verb::If(branch) => conditions.push(&branch.condition),
            Verb::Switch(switch) => conditions.extend(switch.cases.expressions()),
            _ => {}
        }
        conditions.extend(step.verb.nested_blocks().iter().filter_map(|inner| inner.until));
        conditions
            .into_iter()
            .for_each(|condition| asked.extend(outcomes(condition).chain(defaulted(condition))));
    });
    asked
}

/// The steps whose outcome an expression reads.
fn outcomes(expression: &Expression) -> impl Iterator<Item = &str> {
    expression.references().iter().filter_map(|reference| match &*reference.path {
        [root, id, member, rest @ ..] if root == "steps" && (member != "results" || rest.is_empty()) => {
            Some(id.as_str())
        }
        _ => None,
    })
}

/// True if the expression reads `steps.<id>.ok`, the only member of a step that has not succeeded.
pub(super) fn asks_success(expression: &Expression, id: &str) -> bool {
    expression.references().iter().any(|reference| match &*reference.path {
        [root, step, member, ..] => root == "steps" && step.as_str() == id && member == "ok",
        _ => false,
    })
}

/// The steps for whose absent results an expression has another value.
fn defaulted(expression: &Expression) -> impl Iterator<Item = &str> {
    let handled = expression.references().iter().filter(|reference| reference.optional);
    handled.filter_map(|reference| match &*reference.path {
        [root, id, ..] if root == "steps" => Some(id.as_str()),
        _ => None,
    })
}

impl Checker<'_> {
    /// Warns of a field of results that are null after a failure or a timeout, which `continue` lets pass.
    pub(super) fn may_be_null(&self, read: PathRead<'_>, optional: bool) -> Option<Diagnostic> {
        let [_, id, member, field, ..] = read.path else { return None };
        let is_asked = self.asked.contains(id.as_str()) || outcomes(read.expression).any(|asked| asked == id);
        if optional || is_asked || member != "results" {
            return None;
        }
        let mut found: Option<&Step> = None;
        self.automation.walk(&mut |step| {
            if step.id.as_ref() == id.as_str() {
                found = Some(step);
            }
        });
        let step = found?;
        let times_out = matches!(&step.verb, Verb::WaitFor(wait) if wait.on_timeout == OnTimeout::Continue);
        let (reason, condition) = match (&step.on_error, times_out) {
            (_, true) => (
                "may have timed out: with `onTimeout: continue` its results are then null",
                format!("not steps.{id}.timedOut"),
            ),
            (OnError::Continue, _) => (
                "may have failed: with `onError: continue` its results are then null",
                format!("steps.{id}.error is none"),
            ),
            _ => return None,
        };
        let position = read.position(3);
        let message = format!("step `{id}` {reason}, and `{field}` does not exist");
        Some(Diagnostic::warning("may-be-missing", message, position.span).help(format!(
            "ask first: `if: {condition}`; or give a default: `steps.{id}.results.{field}… | default(…)`"
        )))
    }
}

/// Warns of a variable that its only `set` sets in one branch.
pub(super) fn unset_variable(
    name: &str,
    setter: &Step,
    reasons: &[Uncertainty<'_>],
    span: Span,
) -> Option<Diagnostic> {
    let reason = reasons.iter().find_map(|reason| match reason {
        Uncertainty::Condition { expression, holds: true, .. } => {
            Some(format!("only if `{}`", expression.text()))
        }
        Uncertainty::Condition { expression, holds: false, .. } => {
            Some(format!("only if not `{}`", expression.text()))
        }
        Uncertainty::Case(around) => Some(format!("in one case of `{}` only", around.id)),
        Uncertainty::Loop(_) | Uncertainty::OnlyOnError | Uncertainty::Failure | Uncertainty::Begun => None,
    })?;
    let message = format!("`{name}` may not be set: step `{}` sets it {reason}", setter.id);
    Some(
        Diagnostic::warning("may-be-missing", message, span)
            .related(setter.span, format!("`{name}` is set here"))
            .help(format!("set it before too, or give a default: `vars.{name} | default(…)`")),
    )
}
