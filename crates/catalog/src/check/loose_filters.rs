//! Warns of filters that bind closer than they were meant to: `price * 1.19 | round(2)` rounds 1.19. Code: `loose-filter`.

use model::automation::{Automation, Step};
use model::diagnostic::{Diagnostic, Span};
use model::expression::Expression;

/// Checks the expressions of the steps and of `outputs`.
pub(super) fn check(automation: &Automation) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let mut add = |expression: &Expression, step: Option<&Step>| {
        for diagnostic in loose(automation, expression) {
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

fn loose(automation: &Automation, expression: &Expression) -> Vec<Diagnostic> {
    let text = expression.text();
    let whole = expression.span();
    let is_exact = automation.source.slice(whole) == text;
    let locate = |at: &std::ops::Range<usize>| match is_exact {
        true => Span::new(whole.range().start + at.start, whole.range().start + at.end),
        false => whole,
    };
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
