//! Warns of values without an `else`: `'x' if flag` has no value where the condition does not hold.

use expression::Expression;
use model::automation::Automation;
use text::diagnostic::{Diagnostic, Span};

/// Checks the expressions of all steps, and of `outputs`.
pub(super) fn check(automation: &Automation) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let mut look = |expression: &Expression, step: Option<&str>| {
        for part in expression.values_without_else() {
            let place = expression.place_in(&automation.source, part);
            let span = place.unwrap_or(expression.span());
            let message = "this has no value where the condition does not hold, and the step then fails";
            let diagnostic = Diagnostic::warning("may-be-missing", message, span)
                .help("add `else`: `a if condition else ''`, or `else none` for no value");
            let fix = text::yaml::replace_at(&automation.source, Span::at(span.end as usize), " else ''");
            let diagnostic = diagnostic.replacement(fix.filter(|_| place.is_some()));
            found.push(step.into_iter().fold(diagnostic, Diagnostic::step));
        }
    };
    automation.walk(&mut |step| step.expressions(&mut |expression| look(expression, Some(&step.id))));
    automation
        .outputs
        .iter()
        .for_each(|outputs| outputs.expressions(&mut |expression| look(expression, None)));
    found
}
