//! Tells the own events of files from events of connectors, and finds who sends an event, who starts on it, and who takes the messages of a broker.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::automation::{Automation, Level, LeveledWord, OwnEventTrigger, Trigger};

use super::Catalog;
use super::file::FileKind;
use super::relations::RelationKind;
use crate::check::{self, Consumer, NameKind, Taker, connector_of, possible_event};

impl Catalog {
    /// Returns a copy of the automation in which the events that belong to no connector are own events; `None` if it has no such event.
    #[must_use]
    pub fn with_own_events(&self, automation: &Automation) -> Option<Automation> {
        let is_own = |trigger: &Trigger| {
            let event = if let Trigger::Event(_) = trigger { possible_event(trigger) } else { None };
            event.is_some_and(|event| connector_of(&event.name, &self.registry).is_none())
        };
        let first = automation.triggers.iter().find(|trigger| is_own(&trigger.on))?;
        let mut next = automation.clone();
        next.leveled_word.get_or_insert_with(|| LeveledWord {
            level: Level::SECOND,
            word: "own event".to_owned(),
            span: first.span,
        });
        for trigger in next.triggers.iter_mut().filter(|trigger| is_own(&trigger.on)) {
            if let Some(name) = possible_event(&trigger.on).cloned() {
                trigger.on =
                    Trigger::Own(Box::new(OwnEventTrigger { name, data: Vec::new(), data_span: None }));
            }
        }
        Some(next)
    }

    /// Returns the own events that files send, wait for or start on, by name.
    #[must_use]
    pub fn own_event_names(&self) -> BTreeSet<Arc<str>> {
        let names = self.folder.files(FileKind::Automation).filter_map(|(_, file)| file.dependencies());
        let events = names.flat_map(|uses| uses.names.iter()).filter(|(kind, _)| *kind == NameKind::Event);
        let own = events.filter(|(_, name)| connector_of(name, &self.registry).is_none());
        own.map(|(_, name)| name.clone()).collect()
    }

    /// Returns the triggers of the files that start on an own event, by path.
    pub(super) fn consumers(&self, event: &str) -> Vec<Consumer> {
        if connector_of(event, &self.registry).is_some() {
            return Vec::new();
        }
        let mut found = Vec::new();
        for path in self.relations.paths_with(RelationKind::StartsOn, event) {
            let loaded = self.folder.get(path).and_then(|file| file.automation());
            let Some((automation, _)) = loaded.and_then(|loaded| loaded.for_checking()) else { continue };
            let triggers = automation
                .triggers
                .iter()
                .filter(|trigger| possible_event(&trigger.on).is_some_and(|possible| possible.name == event));
            found.extend(triggers.map(|trigger| Consumer {
                path: path.clone(),
                trigger: trigger.id.clone(),
                data:
                    trigger.on.own_event().filter(|own| own.data_span.is_some()).map(|own| own.data.clone()),
            }));
        }
        found
    }

    /// Returns the enabled triggers of the files that take messages from a place at a broker, by path.
    pub(super) fn takers(&self, place: &str) -> Vec<Taker> {
        let mut found = Vec::new();
        for path in self.relations.paths_with(RelationKind::TakesMessages, place) {
            let loaded = self.folder.get(path).and_then(|file| file.automation());
            let Some((automation, _)) = loaded.and_then(|loaded| loaded.for_checking()) else { continue };
            found.extend(check::takers(automation, path, place));
        }
        found
    }

    /// Returns the path of a file that sends the event by its name.
    pub(super) fn sender(&self, event: &str) -> Option<Arc<str>> {
        self.relations.paths_with(RelationKind::Sends, event).next().cloned()
    }

    /// Returns true if a file sends the event, or events with a computed name that may be this one.
    pub(super) fn may_be_sent(&self, event: &str) -> bool {
        let mut prefixes = (0..=event.len()).filter_map(|end| event.get(..end));
        self.sender(event).is_some()
            || prefixes
                .any(|prefix| self.relations.paths_with(RelationKind::SendsPrefix, prefix).next().is_some())
    }

    /// Returns the sent name that most resembles `event`.
    pub(super) fn nearest_sent(&self, event: &str) -> Option<String> {
        let names = self.relations.names(RelationKind::Sends).map(|name| &**name);
        text::diagnostic::nearest(event, names).map(str::to_owned)
    }
}
