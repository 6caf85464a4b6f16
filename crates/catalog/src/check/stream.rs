//! Checks the settings of triggers on events of connectors, and the inputs of events that a broker brings. Codes: `unused-setting`,
//! `conflicting-keys`, `wrong-input`, `shared-messages`.

use std::sync::Arc;

use connector::{EventSource, EventSpec};
use language::load::span_at_path;
use model::automation::{Automation, EventTrigger, StreamSettings, Trigger, TriggerId};
use text::diagnostic::{Diagnostic, Source, Span};
use value::Value;

use super::context::CheckContext;

/// The inputs that name what keeps a position at a broker; triggers that name the same one share its messages.
const POSITIONS: [&str; 3] = ["consumer", "group", "queue"];

/// The event whose names have rules.
const NATS: &str = "nats.message";

/// A trigger that takes messages from a broker.
pub(crate) struct Taker {
    /// Path of its file.
    pub(crate) path: Arc<str>,
    pub(crate) trigger: TriggerId,
    /// The line of the position's name in the file.
    line: usize,
    /// The subject that it reads, empty for all; `None` if it is computed.
    subject: Option<String>,
}

/// Returns the place at a broker from which a trigger takes messages, as one text; `None` if a part of it is computed, or it takes none.
pub(crate) fn message_place(trigger: &Trigger) -> Option<String> {
    let Trigger::Event(event) = trigger else { return None };
    let [connection] = event.call.connection.as_ref()?.candidates() else { return None };
    let (position, _, _) = position(event)?;
    let stream = text_of(event, "stream")?;
    Some([&*event.call.action.name, &connection.name, stream, position].join("\n"))
}

/// Returns the triggers of an automation that take messages from a place. Disabled ones take none.
pub(crate) fn takers(automation: &Automation, path: &Arc<str>, place: &str) -> Vec<Taker> {
    let mounted = automation.triggers.iter().filter(|trigger| automation.is_mounted(trigger));
    let takers = mounted.filter_map(|trigger| {
        let Trigger::Event(event) = &trigger.on else { return None };
        message_place(&trigger.on).filter(|found| found == place)?;
        let (_, _, key) = position(event)?;
        Some(Taker {
            path: path.clone(),
            trigger: trigger.id.clone(),
            line: automation.source.position(key.range().start).line,
            subject: text_of(event, "subject").map(str::to_owned),
        })
    });
    takers.collect()
}

/// The name of what keeps the position, the input with it, and the place of that input.
fn position(event: &EventTrigger) -> Option<(&str, &'static str, Span)> {
    POSITIONS.into_iter().find_map(|input| {
        let (name, key) = literal(event, input)?;
        Some((name, input, key))
    })
}

/// The text of an input, empty if it is not given; `None` if it is computed.
fn text_of<'e>(event: &'e EventTrigger, name: &str) -> Option<&'e str> {
    let is_given = event.call.with.iter().any(|(key, _)| key.name == name);
    match literal(event, name) {
        Some((text, _)) => Some(text),
        None => (!is_given).then_some(""),
    }
}

/// Warns of triggers that share their messages with others of the project.
pub(super) fn shared_messages(
    automation: &Automation,
    context: &CheckContext<'_>,
    found: &mut Vec<Diagnostic>,
) {
    let own: Arc<str> = automation.source.path().into();
    for trigger in automation.triggers.iter().filter(|trigger| automation.is_mounted(trigger)) {
        let Trigger::Event(event) = &trigger.on else { continue };
        let spec = context.registry.event(&event.call.action.name);
        let is_stream = spec.is_some_and(|spec| matches!(spec.source, EventSource::Stream(_)));
        let Some(place) = message_place(&trigger.on).filter(|_| is_stream) else { continue };
        let mut others = (context.takers)(&place);
        others.retain(|other| other.path != own || other.trigger != trigger.id);
        found.extend(shared(event, &others, context.source));
    }
}

/// The warning for a trigger that shares its messages with others.
fn shared(event: &EventTrigger, others: &[Taker], source: &Source) -> Option<Diagnostic> {
    const SHOWN: usize = 3;
    let (name, input, key) = position(event)?;
    let mut places: Vec<_> =
        others.iter().take(SHOWN).map(|other| format!("{}:{}", other.path, other.line)).collect();
    if places.is_empty() {
        return None;
    }
    if others.len() > SHOWN {
        places.push(format!("{} more", others.len() - SHOWN));
    }
    let subject = text_of(event, "subject");
    let is_other = |other: &Taker| {
        other.subject.as_deref().zip(subject).is_some_and(|(other, subject)| other != subject)
    };
    let result = match others.iter().any(is_other) {
        true => "it can read one subject only, so a trigger with another one fails",
        false => "each message goes to one of them",
    };
    let message = format!("the {input} `{name}` is taken by {} too: {result}", places.join(", "));
    let help = match input {
        "queue" => {
            "give each trigger a queue of its own, bound to the same exchange; if they are to share the messages, put \
             `# cogwork: allow(shared-messages)` above"
        }
        _ => "give each trigger a name of its own, so that each gets every message",
    };
    let span = span_at_path(source, key, &[]).unwrap_or(key);
    Some(Diagnostic::warning("shared-messages", message, span).help(help))
}

/// Checks a trigger on an event.
pub(super) fn check(event: &EventTrigger, spec: &EventSpec, source: &Source, found: &mut Vec<Diagnostic>) {
    unused_settings(event, spec, found);
    if matches!(spec.source, EventSource::Stream(_)) {
        found.extend(body_limit(event, source));
        found.extend(own_poison(event, spec));
        if spec.name == NATS {
            found.extend(
                ["stream", "consumer"].into_iter().filter_map(|name| wrong_name(event, source, name)),
            );
            found.extend(wrong_subject(event, source));
        }
    }
}

/// Returns the text of an input that is written out, and the place of its name.
fn literal<'e>(event: &'e EventTrigger, name: &str) -> Option<(&'e str, Span)> {
    let (key, template) = event.call.with.iter().find(|(key, _)| key.name == name)?;
    Some((template.literal().and_then(Value::as_str)?, key.span))
}

/// Reports a `maxBody` that is no size, or too large.
fn body_limit(event: &EventTrigger, source: &Source) -> Option<Diagnostic> {
    let (text, key) = literal(event, "maxBody").filter(|(text, _)| !text.is_empty())?;
    let message = match text::units::parse_size(text) {
        Ok(size) if (1..=StreamSettings::MAX_BODY).contains(&size) => return None,
        Ok(_) => {
            let most = text::units::format_size(StreamSettings::MAX_BODY);
            format!("`maxBody` must be from 1B to {most}, found `{text}`")
        }
        Err(error) => format!("`maxBody` must be a size: {error}"),
    };
    let span = span_at_path(source, key, &[]).unwrap_or(key);
    Some(Diagnostic::error("wrong-input", message, span).help("write it like `256KiB` or `1MiB`"))
}

/// Reports a name of a stream or a consumer with a character that servers do not take.
fn wrong_name(event: &EventTrigger, source: &Source, input: &str) -> Option<Diagnostic> {
    let (name, key) = literal(event, input)?;
    let is_wrong = |c: char| c.is_whitespace() || ".*>/\\".contains(c);
    if !name.is_empty() && !name.contains(is_wrong) {
        return None;
    }
    let span = span_at_path(source, key, &[]).unwrap_or(key);
    let message = format!("`{input}` is a name without spaces, `.`, `*`, `>` and slashes, found `{name}`");
    Some(Diagnostic::error("wrong-input", message, span).help("take letters, digits, `-` and `_`"))
}

/// Reports a subject with an empty part or a space.
fn wrong_subject(event: &EventTrigger, source: &Source) -> Option<Diagnostic> {
    let (subject, key) = literal(event, "subject")?;
    let is_wrong = |part: &str| part.is_empty() || part.contains(char::is_whitespace);
    if !subject.split('.').any(is_wrong) {
        return None;
    }
    let span = span_at_path(source, key, &[]).unwrap_or(key);
    let message = format!("`subject` has an empty part or a space: `{subject}`");
    Some(
        Diagnostic::error("wrong-input", message, span)
            .help("write it like `orders.paid`, `orders.*` or `orders.>`"),
    )
}

/// Reports copies of poisoned messages that come back to where they were taken.
fn own_poison(event: &EventTrigger, spec: &EventSpec) -> Option<Diagnostic> {
    let (poison, span) = event.stream.poison.as_ref()?;
    let to = poison.to.as_deref()?;
    // A stream of NATS is no address of messages.
    let taken = ["queue", if spec.name == NATS { "subject" } else { "stream" }]
        .into_iter()
        .find(|name| literal(event, name).is_some_and(|(from, _)| from == to))?;
    let message = format!(
        "the copies go to the {taken} `{to}`, from which the trigger takes its messages: they come back without end"
    );
    Some(
        Diagnostic::error("conflicting-keys", message, *span)
            .help(format!("name another {taken} in `poison.to`")),
    )
}

/// Reports the keys of an event that another kind of event has.
fn unused_settings(event: &EventTrigger, spec: &EventSpec, found: &mut Vec<Diagnostic>) {
    let every = event.every.map(|(_, span)| ("every", span));
    let start = event.start.map(|(_, span)| ("start", span));
    let deliver = event.deliver.map(|(_, span)| ("deliver", span));
    let all = [every, start, deliver].into_iter().flatten().chain(event.stream.keys()).collect();
    let (reason, keys): (&str, Vec<(&str, Span)>) = match &spec.source {
        EventSource::Hook(_) => ("is not polled, the other system sends it", all),
        EventSource::Engine => ("is not polled, the engine has it", all),
        EventSource::Poll(_) => ("is polled, and no message of a broker", event.stream.keys().collect()),
        EventSource::Stream(broker) => {
            let start = start.filter(|_| !broker.starts);
            let reason =
                if every.is_some() { "is not polled, a broker brings it" } else { "has no other start" };
            (reason, every.into_iter().chain(start).collect())
        }
    };
    for (key, span) in keys {
        let message = format!("`{key}` has no effect: `{}` {reason}", spec.name);
        found.push(Diagnostic::warning("unused-setting", message, span).help("remove it"));
    }
}

/// Reports several consumers of an automation whose executions are ordered.
pub(super) fn several_consumers(automation: &Automation, found: &mut Vec<Diagnostic>) {
    if automation.concurrency.is_none() {
        return;
    }
    let events = automation.triggers.iter().filter_map(|trigger| match &trigger.on {
        Trigger::Event(event) => event.stream.consumers,
        _ => None,
    });
    for (_, span) in events.filter(|(count, _)| *count > 1) {
        let message = "`consumers` above 1 and `concurrency` exclude each other: its executions are ordered in one place";
        let help = "remove `consumers`, or remove `concurrency` and let the executions run at the same time";
        found.push(Diagnostic::error("conflicting-keys", message, span).help(help));
    }
}
