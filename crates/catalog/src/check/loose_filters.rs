//! Warns of what an expression reads otherwise than it was meant: a filter that binds closer, as in `price * 1.19 | round(2)`, and
//! texts that are joined for want of a comma. Codes: `loose-filter`, `joined-texts`.

use std::ops::Range;

use model::automation::{Automation, Step};
use model::diagnostic::{Diagnostic, Span};
use model::expression::Expression;

/// Checks the expressions of the steps and of `outputs`.
pub(super) fn check(automation: &Automation) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let mut add = |expression: &Expression, step: Option<&Step>| {
        for diagnostic in loose(automation, expression).into_iter().chain(joined(automation, expression)) {
            found.push(match step {
                Some(step) => diagnostic.step(step.id.as_ref()),
                None => diagnostic,
            });
        }
    };
    automation.walk(&mut |step| step.expressions(&mut |expression| add(expression, Some(step))));
    if let Some(outputs) = &automation.outputs {
        outputs.expressions(&mut |expression| add(expression, None));
    }
    found
}

/// Returns the place of a part of an expression, and true if the file has its text as it is.
fn locate(automation: &Automation, expression: &Expression, at: &Range<usize>) -> (Span, bool) {
    let whole = expression.span();
    let is_exact = automation.source.slice(whole) == expression.text();
    let start = whole.range().start;
    (if is_exact { Span::new(start + at.start, start + at.end) } else { whole }, is_exact)
}

fn joined(automation: &Automation, expression: &Expression) -> Vec<Diagnostic> {
    let found = expression.joined_texts().into_iter().map(|between| {
        let (span, is_exact) = locate(automation, expression, &between);
        let diagnostic = Diagnostic::warning("joined-texts", "two texts side by side are read as one", span)
            .help("write `,` between two items, or `~` to join them");
        if is_exact { diagnostic.replace(span, ", ") } else { diagnostic }
    });
    found.collect()
}

fn loose(automation: &Automation, expression: &Expression) -> Vec<Diagnostic> {
    let text = expression.text();
    let is_exact = automation.source.slice(expression.span()) == text;
    let locate = |at: &Range<usize>| locate(automation, expression, at).0;
    let found = expression.loose_filters().into_iter().map(|loose| {
        let part = |at: &std::ops::Range<usize>| text.get(at.clone()).unwrap_or_default();
        let (operation, operand) = (part(&loose.operation), part(&loose.operand));
        let all = loose.operation.start..loose.filter.end;
        let meant = format!("({operation}){}", part(&loose.filter));
        let message =
            format!("`{}` applies to `{operand}` alone: a filter binds closer than an operator", loose.name);
        let diagnostic = Diagnostic::warning("loose-filter", message, locate(&loose.filter));
        let is_balanced = |text: &str| text.matches('(').count() == text.matches(')').count();
        if !is_exact || !is_balanced(operation) || !is_balanced(part(&loose.filter)) {
            return diagnostic.help("put brackets around the operation: `(a * b) | round(2)`");
        }
        diagnostic.help(format!("write `{meant}`")).replace(locate(&all), meant)
    });
    found.collect()
}
