//! The source of a poll, which decides if its position stays valid when its definition changes.

use connector::Registry;
use model::automation::{Automation, Trigger};

use crate::canonical::canonical_text;

/// The parts of a poll or an event trigger that choose its records. While they are the same, cursor and seen keys stay valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PollSource {
    text: String,
    /// The same with all inputs, as earlier releases stored it.
    with_all_inputs: String,
}

impl PollSource {
    /// Returns the source of an Automation's poll or event; `None` for other triggers.
    #[must_use]
    pub fn of(automation: &Automation, registry: &Registry) -> Option<Self> {
        let (call, expressions) = match &automation.trigger {
            Trigger::Poll(poll) => (&poll.call, vec![&poll.items, &poll.id, &poll.cursor]),
            Trigger::Event(event) => (&event.call, Vec::new()),
            _ => return None,
        };
        let action = registry.action(&call.action.name);
        let connection = call.connection.as_ref().map_or("", |connection| &connection.name);
        let text = |inputs: &dyn Fn(&str) -> bool| {
            let mut words = call.action.name.clone();
            for (name, template) in call.with.iter().filter(|(name, _)| inputs(&name.name)) {
                words = format!("{words} {}={}", name.name, canonical_text(template));
            }
            let expressions =
                expressions.iter().copied().flatten().map(|expression| expression.text().to_owned());
            [words, connection.to_owned()].into_iter().chain(expressions).collect::<Vec<_>>().join(" | ")
        };
        Some(Self {
            text: text(&|name| !action.is_some_and(|action| action.transport_inputs().contains(&name))),
            with_all_inputs: text(&|_| true),
        })
    }

    /// The text to store with the position.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// True if a position that is stored with this text is one of this source.
    #[must_use]
    pub fn is_of(&self, stored: &str) -> bool {
        stored == self.text || stored == self.with_all_inputs
    }
}
