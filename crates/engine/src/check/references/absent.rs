//! Diagnostics for step results that are missing or may be missing.

use model::automation::Step;
use model::diagnostic::{Diagnostic, Span};

use super::places::{Absence, Uncertainty};

/// Explains why a step has no results, as a predicate for the step's name.
pub(super) fn predicate(why: Absence<'_>) -> String {
    match why {
        Absence::Itself => "is this step itself".to_owned(),
        Absence::Around => "is around this one and has not ended".to_owned(),
        Absence::Inside => "is inside this one, which begins before it".to_owned(),
        Absence::Later => "runs later".to_owned(),
        Absence::OtherCase => "is in the other branch, and only one of the two runs".to_owned(),
        Absence::SideBySide(name) => format!("runs side by side with this one, in `{name}`"),
        Absence::NotWaited(_) => "is not waited for here".to_owned(),
        Absence::OtherList(list) => format!("is in `{list}`, whose results stay there"),
    }
}

/// Reports a step whose results are not available.
pub(super) fn missing_results(id: &str, why: Absence<'_>, span: Span) -> Diagnostic {
    let message = format!("step `{id}` has no results yet: it {}", predicate(why));
    let (code, help) = match why {
        Absence::Itself | Absence::Later | Absence::Inside => {
            ("later-step", "read a step that comes before this one, or move this one behind it".to_owned())
        }
        Absence::Around => ("later-step", "read the steps inside it that come before this one".to_owned()),
        Absence::OtherCase => (
            "other-branch",
            "read the step with both branches: its result is that of the one taken".to_owned(),
        ),
        Absence::SideBySide(_) => {
            ("other-branch", "read it behind the `parallel` step, where all lists have ended".to_owned())
        }
        Absence::OtherList(_) => {
            ("other-branch", "name the value with `set` before it is needed in both".to_owned())
        }
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
        Some(Uncertainty::Case(around)) => format!("another case of `{}` may be the one", around.id),
        Some(Uncertainty::Loop(each)) => format!("the loop `{}` may have no iterations", each.id),
        Some(Uncertainty::OnlyOnError) => "it runs only when a step fails".to_owned(),
        Some(Uncertainty::Failure) | None => "what is before it may have failed".to_owned(),
    };
    let help = match uncertainties.first() {
        Some(Uncertainty::Loop(each)) => {
            format!(
                "read `steps.{}.results`, the list of the iterations' results: `steps.{id}` has that of the last iteration alone, and none where the loop had no iteration; or add `| default(…)`",
                each.id
            )
        }
        _ => format!("say what holds then: `steps.{id}.results… | default(…)`"),
    };
    Diagnostic::warning("may-be-missing", format!("step `{id}` may not have run: {reason}"), span).help(help)
}

/// Warns of `outputs` that read a step after a `stop`.
pub(super) fn after_stop(id: &str, stop: &Step, span: Span) -> Diagnostic {
    let message = format!(
        "step `{id}` has not run where `stop` ends the execution before it: these `outputs` then fail"
    );
    Diagnostic::warning("may-be-missing", message, span)
        .related(stop.span, "it may end here, and `outputs` are read all the same")
        .help(format!(
            "give the `stop` a result of its own, `stop: {{result: …}}`, or say what holds then: `steps.{id}.results… | default(none)`"
        ))
}
