//! Warns of what an expression reads otherwise than it was meant: a filter that binds closer, as in `price * 1.19 | round(2)`, texts
//! that are joined for want of a comma, and texts that are meant as a regular expression or a list. Codes: `loose-filter`,
//! `joined-texts`, `text-as-list`, `wrong-argument`.

use std::ops::Range;

use expression::{Expression, Meaning, is_pattern};
use language::load::span_at_path;
use model::automation::{Automation, Step, Verb};
use text::diagnostic::Diagnostic;
use value::Value;

/// Checks the expressions of the steps and of `outputs`.
pub(super) fn check(automation: &Automation) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let mut add = |expression: &Expression, step: Option<&Step>| {
        let found_in = loose(automation, expression).into_iter().chain(joined(automation, expression));
        for diagnostic in found_in.chain(misread(automation, expression)) {
            let step = step.map(|step| step.id.as_ref());
            found.push(step.into_iter().fold(diagnostic, Diagnostic::step));
        }
    };
    automation.walk(&mut |step| step.expressions(&mut |expression| add(expression, Some(step))));
    if let Some(outputs) = &automation.outputs {
        outputs.expressions(&mut |expression| add(expression, None));
    }
    automation.walk(&mut |step| {
        found.extend(pattern_input(automation, step).map(|diagnostic| diagnostic.step(step.id.as_ref())));
    });
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

/// A regular expression as the plain text that `text.replace` looks for.
fn pattern_input(automation: &Automation, step: &Step) -> Option<Diagnostic> {
    let Verb::Action(call) = &step.verb else { return None };
    let given = |name: &str| call.with.iter().find(|(input, _)| input.name == name);
    if call.action.name != "text.replace" || given("pattern").is_some() {
        return None;
    }
    let (input, find) = given("find")?;
    let is_pattern = find.literal().and_then(Value::as_str).is_some_and(is_pattern);
    let message = "`find` is plain text: it looks for these characters, not for a pattern";
    let span = span_at_path(&automation.source, input.span, &[]).unwrap_or(input.span);
    is_pattern.then(|| {
        Diagnostic::warning("wrong-argument", message, span)
            .help("add `pattern: true` for a regular expression, or `pattern: false` if the text is meant")
    })
}

fn misread(automation: &Automation, expression: &Expression) -> Vec<Diagnostic> {
    let found = expression.misread_texts().into_iter().map(|misread| {
        let place = expression.place_in(&automation.source, misread.at);
        let span = place.unwrap_or(expression.span());
        let diagnostic = match misread.meaning {
            Meaning::Pattern(filter) => {
                let message =
                    format!("`{filter}` takes plain text: it looks for these characters, not for a pattern");
                let function =
                    if filter == "replace" { "replaceMatches(x, '…', '')" } else { "matchAll(x, '…')" };
                let help = match &misread.meant {
                    Some(meant) => format!("write `{meant}`: every occurrence is replaced"),
                    None => format!("for a regular expression write `{function}`"),
                };
                Diagnostic::warning("wrong-argument", message, span).help(help)
            }
            Meaning::List => {
                let message =
                    "`in` searches this text, so a part of a word, a comma and an empty text are found too";
                let meant = misread.meant.as_deref().unwrap_or("['a', 'b']");
                Diagnostic::warning("text-as-list", message, span).help(format!("write a list: `{meant}`"))
            }
        };
        let fix = place.zip(misread.meant);
        diagnostic.replacement(
            fix.and_then(|(place, meant)| text::yaml::replace_at(&automation.source, place, &meant)),
        )
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
