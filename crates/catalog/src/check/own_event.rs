//! Tells own events from events of connectors, and reads the event that a step sends.

use connector::Registry;
use expression::Template;
use expression::template::Part;
use model::automation::{EventTrigger, SpannedName, Trigger, Verb};

/// The action that sends events.
const EMIT: &str = "events.emit";

/// An event that a step sends.
pub(crate) struct SentEvent<'a> {
    /// The name, or the literal text before the first expression in it.
    pub(crate) name: &'a str,
    /// True if that is the whole name.
    pub(crate) is_whole: bool,
    /// The key of the name.
    pub(crate) key: &'a SpannedName,
    /// The key of the data, and the data; `None` if it sends none.
    pub(crate) data: Option<&'a (SpannedName, Template)>,
}

/// Returns the event that a step with this verb sends.
pub(crate) fn sent_event(verb: &Verb) -> Option<SentEvent<'_>> {
    let Verb::Action(call) = verb else { return None };
    if call.action.name != EMIT {
        return None;
    }
    let given = |input: &str| call.with.iter().find(|(name, _)| name.name == input);
    let (key, template) = given("name")?;
    let (name, is_whole) = match template {
        Template::Literal(name) => (name.as_str()?, true),
        Template::Text(parts) => match parts.first() {
            Some(Part::Text(text)) => (&**text, false),
            _ => ("", false),
        },
        Template::Expression(_) => ("", false),
        Template::List(_) | Template::Map(_) => return None,
    };
    Some(SentEvent { name, is_whole, key, data: given("data") })
}

/// Returns the name of a trigger's event if it is or may be an own one: an event of a connector may have no further key either.
pub(crate) fn possible_event(trigger: &Trigger) -> Option<&SpannedName> {
    match trigger {
        Trigger::Own(own) => Some(&own.name),
        Trigger::Event(event) if is_bare(event) => Some(&event.call.action),
        _ => None,
    }
}

/// Returns true if an event has no key that belongs to events of connectors.
fn is_bare(event: &EventTrigger) -> bool {
    let call = &event.call;
    let has_call = call.connection.is_some() || !call.with.is_empty();
    let has_stream = event.stream.keys().next().is_some();
    !has_call && !has_stream && event.every.is_none() && event.start.is_none() && event.deliver.is_none()
}

/// Returns the connector to which an event of this name belongs: the part before its first dot, if there is such a connector.
pub(crate) fn connector_of<'n>(name: &'n str, registry: &Registry) -> Option<&'n str> {
    let (connector, _) = name.split_once('.')?;
    let is_known = registry.connector(connector).is_some() || registry.invalid_file(connector).is_some();
    is_known.then_some(connector)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_part_of_a_name_decides_about_its_connector() {
        let registry = crate::check::builtin().expect("the connectors load");
        assert_eq!(connector_of("wiki.pageChanged", &registry), Some("wiki"));
        assert_eq!(connector_of("wiki.page.changed", &registry), Some("wiki"));
        assert_eq!(connector_of("state.changed", &registry), Some("state"));
        assert_eq!(connector_of("order.paid", &registry), None);
        assert_eq!(connector_of("wiki", &registry), None);
    }
}
