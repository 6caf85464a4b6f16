//! Checks the `with` of triggers on events of the engine.

use std::time::Duration;

use expression::Template;
use model::automation::{EventTrigger, SpannedName};
use model::engine_event::{EngineEventName, FailureKind, MAX_EVENT_SILENCE};
use text::diagnostic::{Diagnostic, Span};
use text::units::{format_duration, parse_fixed_period};
use value::Value;

use super::calls::Callee;
use super::context::CheckContext;

/// The shortest silence that is looked for.
const LEAST_SILENCE: Duration = Duration::from_secs(1);

/// Checks the inputs beyond their types: they are literal, and name what the project has.
pub(super) fn check(
    event: &EventTrigger,
    name: EngineEventName,
    context: &CheckContext<'_>,
    found: &mut Vec<Diagnostic>,
) {
    let with = &event.call.with;
    for (input, template) in with {
        match template.literal() {
            None => found.push(computed(input, context)),
            Some(Value::List(items)) if items.0.is_empty() => {
                let message = format!("input `{}` is an empty list, which nothing matches", input.name);
                let help = "name something, or remove the line: then it matches everything";
                found.push(Diagnostic::error("wrong-input", message, value_span(input, context)).help(help));
            }
            Some(_) => {}
        }
    }
    match name {
        EngineEventName::Failure => found.extend(uncounted(with, context)),
        EngineEventName::Missing => missing(event, context, found),
        EngineEventName::Changed => {}
    }
    named(with, "automations", context, found, |id| match (context.automation)(id) {
        Callee::Defined { .. } => None,
        Callee::Missing { nearest } => Some(Unknown {
            code: "unknown-automation",
            what: format!("there is no automation `{id}`"),
            nearest,
        }),
    });
    named(with, "labels", context, found, |label| {
        let nearest = (context.label)(label)?;
        let what = format!("no automation has the label `{label}`");
        Some(Unknown { code: "unknown-label", what, nearest })
    });
}

/// Warns of an `after` that counts nothing, since failures of the given kinds are not counted in a row.
fn uncounted(with: &[(SpannedName, Template)], context: &CheckContext<'_>) -> Option<Diagnostic> {
    let given = |name: &str| with.iter().find(|(input, _)| input.name == name);
    let (after, _) = given("after").filter(|(_, value)| value.literal() != Some(&Value::from(1_i64)))?;
    let kinds = given("kinds")?.1.literal()?.as_list()?;
    let is_counted = |kind: &Value| {
        let kind = kind.as_str().and_then(FailureKind::find);
        kind.is_none_or(FailureKind::is_counted)
    };
    if kinds.iter().any(is_counted) {
        return None;
    }
    let message = "`after` has no effect: failures of these `kinds` are not counted in a row";
    let help = "remove it; executions, polls, subscriptions and sources have it";
    Some(Diagnostic::warning("unused-setting", message, value_span(after, context)).help(help))
}

/// Checks the subject and the time of `cogwork.missing`.
fn missing(event: &EventTrigger, context: &CheckContext<'_>, found: &mut Vec<Diagnostic>) {
    let given = |name: &str| event.call.with.iter().find(|(input, _)| input.name == name);
    let subject = given("automations").or_else(|| given("labels"));
    match (subject, given("event")) {
        (None, None) => {
            let place =
                if event.call.with.is_empty() { event.call.action.span } else { event.call.with_span };
            let message = "`cogwork.missing` needs `automations`, `labels` or `event`";
            let help = "name what has to happen, such as `automations: [nightly-backup]`";
            found.push(Diagnostic::error("missing-input", message, place).help(help));
        }
        (Some((subject, _)), Some((input, _))) => {
            let message = format!("`event` is beside `{}`: one trigger watches one of both", subject.name);
            let help = "write a second trigger for the event";
            found.push(Diagnostic::error("wrong-input", message, input.span).help(help));
        }
        _ => {}
    }
    let Some((input, template)) = given("within") else { return };
    let Some(text) = template.literal().and_then(Value::as_str) else { return };
    let most = given("event").map(|_| MAX_EVENT_SILENCE);
    let problem = match parse_fixed_period(text) {
        Err(error) => Some((error.to_string(), "write a duration such as `26h`".to_owned())),
        Ok(within) if within < LEAST_SILENCE => {
            Some(("must be 1s or longer".to_owned(), "write a duration such as `26h`".to_owned()))
        }
        Ok(within) => most.filter(|most| within > *most).map(|most| {
            let most = format_duration(most);
            (format!("must be at most {most} for an event"), format!("events are kept for {most}"))
        }),
    };
    found.extend(problem.map(|(problem, help)| {
        let message = format!("input `within`: {problem}");
        Diagnostic::error("wrong-input", message, value_span(input, context)).help(help)
    }));
}

/// A name that the project does not have.
struct Unknown {
    code: &'static str,
    what: String,
    nearest: Option<String>,
}

/// Reports each name of an input that is unknown.
fn named(
    with: &[(SpannedName, Template)],
    input: &str,
    context: &CheckContext<'_>,
    found: &mut Vec<Diagnostic>,
    check: impl Fn(&str) -> Option<Unknown>,
) {
    let Some((name, template)) = with.iter().find(|(name, _)| name.name == input) else { return };
    let Some(value) = template.literal() else { return };
    let names = value.as_list().unwrap_or(std::slice::from_ref(value));
    for (index, text) in names.iter().enumerate() {
        let Some(Unknown { code, what, nearest }) = text.as_str().and_then(&check) else { continue };
        let path = [language::load::PathSegment::Item(index)];
        let path = if value.as_list().is_some() { &path[..] } else { &[] };
        let span = language::load::span_at_path(context.source, name.span, path).unwrap_or(name.span);
        let diagnostic = Diagnostic::warning(code, format!("{what}: this trigger does not hear of it"), span);
        found.push(match nearest {
            Some(nearest) => diagnostic.nearest(Some(nearest)),
            None => diagnostic.help("correct the name, or remove it"),
        });
    }
}

/// Reports an input with an expression.
fn computed(input: &SpannedName, context: &CheckContext<'_>) -> Diagnostic {
    let message =
        format!("input `{}` is computed, and nothing is evaluated before an event of the engine", input.name);
    Diagnostic::error("wrong-input", message, value_span(input, context))
        .help("write the value itself; the trigger's `if` may read `trigger.results`")
}

fn value_span(input: &SpannedName, context: &CheckContext<'_>) -> Span {
    language::load::span_at_path(context.source, input.span, &[]).unwrap_or(input.span)
}
