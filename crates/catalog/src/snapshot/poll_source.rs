//! The source of a poll, which decides if its position stays valid when its definition changes.

use connector::Registry;
use model::automation::Trigger;

use crate::canonical::canonical_text;

/// The parts of a poll or an event trigger that choose its records. While they are the same, cursor and seen keys stay valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PollSource(String);

impl PollSource {
    /// Returns the source of a poll or event; `None` for other triggers.
    #[must_use]
    pub fn of(trigger: &Trigger, registry: &Registry) -> Option<Self> {
        let (call, expressions) = match trigger {
            Trigger::Poll(poll) => (&poll.call, vec![&poll.items, &poll.id, &poll.cursor]),
            Trigger::Event(event) => (&event.call, Vec::new()),
            _ => return None,
        };
        let action = registry.action(&call.action.name);
        let connection = call.connection.as_ref().map(ToString::to_string).unwrap_or_default();
        let is_transport =
            |name: &str| action.is_some_and(|action| action.transport_inputs().contains(&name));
        let mut words = call.action.name.clone();
        for (name, template) in call.with.iter().filter(|(name, _)| !is_transport(&name.name)) {
            words = format!("{words} {}={}", name.name, canonical_text(template));
        }
        let expressions = expressions.into_iter().flatten().map(|expression| expression.text().to_owned());
        let parts = [words, connection].into_iter().chain(expressions).collect::<Vec<_>>();
        Some(Self(parts.join(" | ")))
    }

    /// The text to store with the position.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }
}
