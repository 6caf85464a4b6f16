//! Checks own events where they start an automation and where they are sent. Codes: `unknown-event`, `ambiguous-event`, `nobody-sends`,
//! `reserved-event`, `too-many-triggers`.

use connector::Registry;
use language::load::{Unreadable, span_at_path};
use model::automation::{Automation, DeclaredTrigger, OwnEventTrigger, SpannedName, TriggerId};
use text::diagnostic::Diagnostic;

use super::actions::broken_connector;
use super::context::CheckContext;
use super::own_event::{connector_of, sent_event};
use super::spelling::fold;

/// The beginning of the names of the engine's events.
const RESERVED: &str = "cogwork.";

pub(super) fn check(
    automation: &Automation,
    unreadable: &Unreadable,
    context: &CheckContext<'_>,
) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    if !unreadable.has("trigger") {
        let triggers = automation.triggers.iter();
        let own = triggers.filter_map(|trigger| Some((trigger, trigger.on.own_event()?)));
        found.extend(own.filter_map(|(trigger, event)| started_by(trigger, event, context)));
    }
    automation.walk(&mut |step| {
        let Some(sent) = sent_event(&step.verb).filter(|sent| sent.name.starts_with(RESERVED)) else { return };
        let span = span_at_path(&automation.source, sent.key.span, &[]).unwrap_or(sent.key.span);
        let message = "names that begin with `cogwork.` are those of the engine's own events: this one starts no automation";
        let diagnostic = Diagnostic::warning("reserved-event", message, span)
            .help("take another name; as it is, the event reaches only steps that wait for it");
        found.push(diagnostic.step(step.id.as_ref()));
    });
    found
}

/// Checks an own event that starts the automation.
fn started_by(
    trigger: &DeclaredTrigger,
    event: &OwnEventTrigger,
    context: &CheckContext<'_>,
) -> Option<Diagnostic> {
    let name = &event.name;
    if let Some(connector) = connector_of(&name.name, context.registry) {
        return Some(match event.data_span {
            Some(_) => ambiguous(name, connector, context),
            None => unknown_event(name, context.registry),
        });
    }
    if let Some(problem) = too_many(name, &trigger.id, context) {
        return Some(problem);
    }
    if (context.may_be_sent)(&name.name) {
        return None;
    }
    if event.data_span.is_none()
        && let Some(near) = near_event(&name.name, context.registry)
    {
        let message = format!("there is no event `{}`", name.name);
        return Some(
            Diagnostic::error("unknown-event", message, name.span).nearest(Some(near)).help(
                "for an own event of this name, declare its data, such as `data: {order: text}`, or send it in a step with `events.emit`",
            ),
        );
    }
    nobody_sends(name, context)
}

/// Returns the event of a connector that is probably meant.
fn near_event<'r>(name: &str, registry: &'r Registry) -> Option<&'r str> {
    let names = || registry.events().map(|event| event.name.as_str());
    let without_connector = || names().find(|full| full.split_once('.').is_some_and(|(_, own)| own == name));
    text::diagnostic::nearest(name, names()).or_else(without_connector)
}

/// Reports an event that its connector does not have, or the connector if its manifest has errors.
pub(super) fn unknown_event(name: &SpannedName, registry: &Registry) -> Diagnostic {
    if let Some(broken) = broken_connector(name, registry) {
        return broken;
    }
    let names = registry.events().map(|event| event.name.as_str());
    let message = format!("there is no event `{}`", name.name);
    let diagnostic = Diagnostic::error("unknown-event", message, name.span).expected_names(&name.name, names);
    diagnostic.help(match connector_of(&name.name, registry) {
        Some(connector) => format!(
            "names that begin with `{connector}.` are those of the connector; an own event, which `events.emit` sends, needs another name"
        ),
        None => "there is no such connector; an own event, which `events.emit` sends, has none of the keys `connection`, `with`, `every`, \
                 `start`, `deliver`"
            .to_owned(),
    })
}

/// Reports an own event whose name belongs to a connector.
pub(super) fn ambiguous(name: &SpannedName, connector: &str, context: &CheckContext<'_>) -> Diagnostic {
    let message = format!(
        "`{}` is meant as an own event, but `{connector}` is a connector, to which this name belongs",
        name.name
    );
    let sender = (context.sender)(&name.name);
    let places = sender.map_or_else(|| "where it is sent".to_owned(), |path| format!("in {path}"));
    Diagnostic::error("ambiguous-event", message, name.span)
        .help(format!("give the event a name that begins with no connector, here and {places}"))
}

fn too_many(name: &SpannedName, trigger: &TriggerId, context: &CheckContext<'_>) -> Option<Diagnostic> {
    let consumers = (context.consumers)(&name.name);
    let path = context.source.path();
    let at = consumers.iter().position(|other| &*other.path == path && other.trigger == *trigger)?;
    if at < OwnEventTrigger::MAX_PER_NAME {
        return None;
    }
    let message = format!(
        "`{}` starts {} triggers of the project already, which is the most",
        name.name,
        OwnEventTrigger::MAX_PER_NAME
    );
    Some(
        Diagnostic::error("too-many-triggers", message, name.span)
            .help("let one automation take the event and `call` others"),
    )
}

fn nobody_sends(name: &SpannedName, context: &CheckContext<'_>) -> Option<Diagnostic> {
    let near = (context.nearest_sent)(&name.name);
    if near.as_ref().is_some_and(|near| fold(near) == fold(&name.name)) {
        // Its other spelling is reported.
        return None;
    }
    let message = format!(
        "no step of the project sends `{}`: only `cogwork events emit` and the API start this",
        name.name
    );
    let diagnostic = Diagnostic::hint("nobody-sends", message, name.span);
    let connector = name.name.split_once('.').map(|(connector, _)| connector);
    let help = match connector {
        Some(connector) => format!(
            "send it with `action: events.emit`; there is no connector `{connector}` either, of which it could be an event"
        ),
        None => "send it with `action: events.emit`".to_owned(),
    };
    Some(if near.is_some() { diagnostic.nearest(near) } else { diagnostic.help(help) })
}
