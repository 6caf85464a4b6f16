//! Warns of names with inconsistent spelling: `lastRun` and `lastrun`, `order_paid` and `order-paid`. Code:
//! `other-spelling`.
//!
//! Keys of an automation's own state are compared within its file, shared keys and events across all files.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use expression::Template;
use language::load::span_at_path;
use model::automation::{Automation, SpannedName, Verb, WaitOn};
use text::diagnostic::{Diagnostic, Span};
use value::Value;

use super::context::CheckContext;
use super::error_kinds;
use super::own_event::possible_event;
use crate::code::{Workers, module};

/// Kind of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NameKind {
    /// Key of the automation's own state.
    Own,
    /// Key of the state shared by all automations.
    Shared,
    /// Event that `events.emit` sends, `waitFor` awaits, or a trigger starts on.
    Event,
    /// Kind of error that a `fail` gives.
    GivenKind,
    /// Kind of error of an author that a condition asks for.
    ComparedKind,
}

/// Use of a name at a position.
struct NameUse<'a> {
    kind: NameKind,
    name: &'a str,
    /// Position of the input's key or of the name itself.
    span: Span,
    is_key: bool,
    step: Option<&'a str>,
}

/// Normalizes a name: lower case, without `-` and `_`. Names with the same folded form are probably meant to be one.
pub(crate) fn fold(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '-' | '_')).flat_map(char::to_lowercase).collect()
}

/// Returns the names of a file that other files may also use, each once and sorted.
pub(crate) fn names(automation: &Automation) -> Vec<(NameKind, Arc<str>)> {
    let found = name_uses(automation).into_iter().filter(|found| found.kind != NameKind::Own);
    let mut names: BTreeSet<(NameKind, &str)> = found.map(|found| (found.kind, found.name)).collect();
    let compared = error_kinds::compared(automation);
    names.extend(compared.iter().map(|kind| (NameKind::ComparedKind, kind.as_str())));
    names.extend(error_kinds::given(automation).into_iter().map(|kind| (NameKind::GivenKind, kind)));
    names.into_iter().map(|(kind, name)| (kind, name.into())).collect()
}

/// Warns of differing spellings, at the first use of each spelling except the first.
pub(super) fn check(automation: &Automation, context: &CheckContext<'_>) -> Vec<Diagnostic> {
    let own = name_uses(automation);
    let mut keys = Vec::new();
    code_keys(automation, &mut |key, span, step| keys.push((key.to_owned(), span, step.map(str::to_owned))));
    let in_code = keys.iter().map(|(key, span, step)| NameUse {
        kind: NameKind::Own,
        name: key,
        span: *span,
        is_key: false,
        step: step.as_deref(),
    });
    let mut groups: BTreeMap<(NameKind, String), Vec<NameUse<'_>>> = BTreeMap::new();
    for found in own.into_iter().chain(in_code) {
        let spellings = groups.entry((found.kind, fold(found.name))).or_default();
        if spellings.iter().all(|other| other.name != found.name) {
            spellings.push(found);
        }
    }
    let mut found = Vec::new();
    for ((kind, folded), mut spellings) in groups {
        spellings.sort_by_key(|name_use| name_use.span.start);
        let Some((first, others)) = spellings.split_first() else { continue };
        for other in others {
            let diagnostic = diagnostic(automation, other, first.name, "above");
            found.push(diagnostic.related(position(automation, first), format!("`{}` is here", first.name)));
        }
        if kind == NameKind::Own || !others.is_empty() {
            continue;
        }
        let path = automation.source.path();
        let elsewhere = (context.spellings)(kind, &folded);
        let other = elsewhere.iter().find(|other| *other.name != *first.name && *other.path != *path);
        found.extend(
            other.map(|other| diagnostic(automation, first, &other.name, &format!("in {}", other.path))),
        );
    }
    found
}

fn diagnostic(
    automation: &Automation,
    name_use: &NameUse<'_>,
    other: &str,
    place_of_other: &str,
) -> Diagnostic {
    let what = match name_use.kind {
        NameKind::Own | NameKind::Shared => "the key of the state",
        NameKind::Event => "the event",
        NameKind::GivenKind | NameKind::ComparedKind => "the kind of error",
    };
    let message =
        format!("{what} `{}` is written `{other}` {place_of_other}: they are different names", name_use.name);
    let diagnostic = Diagnostic::warning("other-spelling", message, position(automation, name_use))
        .help(format!("write one of them everywhere, such as `{other}`"));
    name_use.step.into_iter().fold(diagnostic, Diagnostic::step)
}

/// Returns the position of a name.
fn position(automation: &Automation, name_use: &NameUse<'_>) -> Span {
    match name_use.is_key {
        true => span_at_path(&automation.source, name_use.span, &[]).unwrap_or(name_use.span),
        false => name_use.span,
    }
}

/// Collects the names in the steps of a file, in order.
fn name_uses(automation: &Automation) -> Vec<NameUse<'_>> {
    let started = automation.triggers.iter().filter_map(|trigger| possible_event(&trigger.on));
    let mut found: Vec<NameUse<'_>> = started
        .map(|event| NameUse {
            kind: NameKind::Event,
            name: &event.name,
            span: event.span,
            is_key: false,
            step: None,
        })
        .collect();
    automation.walk(&mut |step| {
        let id = Some(step.id.as_ref());
        match &step.verb {
            Verb::Action(call) => found.extend(name_of_call(&call.action.name, &call.with, id)),
            Verb::WaitFor(wait) => {
                if let WaitOn::Event { name: Template::Literal(Value::String(name)), .. } = &wait.on {
                    let span = event_span(automation, step.span).unwrap_or(step.span);
                    found.push(NameUse { kind: NameKind::Event, name, span, is_key: false, step: id });
                }
            }
            _ => {}
        }
        step.expressions(&mut |expression| {
            for reference in expression.references() {
                if let [root, key, ..] = &*reference.path
                    && root == "state"
                {
                    let span = expression.span();
                    found.push(NameUse { kind: NameKind::Own, name: key, span, is_key: false, step: id });
                }
            }
        });
    });
    if let Some(outputs) = &automation.outputs {
        outputs.expressions(&mut |expression| {
            for reference in expression.references() {
                if let [root, key, ..] = &*reference.path
                    && root == "state"
                {
                    let span = expression.span();
                    found.push(NameUse { kind: NameKind::Own, name: key, span, is_key: false, step: None });
                }
            }
        });
    }
    found
}

/// Returns the literal name passed to `state.…` or `events.emit`.
fn name_of_call<'a>(
    action: &str,
    with: &'a [(SpannedName, Template)],
    step: Option<&'a str>,
) -> Option<NameUse<'a>> {
    let text = |input: &str| {
        let (name, template) = with.iter().find(|(name, _)| name.name == input)?;
        Some((name.span, template.literal()?.as_str()?))
    };
    let (kind, input) = match action.split_once('.')? {
        ("state", _) if with.iter().any(|(name, _)| name.name == "scope") => match text("scope")?.1 {
            "shared" => (NameKind::Shared, "key"),
            _ => (NameKind::Own, "key"),
        },
        ("state", _) => (NameKind::Own, "key"),
        ("events", "emit") => (NameKind::Event, "name"),
        _ => return None,
    };
    let (span, name) = text(input)?;
    Some(NameUse { kind, name, span, is_key: true, step })
}

/// Finds the name of the event that a step waits for.
fn event_span(automation: &Automation, step: Span) -> Option<Span> {
    let text = automation.source.text().get(step.start as usize..)?;
    let wait = text.find("waitFor")?;
    let event = wait + text[wait..].find("event:")? + "event:".len();
    let start = event + text[event..].find(|c: char| !c.is_whitespace())?;
    let length = text[start..].find(['\n', ',', '}', '#']).unwrap_or(text.len() - start);
    let name = text[start..start + length].trim_end();
    let from = step.start as usize + start;
    Some(Span::new(from, from + name.len()))
}

/// Calls `look` with each state key in code, its position and its step.
fn code_keys(automation: &Automation, look: &mut dyn FnMut(&str, Span, Option<&str>)) {
    for (step, code) in automation.code_modules() {
        let Some(module) = module(code, automation) else { continue };
        let Ok(verdict) = Workers::shared().analyze_blocking(&module) else { continue };
        let Ok(facts) = &*verdict else { continue };
        for key in &facts.state {
            let (line, column) = (key.at.line as usize, key.at.column as usize);
            let (source, start) = code.locate(automation, line, column);
            let is_own = source.path() == automation.source.path();
            let end = code.locate(automation, line, column + key.key.chars().count()).1;
            let span =
                if is_own { Span { start: start.start, end: end.end.max(start.end) } } else { code.span() };
            look(&key.key, span, step.map(AsRef::as_ref));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_differ_only_in_convention_fold_to_the_same_text() {
        for (one, other) in [("lastRun", "last_run"), ("order-paid", "ORDER_PAID"), ("a", "A")] {
            assert_eq!(fold(one), fold(other));
        }
        assert_ne!(fold("order.paid"), fold("orderpaid"));
        assert_ne!(fold("run1"), fold("run2"));
    }
}
