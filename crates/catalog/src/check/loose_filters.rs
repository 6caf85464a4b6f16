//! Warns of what an expression reads otherwise than it was meant: a filter that binds closer, as in `price * 1.19 | round(2)`, and
//! texts that are joined for want of a comma. Codes: `loose-filter`, `joined-texts`.

use std::ops::Range;

use model::automation::{Automation, Step};
use model::diagnostic::Diagnostic;
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

fn joined(automation: &Automation, expression: &Expression) -> Vec<Diagnostic> {
    let found = expression.joined_texts().into_iter().map(|between| {
        let place = expression.place_in(&automation.source, between);
        let span = place.unwrap_or(expression.span());
        Diagnostic::warning("joined-texts", "two texts side by side are read as one", span)
            .help("write `,` between two items, or `~` to join them")
            .replacement(place.map(|place| (place, ", ".to_owned())))
    });
    found.collect()
}

fn loose(automation: &Automation, expression: &Expression) -> Vec<Diagnostic> {
    let text = expression.text();
    let locate = |at: &Range<usize>| expression.place_in(&automation.source, at.clone());
    let found = expression.loose_filters().into_iter().map(|loose| {
        let part = |at: &Range<usize>| text.get(at.clone()).unwrap_or_default();
        let (operation, operand) = (part(&loose.operation), part(&loose.operand));
        let all = loose.operation.start..loose.filter.end;
        let meant = format!("({operation}){}", part(&loose.filter));
        let message =
            format!("`{}` applies to `{operand}` alone: a filter binds closer than an operator", loose.name);
        let diagnostic =
            Diagnostic::warning("loose-filter", message, locate(&loose.filter).unwrap_or(expression.span()));
        let is_balanced = |text: &str| text.matches('(').count() == text.matches(')').count();
        match locate(&all).filter(|_| is_balanced(operation) && is_balanced(part(&loose.filter))) {
            Some(all) => diagnostic.help(format!("write `{meant}`")).replace(all, meant),
            None => diagnostic.help("put brackets around the operation: `(a * b) | round(2)`"),
        }
    });
    found.collect()
}
