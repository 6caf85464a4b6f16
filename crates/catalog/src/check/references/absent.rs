//! Diagnostics for step results that are missing or may be missing.

use model::automation::Step;
use text::diagnostic::{Diagnostic, Span};

use super::step_order::{Absence, Uncertainty};

/// Explains why a step has no results, as a predicate for the step's name.
pub(super) fn predicate(why: Absence<'_>) -> String {
    match why {
        Absence::Itself => "is this step itself".to_owned(),
        Absence::Around | Absence::Handled(_) => "contains this one and has not ended".to_owned(),
        Absence::Inside => "is inside this one and starts after it".to_owned(),
        Absence::Later => "runs later".to_owned(),
        Absence::OtherCase => "is in the other branch, and only one of the two runs".to_owned(),
        Absence::SideBySide(name) => format!("runs side by side with this one, in `{name}`"),
        Absence::InCutList(step) => format!("is in a list that `enough` of `{step}` may cut off"),
        Absence::NotWaited(_) => "is not waited for here".to_owned(),
        Absence::OtherList(list) => format!("is in `{list}`, and its results are visible only there"),
    }
}

/// Reports a step whose results are not available.
pub(super) fn missing_results(id: &str, why: Absence<'_>, span: Span) -> Diagnostic {
    let message = format!("step `{id}` has no results yet: it {}", predicate(why));
    let (code, help) = match why {
        Absence::Itself | Absence::Later | Absence::Inside => {
            ("later-step", "read an earlier step, or move this step after it".to_owned())
        }
        Absence::Around => ("later-step", "read the steps inside it that come before this one".to_owned()),
        Absence::Handled(name) => ("later-step", format!("read `{name}`, which says how it ended")),
        Absence::OtherCase => (
            "other-branch",
            "read the step with both branches: its result is that of the one taken".to_owned(),
        ),
        Absence::SideBySide(_) => {
            ("other-branch", "read it after the `parallel` step, when all lists have ended".to_owned())
        }
        Absence::InCutList(step) => (
            "other-branch",
            format!(
                "read `steps.{step}.results`, which has the result of each list, or null where it was cut off"
            ),
        ),
        Absence::OtherList(_) => ("other-branch", "set a variable with `set` before both lists".to_owned()),
        Absence::NotWaited(reader) => {
            ("unwaited-step", format!("add `{id}` to the `needs` of step `{reader}`"))
        }
    };
    Diagnostic::error(code, message, span).help(help)
}

/// Warns of a step whose results may be missing.
pub(super) fn uncertain_results(id: &str, uncertainties: &[Uncertainty<'_>], span: Span) -> Diagnostic {
    let reason = match uncertainties.first() {
        Some(Uncertainty::Condition { expression, holds: true, .. }) => {
            format!("it runs only if `{}`", expression.text())
        }
        Some(Uncertainty::Condition { expression, holds: false, .. }) => {
            format!("it runs only if not `{}`", expression.text())
        }
        Some(Uncertainty::Case(around)) => format!("another case of `{}` may be taken", around.id),
        Some(Uncertainty::Loop(each)) => format!("the loop `{}` may have no iterations", each.id),
        Some(Uncertainty::OnlyOnError) => "it runs only when a step fails".to_owned(),
        Some(Uncertainty::Failure | Uncertainty::Begun) | None => {
            "a step before it may have failed".to_owned()
        }
    };
    let help = match uncertainties.first() {
        Some(Uncertainty::Loop(each)) => {
            format!(
                "read `steps.{}.results`, the list of the iterations' results: `steps.{id}` has that of the last iteration alone, and none where the loop had no iteration; or add `| default(…)`",
                each.id
            )
        }
        _ => format!("give a default: `steps.{id}.results… | default(…)`"),
    };
    Diagnostic::warning("may-be-missing", format!("step `{id}` may not have run: {reason}"), span).help(help)
}

/// Reports the results, or the `error`, of a step that is undone as soon as it has begun.
pub(super) fn results_of_begun(id: &str, is_error: bool, span: Span) -> Diagnostic {
    let what = if is_error { "`error`" } else { "results" };
    let message = format!(
        "step `{id}` may have no {what}: with `when: begun` it is undone also if it failed or was cut off"
    );
    let help = if is_error {
        format!(
            "read `error`, with which the execution failed; `steps.{id}.ok` is true if the step succeeded"
        )
    } else {
        format!(
            "ask first: `if: steps.{id}.ok`; or give a default: `steps.{id}.results… | default(…)`; or name before the step what `undo` needs, with `set`"
        )
    };
    Diagnostic::error("uncertain-results", message, span).help(help)
}

/// Warns of `outputs` that read a step after a `stop`.
pub(super) fn after_stop(id: &str, stop: &Step, span: Span) -> Diagnostic {
    let message = format!(
        "step `{id}` has not run where `stop` ends the execution before it: these `outputs` then fail"
    );
    Diagnostic::warning("may-be-missing", message, span)
        .related(stop.span, "the execution may end here, and `outputs` are evaluated nevertheless")
        .help(format!(
            "give the `stop` a result of its own, `stop: {{result: …}}`, or give a default: `steps.{id}.results… | default(none)`"
        ))
}
